"""The shipped models against their result files."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from rich.console import Console

from gram.experiments import check
from gram.experiments.check import Compared, check_shipped, tenth
from gram.experiments.entry import Entry, Run
from gram.experiments.registry import ENTRIES
from gram.experiments.results import write_result
from gram.tasks.base import Examples
from gram.tasks.nqueens import NQueens

QUEENS = Run(
    "puzzles",
    "nqueens-8",
    "nqueens-8/gram",
    shipped="nqueens-8",
    measure="solutions",
    sampling={"width": 2, "depth": 4},
)
EXTREME = Run("puzzles", "sudoku-extreme", "sudoku-extreme/structured", shipped="sudoku-extreme", measure="solutions")


def test_a_tenth_has_whole_groups_and_is_the_same_every_time() -> None:
    examples = NQueens(size=6).split("train")
    part = tenth(examples)
    groups = np.unique(examples.groups)
    assert len(np.unique(part.groups)) == round(len(groups) / 10)
    for group in np.unique(part.groups):
        assert (part.groups == group).sum() == (examples.groups == group).sum()
    np.testing.assert_array_equal(part.inputs, tenth(examples).inputs)
    assert (
        len(tenth(examples, seed=1).inputs) != len(part.inputs) or (tenth(examples, seed=1).inputs != part.inputs).any()
    )


def test_the_difference_must_be_explained_by_the_intervals() -> None:
    assert Compared("m", "accuracy", 0.95, 0.90, 0.06, 50).agrees
    assert not Compared("m", "accuracy", 0.95, 0.80, 0.06, 50).agrees


def result(accuracy: float) -> dict[str, Any]:
    metrics = {"accuracy": accuracy, "intervals": {"accuracy": [accuracy - 0.01, min(1.0, accuracy + 0.01)]}}
    return {"recipe": "nqueens-8/gram", "metrics": metrics}


@pytest.mark.parametrize(("accuracy", "agrees"), [(0.95, True), (0.3, False)])
def test_a_shipped_model_is_measured_and_compared(
    accuracy: float, agrees: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setitem(ENTRIES, "shipped", Entry("shipped", "shipped", (QUEENS, EXTREME)))

    def few(examples: Examples) -> Examples:
        rows = examples.groups < 12
        return Examples(examples.inputs[rows], examples.targets[rows], examples.groups[rows])

    monkeypatch.setattr(check, "tenth", few)
    write_result(Path("results/shipped/nqueens-8.json"), result(accuracy))
    (found,), skipped = check_shipped(Console(quiet=True))
    assert (found.metric, found.count, found.expected) == ("accuracy", 12, accuracy)
    assert found.agrees == agrees
    assert skipped == {"sudoku-extreme": "there is no result file yet, which `gram reproduce shipped` makes"}


@pytest.mark.parametrize("change", [{"weights": "0" * 64}, {"metrics": {"depth": 8}}, {"recipe": "nqueens-8/trm"}])
def test_an_outdated_result_is_named_and_not_compared(
    change: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setitem(ENTRIES, "shipped", Entry("shipped", "shipped", (QUEENS,)))
    write_result(Path("results/shipped/nqueens-8.json"), result(0.95) | change)
    found, skipped = check_shipped(Console(quiet=True))
    assert found == []
    assert "is outdated" in skipped["nqueens-8"]
    assert "`gram reproduce shipped --only nqueens-8` measures it again" in skipped["nqueens-8"]
