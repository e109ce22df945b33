"""Generative recursive reasoning: small networks that refine a latent state and sample diverse solutions."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from gram.errors import GramError

__version__ = "0.1.0"

_EXPORTS = {
    "ModelConfig": "gram.config",
    "ModelInfo": "gram.checkpoints.find",
    "Reasoner": "gram.models.reasoner",
    "Recipe": "gram.config",
    "Result": "gram.result",
    "Solver": "gram.solver",
    "evaluate": "gram.solver",
    "list_models": "gram.checkpoints.find",
    "load": "gram.solver",
    "train": "gram.training.api",
}
"""Where each public name is; it is imported on first use, so that `gram --help` need not wait for torch."""
__all__ = ["GramError", "__version__", *_EXPORTS]

if TYPE_CHECKING:
    from gram.checkpoints.find import ModelInfo as ModelInfo
    from gram.checkpoints.find import list_models as list_models
    from gram.config import ModelConfig as ModelConfig
    from gram.config import Recipe as Recipe
    from gram.models.reasoner import Reasoner as Reasoner
    from gram.result import Result as Result
    from gram.solver import Solver as Solver
    from gram.solver import evaluate as evaluate
    from gram.solver import load as load
    from gram.training.api import train as train


def __getattr__(name: str) -> Any:
    """Import a public name when it is first used."""
    if name in _EXPORTS:
        return getattr(import_module(_EXPORTS[name]), name)
    raise AttributeError(f"module 'gram' has no attribute '{name}'")


def __dir__() -> list[str]:
    return sorted(__all__)
