"""A run that is stopped, killed or damaged goes on to exactly the weights of a run that nobody disturbed."""

import io
import json
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from rich.console import Console
from safetensors.torch import load_file

from gram.config import Recipe
from gram.errors import GramError, Interrupted
from gram.files import read_json, write_json
from gram.training import loop
from gram.training.loop import resume, train
from gram.training.run_checkpoint import checkpoints_of, read_run
from gram.training.step import Trainer

RecipeBuilder = Callable[..., Recipe]
QUIET = Console(file=io.StringIO())
STEPS = 24
VARIANTS: dict[str, dict[str, Any]] = {
    "gram": {"objective": {"learn_from_rollouts": True, "prior_share": 0.5}},
    "gram, with a pool": {"train": {"pool": 24}},
    "trm": {"model": {"guidance": "none"}, "objective": {"prior_share": 0}, "train": {"halt_in_training": True}},
    "images, with a reserve": {
        "task": {"name": "digits", "options": {}},
        "model": {"image": [8, 8]},
        "objective": {"learn_from_rollouts": True, "prior_share": 0.5, "reserve": 9},
    },
    "released when solved": {  # graphs of so few edges that about 36 slots are released early
        "task": {"name": "colouring-4", "options": {"edge_probability": 0.15}},
        "train": {"lifetime": [2, 12], "release": 0.5, "pool": 24, "lr": 0.03, "warmup": 1},
    },
    "fixed noise, lifetimes": {"model": {"guidance": "fixed"}, "train": {"lifetime": [1, 5]}},
    "flat, adam_atan2": {"model": {"state": "flat"}, "train": {"optimizer": "adam_atan2"}},
}


def recipe_for(queens_recipe: RecipeBuilder, variant: str, **changes: Any) -> Recipe:
    sections = VARIANTS[variant]
    settings = {"steps": STEPS, "log_every": 5, "eval_every": 10, "save_every": 4, "threads": 1}
    return queens_recipe(**{**sections, "train": settings | sections.get("train", {}) | changes})


def assert_same_run(left: Path, right: Path) -> None:
    """Equal weights to the last bit, and equal metrics but for the time."""
    a, b = (load_file(folder / "model.safetensors") for folder in (left, right))
    assert a.keys() == b.keys()
    assert all(torch.equal(a[name], b[name]) for name in a)
    lines = [
        [{**json.loads(line), "seconds": None} for line in (folder / "metrics.jsonl").read_text().splitlines()]
        for folder in (left, right)
    ]
    assert lines[0] == lines[1]


@pytest.fixture(scope="module", params=VARIANTS)
def undisturbed(request: Any, queens_recipe: RecipeBuilder, tmp_path_factory: Any) -> tuple[str, Path]:
    out = tmp_path_factory.mktemp("undisturbed") / "run"
    train(recipe_for(queens_recipe, request.param), out, QUIET)
    return request.param, out


def stop_after(monkeypatch: pytest.MonkeyPatch, steps: int) -> None:
    """Let the scheduler's signal come in the middle of a step."""
    step = Trainer.step

    def interrupted(self: Trainer) -> dict[str, Any]:
        if self.step_number == steps - 1:
            os.kill(os.getpid(), signal.SIGTERM)
        return step(self)

    monkeypatch.setattr(Trainer, "step", interrupted)


@pytest.mark.parametrize("steps", [1, 7, 20])
def test_a_run_that_was_asked_to_stop_goes_on_bit_for_bit(
    undisturbed: tuple[str, Path],
    queens_recipe: RecipeBuilder,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    steps: int,
) -> None:
    variant, reference = undisturbed
    with monkeypatch.context() as patch:
        stop_after(patch, steps)
        with pytest.raises(Interrupted, match=f"after step {steps}") as raised:
            train(recipe_for(queens_recipe, variant), tmp_path / "run", QUIET)
    assert raised.value.exit_code == 128 + signal.SIGTERM
    result = resume(tmp_path / "run", QUIET)
    assert result["train_steps"] == STEPS
    assert_same_run(tmp_path / "run", reference)


def test_a_damaged_checkpoint_is_noticed_and_the_one_before_is_used(
    queens_recipe: RecipeBuilder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run, reference = tmp_path / "run", tmp_path / "reference"
    recipe = recipe_for(queens_recipe, "gram")
    train(recipe, reference, QUIET)
    with monkeypatch.context() as patch:
        stop_after(patch, 10)
        with pytest.raises(Interrupted):
            train(recipe, run, QUIET)
    last, before = checkpoints_of(run)
    assert (last.name, before.name) == ("step-00000010.safetensors", "step-00000008.safetensors")
    content = bytearray(last.read_bytes())
    content[-5] ^= 1
    last.write_bytes(content)
    said = io.StringIO()
    resume(run, Console(file=said, width=200))
    assert "step-00000010.safetensors is damaged" in said.getvalue()
    assert "Resuming after step 8" in said.getvalue()
    assert_same_run(run, reference)
    for path in checkpoints_of(run):
        path.write_bytes(path.read_bytes()[:100])
    with pytest.raises(GramError, match="No checkpoint"):
        resume(run, QUIET)


def test_bad_input_is_refused_and_nothing_is_lost(queens_recipe: RecipeBuilder, tmp_path: Path) -> None:
    run = tmp_path / "run"
    train(recipe_for(queens_recipe, "gram"), run, QUIET)
    before = {path: path.read_bytes() for path in run.rglob("*") if path.is_file()}
    with pytest.raises(GramError, match=r"train\.lr is 0\.002 in the run and 0\.5 now"):
        resume(run, QUIET, recipe_for(queens_recipe, "gram", lr=0.5))
    with pytest.raises(GramError, match="already exists"):
        train(recipe_for(queens_recipe, "gram"), run, QUIET)
    with pytest.raises(GramError, match=r"run\.json is missing"):
        resume(tmp_path, QUIET)
    assert before == {path: path.read_bytes() for path in run.rglob("*") if path.is_file()}
    content = read_json(run / "run.json")
    write_json(run / "run.json", content | {"format": 99})
    with pytest.raises(GramError, match="newer than this gram"):
        read_run(run)


def test_a_checkpoint_that_cannot_be_written_leaves_the_last_one(
    queens_recipe: RecipeBuilder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = tmp_path / "run"
    save = loop.save_checkpoint

    def full_disk(folder: Path, tensors: Any, other: dict[str, Any]) -> None:
        if other["step"] == 8:
            with monkeypatch.context() as patch:
                patch.setattr(os, "fsync", _no_space)
                save(folder, tensors, other)
        save(folder, tensors, other)

    monkeypatch.setattr(loop, "save_checkpoint", full_disk)
    with pytest.raises(OSError, match="No space left"):
        train(recipe_for(queens_recipe, "gram"), run, QUIET)
    assert [path.name for path in (run / "checkpoints").iterdir()] == ["step-00000004.safetensors"]


def _no_space(_handle: int) -> None:
    raise OSError(28, "No space left on device")


def start_command(folder: Path) -> int:
    """A real `gram train --resume`; its process id."""
    command = [sys.executable, "-m", "gram", "train", "--resume", str(folder)]
    return subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL).pid


def start_fork(folder: Path) -> int:
    """The same in a process that has imported everything already, so that it takes no seconds to start."""
    if (child := os.fork()) == 0:
        try:
            resume(folder, QUIET)
        finally:
            os._exit(0)
    return child


def kill_again_and_again(folder: Path, start: Callable[[Path], int], kills: int) -> None:
    """Start the run in `folder` as a process of its own and kill it at a random moment, `kills` times."""
    chance = random.Random(kills)
    for _ in range(kills):
        seen = checkpoints_of(folder)[:1]
        child = start(folder)
        # Wait until it has written a checkpoint, so that every life makes progress; then any moment will do.
        while checkpoints_of(folder)[:1] == seen:
            assert os.waitpid(child, os.WNOHANG) == (0, 0), "the run ended before it could be killed"
            time.sleep(0.002)
        time.sleep(chance.uniform(0, 0.05))
        os.kill(child, signal.SIGKILL)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == -signal.SIGKILL


@pytest.mark.parametrize(
    ("start", "kills"),
    [
        (start_fork, 20),
        pytest.param(start_command, 20, marks=[pytest.mark.slow, pytest.mark.timeout(1200)]),
        pytest.param(start_fork, 200, marks=[pytest.mark.slow, pytest.mark.timeout(1200)]),
    ],
)
def test_a_run_that_is_killed_at_random_moments_ends_in_the_same_weights(
    queens_recipe: RecipeBuilder, tmp_path: Path, start: Callable[[Path], int], kills: int
) -> None:
    steps = 15 * kills  # more than it can make between two checkpoints and the moments of the kills
    recipe = recipe_for(queens_recipe, "gram", steps=steps, save_every=5, eval_every=1000, eval_inputs=1)
    train(recipe, tmp_path / "reference", QUIET)
    run = tmp_path / "run"
    loop.begin_run(run, recipe)
    kill_again_and_again(run, start, kills)
    resume(run, QUIET)
    assert_same_run(run, tmp_path / "reference")
