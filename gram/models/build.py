"""Every model that a recipe can name."""

from typing import Protocol

from gram.config import Recipe
from gram.models.baselines.model import Generative
from gram.models.reasoner import Reasoner
from gram.tasks.base import Structure, Task

Model = Reasoner | Generative


class Trained(Protocol):
    """A model together with its task, such as `gram.Solver`."""

    model: Model
    task: Task


def build_model(recipe: Recipe, *, vocab_size: int, length: int, structure: Structure | None = None) -> Model:
    """A fresh model by the recipe's `generative` section if it has one, else by its `model` section."""
    if recipe.generative is not None:
        return Generative(recipe.generative, vocab_size=vocab_size, length=length)
    return Reasoner(recipe.model, vocab_size=vocab_size, length=length, structure=structure)
