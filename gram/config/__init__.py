"""Every setting, typed and strict: an unknown key is an error."""

from gram.config.baselines import ArConfig, D3pmConfig, DenoiserConfig, MdlmConfig, TransformerConfig, VaeConfig
from gram.config.files import RECIPES, find_recipe, load_recipe, parse_options
from gram.config.model import ImageSection, ModelConfig, ObjectiveConfig
from gram.config.recipe import (
    MODEL_KINDS,
    Recipe,
    TaskConfig,
    TrainConfig,
    model_settings,
    packaged_model,
    parse_recipe,
    stored_recipe,
)
from gram.config.sampling import SampleOptions, settings_text
from gram.config.section import Section, describe

__all__ = [
    "MODEL_KINDS",
    "RECIPES",
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
    "find_recipe",
    "load_recipe",
    "model_settings",
    "packaged_model",
    "parse_options",
    "parse_recipe",
    "settings_text",
    "stored_recipe",
]
