"""A tiny recipe of each kind, keys of noise, and a plain form of what the samplers do more cleverly."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from gram.config import Recipe
from gram.models.baselines.base import CHOICES, draw
from gram.models.noise import derive, example_keys, uniform

SMALL = {"dim": 16, "layers": 1, "heads": 2, "hidden": 16}
KINDS: dict[str, dict[str, Any]] = {
    "ar": {"kind": "ar", **SMALL},
    "mdlm": {"kind": "mdlm", **SMALL, "sample_steps": 8},
    "d3pm": {"kind": "d3pm", **SMALL, "steps": 6, "time_dim": 8},
    "absorbing d3pm": {"kind": "d3pm", **SMALL, "noise": "absorbing", "steps": 6, "time_dim": 8},
    "vae": {"kind": "vae", "hidden": 16, "latent": 4},
}


def recipe_of_kind(queens_recipe: Callable[..., Recipe], kind: str) -> Recipe:
    """Return a recipe of one of `KINDS` for five queens; for digits, if it is a VAE."""
    base = queens_recipe().model_dump(mode="json")
    task = {"name": "digits", "options": {}} if kind == "vae" else base["task"]
    return Recipe.model_validate({**base, "task": task, "model": KINDS[kind]})


def keys(rows: int, seed: int = 0) -> Tensor:
    """The keys [rows] of the first examples of a run."""
    return example_keys(torch.arange(rows), seed)


def reveal_eagerly(noisy: Tensor, mask: int, share: float, predict: Callable[[Tensor], Tensor], key: Tensor) -> Tensor:
    """`reveal` with a prediction for every row in every step."""
    revealed = (noisy == mask) & (uniform(key, noisy.shape[1]) < share)
    drawn = draw(predict(torch.arange(len(noisy))), uniform(derive(key, CHOICES), noisy.shape[1]))
    return torch.where(revealed, drawn, noisy)
