"""The numbers that the published HRM and TRM code computed, and ours beside them."""

import json
from pathlib import Path
from typing import Any

import torch
from safetensors import safe_open
from safetensors.torch import load_file
from torch import Tensor

from gram.models.reasoner import Reasoner

GOLDEN = Path(__file__).parents[1] / "golden"
MODELS = ("hrm", "trm_mlp", "trm_attention")


def golden(name: str) -> tuple[Path, str, dict[str, Tensor]]:
    path = GOLDEN / f"{name}.safetensors"
    return path, name.partition("_")[0], load_file(path)


def published_weights(name: str) -> dict[str, Tensor]:
    return {key.removeprefix("weights."): t for key, t in golden(name)[2].items() if key.startswith("weights.")}


def published_config(name: str) -> dict[str, Any]:
    with safe_open(GOLDEN / f"{name}.safetensors", framework="pt") as file:
        return dict(json.loads(file.metadata()["config"]))


def no_noise(_transition: int) -> None:
    """A deterministic model has none."""


def first_logits(model: Reasoner, numbers: dict[str, Tensor]) -> Tensor:
    with torch.no_grad():
        e_x = model.encoder(numbers["inputs"], numbers["puzzle_identifiers"])
        return model.decoder.logits(model.step(model.initial_state(len(e_x)), e_x, no_noise).state.h)


def assert_same_logits(model: Reasoner, numbers: dict[str, Tensor]) -> None:
    torch.testing.assert_close(first_logits(model, numbers), numbers["step0.logits"], rtol=0, atol=1e-3)
