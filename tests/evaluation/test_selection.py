"""One pass over the same trajectories gives what sampling at every depth and width would; heads against the checker."""

from collections.abc import Callable

import numpy as np
import pytest
from sklearn.metrics import roc_auc_score

from gram.config import SampleOptions
from gram.errors import GramError
from gram.evaluation.calibration import calibration
from gram.evaluation.evaluate import evaluate
from gram.experiments.scaling import study
from gram.inference.judge import judge
from gram.inference.sample import Trajectories, sample
from gram.models.reasoner import Reasoner
from gram.solver import load
from gram.tasks.nqueens import NQueens

ModelBuilder = Callable[..., Reasoner]


@pytest.fixture(scope="module")
def kept() -> tuple[NQueens, np.ndarray, Reasoner, Trajectories]:
    solver = load("nqueens-8")
    inputs = solver.task.split("test").distinct(12).inputs
    return solver.task, inputs, solver.model, sample(solver.model, inputs, SampleOptions(5, 3, keep_steps=True))


def test_a_study_is_the_evaluation_at_every_depth_and_width(
    kept: tuple[NQueens, np.ndarray, Reasoner, Trajectories],
) -> None:
    task, inputs, model, found = kept
    records = study(task, inputs, [(depth, found.at_depth(depth)) for depth in (1, 3)], [1, 2, 5])
    assert [(record["depth"], record["width"]) for record in records] == [(d, w) for d in (1, 3) for w in (1, 2, 5)]
    for record in records:
        options = SampleOptions(width=record["width"], depth=record["depth"])
        alone = evaluate(model, task, "test", options, limit=12)["all_inputs"]
        assert record["coverage"] == pytest.approx(alone["coverage"])
        for rule, share in alone["selection"].items():
            assert record[rule] == pytest.approx(share), rule
        assert record["first"] == alone["accuracy"]
        assert record["verified"] == alone["any_valid"]


def test_calibration_is_the_checkers_word_against_the_heads(
    kept: tuple[NQueens, np.ndarray, Reasoner, Trajectories],
) -> None:
    task, inputs, _, found = kept
    figures = calibration(task, inputs, found)
    valid = judge(task, inputs, found.history[0]).valid
    halt, value = figures["halt"], figures["value"]
    assert halt["auc"] == pytest.approx(roc_auc_score(valid.ravel(), found.step_confidence.ravel()))
    at_the_end = np.repeat(valid[..., -1:], 3, axis=-1)
    assert value["brier"] == pytest.approx(float(np.square(found.step_values - at_the_end).mean()), rel=1e-4)
    assert halt["base_rate"] == pytest.approx(valid.mean())
    assert len(halt["auc_by_step"]) == 3
    assert all(0 <= point["predicted"] <= 1 and 0 <= point["true"] <= 1 for point in halt["curve"])


def test_calibration_needs_every_step(kept: tuple[NQueens, np.ndarray, Reasoner, Trajectories]) -> None:
    task, inputs, model, _ = kept
    with pytest.raises(GramError, match="keep_steps"):
        calibration(task, inputs, sample(model, inputs, SampleOptions(2, 1)))


def test_a_task_without_rules_cannot_be_judged(
    kept: tuple[NQueens, np.ndarray, Reasoner, Trajectories], monkeypatch: pytest.MonkeyPatch
) -> None:
    task, inputs, _, found = kept
    monkeypatch.setattr(type(task), "has_rules", False)
    with pytest.raises(GramError, match="no checker"):
        calibration(task, inputs, found)
