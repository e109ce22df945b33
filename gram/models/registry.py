"""All models that a recipe can select."""

from importlib.metadata import entry_points

from gram.config import Recipe
from gram.errors import GramError
from gram.models.base import Model
from gram.models.baselines.ar import Autoregressive
from gram.models.baselines.d3pm import D3pm
from gram.models.baselines.mdlm import Mdlm
from gram.models.baselines.vae import Vae
from gram.models.reasoner import Reasoner
from gram.tasks.base import Structure

MODELS: dict[str, type[Model]] = {"reasoner": Reasoner, "ar": Autoregressive, "mdlm": Mdlm, "d3pm": D3pm, "vae": Vae}
"""Model classes by kind; packages add their own by an entry point in the group `gram.models`."""


def model_class(kind: str) -> type[Model]:
    """Return the class of a kind of model; the recipe has already checked the kind."""
    if kind in MODELS:
        return MODELS[kind]
    (point,) = entry_points(group="gram.models", name=kind)
    found: type[Model] = point.load()
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
