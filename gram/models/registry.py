"""All models that a recipe can select."""

from gram.config import Recipe, packaged_model
from gram.errors import GramError
from gram.models.base import Model
from gram.models.baselines.ar import Autoregressive
from gram.models.baselines.d3pm import D3pm
from gram.models.baselines.mdlm import Mdlm
from gram.models.baselines.vae import Vae
from gram.models.reasoner import Reasoner
from gram.tasks.base import Structure

MODELS: dict[str, type[Model]] = {
    str(model.settings.model_fields["kind"].default): model for model in (Reasoner, Autoregressive, Mdlm, D3pm, Vae)
}
"""Model classes by the kind that their settings name."""


def model_class(kind: str) -> type[Model]:
    """Return the class of a kind of model; the recipe has already checked the kind."""
    found: type[Model] = MODELS[kind] if kind in MODELS else packaged_model(kind)
    return found


def build_model(recipe: Recipe, *, vocab_size: int, length: int, structure: Structure | None = None) -> Model:
    """Build a model from the `model` and `objective` sections of a recipe."""
    return model_class(recipe.kind).build(
        recipe.model, recipe.objective, vocab_size=vocab_size, length=length, structure=structure or Structure()
    )


def as_reasoner(model: Model, message: str) -> Reasoner:
    """Return a recursive model itself; raise `GramError` with the message for any other."""
    if not isinstance(model, Reasoner):
        raise GramError(message)
    return model
