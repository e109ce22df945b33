"""Every model that a recipe can name."""

from gram.config import Recipe
from gram.generative.model import Generative
from gram.nn.reasoner import Reasoner
from gram.tasks.base import Structure

Model = Reasoner | Generative


def build_model(recipe: Recipe, *, vocab_size: int, length: int, structure: Structure | None = None) -> Model:
    """A fresh model by the recipe's `generative` section if it has one, else by its `model` section."""
    if recipe.generative is not None:
        return Generative(recipe.generative, vocab_size=vocab_size, length=length)
    return Reasoner(recipe.model, vocab_size=vocab_size, length=length, structure=structure)
