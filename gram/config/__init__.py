"""Every setting, typed and strict: an unknown key is an error, never a silent default."""

from gram.config.baselines import ArConfig, D3pmConfig, DenoiserConfig, MdlmConfig, TransformerConfig, VaeConfig
from gram.config.files import load_recipe, parse_options
from gram.config.model import ImageSection, ModelConfig, ObjectiveConfig
from gram.config.recipe import MODEL_KINDS, Recipe, TaskConfig, TrainConfig, model_settings, parse_recipe
from gram.config.sampling import SampleOptions
from gram.config.section import Section, describe

__all__ = [
    "MODEL_KINDS",
    "ArConfig",
    "D3pmConfig",
    "DenoiserConfig",
    "ImageSection",
    "MdlmConfig",
    "ModelConfig",
    "ObjectiveConfig",
    "Recipe",
    "SampleOptions",
    "Section",
    "TaskConfig",
    "TrainConfig",
    "TransformerConfig",
    "VaeConfig",
    "describe",
    "load_recipe",
    "model_settings",
    "parse_options",
    "parse_recipe",
]
