"""Two real processes, started by torchrun and joined by gloo, train what one process with all slots would train."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
import yaml
from safetensors.torch import load_file

from gram.config import Recipe
from gram.errors import GramError
from gram.training.distributed import SlotSharding
from gram.training.run_checkpoint import checkpoints_of

RecipeBuilder = Callable[..., Recipe]
VARIANTS: dict[str, dict[str, Any]] = {
    "gram": {"objective": {"learn_from_rollouts": True, "prior_share": 0.5}},
    "trm": {
        "model": {"guidance": "none"},
        "objective": {"prior_share": 0, "heads_reach_core": True},
        "train": {"halt_in_training": True},
    },
    "puzzles": {
        "task": {"name": "tokens", "options": {"path": "ids.jsonl"}},
        "model": {"puzzle_tokens": 2},
        "objective": {"prior_share": 0.25},
        "train": {"pool": 24},
    },
}


def write_recipe(queens_recipe: RecipeBuilder, folder: Path, variant: str, **changes: Any) -> Path:
    rows = [{"input": [i // 8 + 1, i % 8, 3], "target": [i % 8, 3, i // 8 + 1], "id": i % 6} for i in range(64)]
    (folder / "ids.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    sections = {name: dict(content) for name, content in VARIANTS[variant].items()}
    settings = {"steps": 10, "slots": 8, "save_every": 10, "eval_every": 5, "log_every": 5, "warmup": 20, "threads": 1}
    sections["train"] = settings | sections.get("train", {}) | changes
    content = queens_recipe(**sections).model_dump(mode="json")
    for name in ("heads", *(("guidance_hidden",) if content["model"]["guidance"] == "none" else ())):
        del content["model"][name]  # which do nothing here
    if variant == "puzzles":
        content["task"] = VARIANTS[variant]["task"]
    path = folder / f"{variant}.yaml"
    path.write_text(yaml.safe_dump(content))
    return path


def command(processes: int, *arguments: object, restarts: int = 0) -> list[str]:
    gram = ["-m", "gram", "train", *map(str, arguments)]
    if processes == 1:
        return [sys.executable, *gram]
    options = ["--standalone", f"--nproc-per-node={processes}", f"--max-restarts={restarts}", "--monitor-interval=0.1"]
    return [sys.executable, "-m", "torch.distributed.run", *options, *gram]


def run(folder: Path, line: list[str]) -> subprocess.CompletedProcess[str]:
    return subprocess.run(line, cwd=folder, capture_output=True, text=True, check=False, timeout=240)


@pytest.mark.parametrize("variant", VARIANTS)
def test_two_processes_train_what_one_trains(queens_recipe: RecipeBuilder, tmp_path: Path, variant: str) -> None:
    recipe = write_recipe(queens_recipe, tmp_path, variant)
    for processes in (1, 2):
        done = run(tmp_path, command(processes, recipe, "--out", f"run{processes}"))
        assert done.returncode == 0, done.stderr
    one, two = (load_file(checkpoints_of(tmp_path / name)[0]) for name in ("run1", "run2"))
    assert one.keys() == two.keys()
    for name in one:
        # Not the same bits: the exchange adds gradients up in another order. States amplify that, weights must not.
        tolerance = 1e-3 if name.startswith(("slots.", "log.")) else 1e-5
        close = torch.allclose(one[name].double(), two[name].double(), rtol=0, atol=tolerance, equal_nan=True)
        assert close, f"{name} differs by {(one[name].double() - two[name].double()).abs().max()}"
    lines = [(tmp_path / name / "metrics.jsonl").read_text().splitlines() for name in ("run1", "run2")]
    for left, right in zip(*lines, strict=True):
        a, b = json.loads(left), json.loads(right)
        assert a.keys() == b.keys()
        for key in ("loss", "reconstruction", "validation_negative_elbo"):
            if key in a:
                assert a[key] == pytest.approx(b[key], abs=1e-4)
    figures = [json.loads((tmp_path / name / "test.json").read_text()) for name in ("run1", "run2")]
    assert figures[0]["split_hash"] == figures[1]["split_hash"]


def test_a_process_that_dies_stops_the_run_and_a_restart_goes_on(queens_recipe: RecipeBuilder, tmp_path: Path) -> None:
    recipe = write_recipe(queens_recipe, tmp_path, "gram", steps=150, save_every=10, eval_every=1000)
    line = command(2, recipe, "--resume", "run", restarts=3)
    process = subprocess.Popen(line, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    deadline = time.monotonic() + 120
    while not checkpoints_of(tmp_path / "run"):
        assert process.poll() is None
        assert time.monotonic() < deadline
        time.sleep(0.01)
    os.kill(_second_worker(process.pid), signal.SIGKILL)
    out, err = process.communicate(timeout=240)
    assert process.returncode == 0, err
    assert "Resuming after step" in out
    assert "Another process of the run has died" in err
    steps = [json.loads(text)["step"] for text in (tmp_path / "run" / "metrics.jsonl").read_text().splitlines()]
    assert steps == sorted(steps)
    assert steps[-1] == 150


def _second_worker(agent: int) -> int:
    children = Path(f"/proc/{agent}/task/{agent}/children").read_text().split()
    for child in children:
        if b"RANK=1" in Path(f"/proc/{child}/environ").read_bytes().split(b"\0"):
            return int(child)
    raise AssertionError("torchrun has no second worker")


def test_slots_that_cannot_be_dealt_are_refused(queens_recipe: RecipeBuilder, tmp_path: Path) -> None:
    recipe = write_recipe(queens_recipe, tmp_path, "gram", slots=1)
    done = run(tmp_path, command(2, recipe, "--out", "run"))
    assert done.returncode == 1
    assert done.stderr.count("2 processes need at least as many slots") == 1
    assert not (tmp_path / "run").exists()


class Fake:
    """A fabric of four processes, as one of them."""

    world_size = 4

    def __init__(self, rank: int = 2) -> None:
        self.global_rank = rank


def test_every_slot_is_dealt_once_and_every_process_has_its_part_of_the_rollouts() -> None:
    places = [SlotSharding(24, 8, Fake(rank)).own.tolist() for rank in range(4)]  # type: ignore[arg-type]
    assert sorted(place for part in places for place in part) == list(range(24))
    assert [[place < 8 for place in part] for part in places] == [[True] * 2 + [False] * 4] * 4
    assert SlotSharding(24, 8).own.tolist() == list(range(24))


def test_what_is_gathered_is_in_the_order_of_the_run() -> None:
    fabric = Fake()
    run = torch.arange(24)[:, None] * torch.ones(3)
    parts = [run[SlotSharding(24, 8, Fake(rank)).own] for rank in range(4)]  # type: ignore[arg-type]
    fabric.all_gather = lambda _own: torch.stack(parts)  # type: ignore[attr-defined]
    assert torch.equal(SlotSharding(24, 8, fabric).gather(parts[2]), run)  # type: ignore[arg-type]


@pytest.mark.parametrize(("slots", "rollouts"), [(26, 8), (24, 6)])
def test_slots_or_rollouts_that_are_no_multiple_of_the_processes_are_refused(slots: int, rollouts: int) -> None:
    with pytest.raises(GramError, match="cannot be split"):
        SlotSharding(slots, rollouts, Fake())  # type: ignore[arg-type]
