"""The judge of samples."""

import numpy as np
import pytest

from gram.inference.judge import judge
from gram.tasks.colouring.task import FIRST_COLOUR, Colouring
from gram.tasks.nqueens import NQueens


def test_outputs_of_every_shape_are_judged_alike() -> None:
    task = NQueens(size=6)
    examples = task.split("test")
    inputs = examples.inputs[:3]
    outputs = np.random.default_rng(0).permutation(np.repeat(examples.targets[:3], 4, axis=0)).reshape(3, 2, 2, -1)
    whole = judge(task, inputs, outputs)
    assert whole.valid.any()
    assert not whole.valid.all()
    for given, some, valid, conflicts in zip(inputs, outputs, whole.valid, whole.conflicts, strict=True):
        alone = judge(task, given, some)
        rows = some.reshape(4, -1)
        verdict = task.verify(np.repeat(given[None], 4, axis=0), rows)
        assert np.array_equal(alone.valid, valid)
        assert np.array_equal(alone.valid.reshape(-1), verdict.valid)
        assert np.array_equal(alone.conflicts, conflicts)
        assert np.array_equal(alone.conflicts.reshape(-1), verdict.conflicts)


def test_solutions_that_mean_the_same_count_once() -> None:
    task = Colouring(size=8)
    examples = task.split("test")
    given, target = examples.inputs[0], examples.targets[0]
    renamed = np.where(target >= FIRST_COLOUR, 2 * FIRST_COLOUR + task.colours - 1 - target, target)
    wrong = np.full_like(target, FIRST_COLOUR)
    judged = judge(task, given, np.stack([target, renamed, wrong]))
    solutions, counts = judged.solutions
    assert judged.valid.tolist() == [True, True, False]
    assert len(solutions) == 1
    assert counts.tolist() == [2]
    assert (judged.estimate.seen, judged.estimate.samples) == (1, 2)


def test_nothing_is_valid_without_a_checker(monkeypatch: pytest.MonkeyPatch) -> None:
    task = NQueens(size=6)
    examples = task.split("test")
    monkeypatch.setattr(task, "has_rules", False)
    assert not judge(task, examples.inputs[:4], examples.targets[:4, None]).valid.any()


def test_no_outputs_are_judged_as_well() -> None:
    task = NQueens(size=6)
    judged = judge(task, task.split("test").inputs[0], np.zeros((0, task.length), dtype=np.int64))
    assert judged.valid.shape == (0,)
    assert judged.estimate.seen == 0
