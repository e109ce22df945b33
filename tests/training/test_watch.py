"""A leak is named once, when it is one, and a run that diverges leaves what is needed to study it."""

import io
import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console
from safetensors import safe_open

from gram.config import Recipe
from gram.errors import GramError
from gram.training.loop import resume, train
from gram.training.step import Trainer
from gram.training.watch import PATIENCE, LeakWatch, MemorisationWatch


def line(posterior: float, rollout: float, **more: float) -> dict[str, float]:
    return {"posterior_accuracy": posterior, "rollout_accuracy": rollout, "kl_1": 0.1, **more}


def test_a_gap_that_stays_is_named_once() -> None:
    watch = LeakWatch()
    said = [watch.notice(line(0.9, 0.02)) for _ in range(3 * PATIENCE)]
    assert [number for number, text in enumerate(said) if text] == [PATIENCE]  # the first line is a rise from nothing
    assert "objective.beta" in str(said[PATIENCE])
    assert "below about 3 per labelled token" in str(said[PATIENCE])


@pytest.mark.parametrize(
    "lines",
    [
        [line(0.9, 0.03 * step) for step in range(30)],  # rising
        [line(0.3, 0.0)] * 30,  # the posterior is not right either
        [line(0.9, 0.5)] * 30,  # a small gap
        [line(0.9, math.nan)] * 30,  # no trajectory has ended
        [{"posterior_accuracy": 0.9, "rollout_accuracy": 0.0}] * 30,  # no guidance
    ],
    ids=["rising", "early", "small", "nothing", "deterministic"],
)
def test_what_is_no_leak_is_not_called_one(lines: list[dict[str, float]]) -> None:
    watch = LeakWatch()
    assert [watch.notice(figures) for figures in lines] == [None] * 30


def warnings(pairs: list[tuple[float, float]]) -> list[int]:
    """Which of some (training, validation) accuracies, each after two lines of the log, bring a warning."""
    watch, found = MemorisationWatch(), []
    for number, (training, validation) in enumerate(pairs):
        for rollout in (training - 0.1, math.nan, training + 0.1):
            assert watch.notice(line(0.0, rollout)) is None
        if watch.notice({"validation_accuracy_all_samples": validation}) is not None:
            found.append(number)
    return found


def test_examples_that_are_learned_by_heart_are_named_once() -> None:
    assert warnings([(0.44, 0.2)] * 5) == [1]
    assert warnings([(0.44, 0.2), (0.44, 0.4), (0.44, 0.2), (0.44, 0.2)]) == [3]  # two in a row


@pytest.mark.parametrize("pair", [(0.2, 0.0), (0.44, 0.3), (0.9, 0.95)])
def test_a_small_gap_is_not_memorisation(pair: tuple[float, float]) -> None:
    assert warnings([pair] * 5) == []


def test_a_resumed_run_remembers_what_its_watches_have_seen(
    queens_recipe: Callable[..., Recipe], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def noticed(watch: LeakWatch, metrics: dict[str, float]) -> None:
        watch.behind += 1
        seen.append(watch.behind)

    def stopped(trainer: Trainer) -> dict[str, Any]:
        if trainer.step_number == 3:
            raise KeyboardInterrupt
        return step(trainer)

    seen: list[int] = []
    step = Trainer.step
    monkeypatch.setattr(LeakWatch, "notice", noticed)
    steps = {"steps": 5, "log_every": 1, "save_every": 1, "eval_every": 5}
    with monkeypatch.context() as patch:
        patch.setattr(Trainer, "step", stopped)
        with pytest.raises(KeyboardInterrupt):
            train(queens_recipe(train=steps), tmp_path / "run", Console(file=io.StringIO()))
    resume(tmp_path / "run", Console(file=io.StringIO()))
    assert seen == [1, 2, 3, 4, 5, 6]  # a line after every step, and the validation


def test_a_run_that_diverges_leaves_its_state(queens_recipe: Callable[..., Recipe], tmp_path: Path) -> None:
    recipe = queens_recipe(train={"lr": 1e30, "warmup": 0, "steps": 50})
    with pytest.raises(GramError, match="diverged at step") as raised:
        train(recipe, tmp_path / "run", Console(file=io.StringIO()))
    with safe_open(tmp_path / "run" / "diverged.safetensors", framework="pt") as file:
        other = json.loads(file.metadata()["other"])
        assert f"step {other['step']} " in str(raised.value)
        assert len(other["rows"]) == recipe.train.slots
        index, finished = (file.get_tensor(f"slots.{name}").flatten() for name in ("index", "finished"))
        assert index[~finished].tolist() == [row for row, new in zip(other["rows"], finished, strict=True) if not new]
