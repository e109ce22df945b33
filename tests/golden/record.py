"""Record what training and the shipped models compute now, for `tests/test_golden.py` to compare with later.

    python tests/golden/record.py            # renews losses.json and outputs.json, on purpose only

Losses are those of the first updates of recipes at a small batch; outputs are those of the shipped models for a fixed
puzzle and seed, with the logits after the first supervision step.
"""

import hashlib
import json
import platform
from pathlib import Path
from typing import Any

import numpy as np
import torch

from gram.checkpoints.find import shipped_models
from gram.config import SampleOptions, load_recipe
from gram.inference.sample import sample
from gram.solver import Solver
from gram.tasks import make_task
from gram.training.launch import make_fabric
from gram.training.step import Trainer

HERE = Path(__file__).parent
RECIPES = HERE.parents[1] / "gram" / "recipes"
SMALL = ["train.slots=8", "train.pool=0", "train.micro_batch=0", "train.steps=20", "train.threads=1"]
RUNS: dict[str, list[str]] = {
    **{f"nqueens-8/{name}": [] for name in ("gram", "trm", "hrm", "looped", "flat-gram", "ar", "mdlm")},
    "colouring-8/gram": [],
    "digits/gram": [],
    "digits/d3pm": [],
    "digits/vae": [],
    "sudoku-generation/gram": ["task.options.train_boards=300"],
    "sudoku-extreme/structured": ["task.name=sudoku-4", "train.pool=24"],
}
"""Recipes, and what makes them quick."""
PUZZLES = {
    "colouring-8": "0-1, 0-2, 1-3, 2-3, 3-4, 4-5, 5-6, 6-7",
    "colouring-10": "0-1, 0-2, 1-3, 2-3, 3-4, 4-5, 5-6, 6-7, 7-8, 8-9",
    "nqueens-8": "Q......./" + "/".join(["........"] * 7),
    "nqueens-10": "..Q......./" + "/".join([".........."] * 9),
    "sudoku-extreme": "..............3.85..1.2.......5.7.....4...1...9.......5......73..2.1........4...9",
}
"""What the shipped models are asked; those that are not named start from a blank input."""


def machine() -> str:
    """A name for the arithmetic at hand: where it is the same, results are equal to the last bit."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        lines = [platform.processor()]
    described = sorted({line for line in lines if line.startswith(("model", "flags", "Features"))})
    kind = f"{platform.machine()} {torch.__version__} {np.__version__} {described}"
    return hashlib.sha256(kind.encode()).hexdigest()[:16]


def losses(name: str, overrides: list[str]) -> list[float]:
    """The loss of each of the first updates of a recipe."""
    given = {override.partition("=")[0] for override in overrides}
    small = [override for override in SMALL if override.partition("=")[0] not in given]
    recipe = load_recipe(RECIPES / f"{name}.yaml", [*small, *overrides])
    torch.set_num_threads(1)
    task = make_task(recipe.task.name, **recipe.task.options)
    trainer = Trainer(recipe, task, task.split("train"), make_fabric("cpu", "32-true"))
    return [float(trainer.step()["loss"].detach()) for _ in range(recipe.train.steps)]


def outputs(name: str) -> dict[str, Any]:
    """What a shipped model answers at depth 4 x width 3, and its logits for two cells after the first step."""
    torch.set_num_threads(1)
    solver = Solver.from_pretrained(name, device="cpu")
    given = solver.task.parse(PUZZLES.get(name, ""))[None]
    drawn = sample(solver.model, given, SampleOptions(width=3, depth=4, seed=5))
    e_x = solver.reasoner.encoder(torch.from_numpy(given))
    state = solver.reasoner.initial_state(1)
    with torch.no_grad():
        state = solver.reasoner.step(state, e_x, lambda _t: torch.ones_like(state.h)).state
        logits = solver.reasoner.decoder.logits(state.h)[0, :2].flatten()
    whole = drawn.outputs.tobytes() + drawn.values.tobytes() + drawn.confidence.tobytes()
    return {
        "digest": hashlib.sha256(whole).hexdigest()[:16],
        "first": drawn.outputs[0, 0].tolist(),
        "logits": logits.tolist(),
    }


def write(name: str, content: dict[str, Any]) -> None:
    (HERE / name).write_text(json.dumps({"machine": machine(), **content}, indent=1) + "\n")


if __name__ == "__main__":
    write("losses.json", {name: losses(name, changes) for name, changes in RUNS.items()})
    write("outputs.json", {name: outputs(name) for name in shipped_models()})
