"""Thinking until it is enough, with the shipped model: what is called a solution is one, and budgets hold."""

import numpy as np
import pytest

from gram.errors import GramError
from gram.inference.anytime import FIRST_WAVE, Search, Until
from gram.solver import Solver, load
from gram.tasks.base import Tokens


@pytest.fixture(scope="module")
def solver() -> Solver:
    return load("nqueens-8")


@pytest.fixture(scope="module")
def puzzle(solver: Solver) -> Tokens:
    """A test input with several solutions."""
    inputs = solver.task.split("test").distinct(200).inputs
    counts = solver.task.solution_counts(inputs)
    return inputs[np.flatnonzero(counts >= 3)[0]]


@pytest.mark.parametrize(
    ("given", "kind", "amount"),
    [
        ("first", "first", 0),
        ("all", "all", 0),
        ("10s", "seconds", 10),
        (0.5, "seconds", 0.5),
        (".5s", "seconds", 0.5),
        ("500", "samples", 500),
        (7, "samples", 7),
    ],
)
def test_what_until_means(given: str | float, kind: str, amount: float) -> None:
    assert Until.parse(given) == Until(kind, amount)


@pytest.mark.parametrize("bad", ["", "soon", "0", "0s", 0, -1, 0.0, -2.5, "1.5", "10 m", float("inf"), float("nan")])
def test_what_until_cannot_mean(bad: str | float) -> None:
    with pytest.raises(GramError):
        Until.parse(bad)


def test_first_stops_at_a_verified_solution(solver: Solver, puzzle: Tokens) -> None:
    result = solver.solve(puzzle, until="first")
    assert result.verified
    assert solver.task.verify(puzzle[None], result.best[None]).valid.all()
    assert result.trajectories.steps.max() < solver.options.depth
    assert "verified" in result.stopped


def test_first_begins_with_one_trajectory_and_all_with_many(solver: Solver, puzzle: Tokens) -> None:
    first, every = (Search(solver.task, puzzle, solver.options, Until(kind)).waves() for kind in ("first", "all"))
    assert [len(next(first)) for _ in range(4)] == [1, 2, 4, 8]
    assert [len(next(every)) for _ in range(2)] == [FIRST_WAVE, 2 * FIRST_WAVE]


def test_all_finds_all_and_knows_how_many_there_are(solver: Solver, puzzle: Tokens) -> None:
    result = solver.solve(puzzle, until="all", halt=True, halt_at=0.99)
    known = solver.task.solutions(puzzle)
    assert {row.tobytes() for row in result.distinct} == {row.tobytes() for row in known}
    assert result.estimate.low <= len(known) <= result.estimate.high
    assert result.estimate.coverage >= 0.95


def test_samples_are_those_of_a_fixed_width(solver: Solver, puzzle: Tokens) -> None:
    until = solver.solve(puzzle, until=FIRST_WAVE + 5, depth=3)
    fixed = solver.solve(puzzle, width=FIRST_WAVE + 5, depth=3)
    assert np.array_equal(until.trajectories.outputs, fixed.trajectories.outputs)
    np.testing.assert_allclose(until.trajectories.values, fixed.trajectories.values, atol=1e-5)
    assert until.estimate == fixed.estimate


def test_seconds_are_kept_and_too_few_are_refused(solver: Solver, puzzle: Tokens) -> None:
    search = solver.stream(puzzle, until=0.7, depth=100)
    for _ in search:
        assert search.seconds < 5
    assert "seconds was used up" in search.reason
    with pytest.raises(GramError, match="too small"):
        solver.solve(puzzle, until=1e-6)


def test_a_stream_shows_every_step_and_can_be_left_at_any_time(solver: Solver, puzzle: Tokens) -> None:
    search = solver.stream(puzzle, until=6, depth=4)
    for number, made in enumerate(search):
        assert made.step.tolist() == [number + 1] * 6
        assert made.ended.all() == (number == 3)
        so_far = solver.result(search)
        assert np.array_equal(so_far.trajectories.outputs[0], made.outputs)
        if number == 1:
            break
    assert solver.result(search).trajectories.steps.tolist() == [[2] * 6]


def test_without_a_checker_nothing_is_verified(solver: Solver, puzzle: Tokens, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(type(solver.task), "has_rules", False)
    for until in ("first", "all"):
        with pytest.raises(GramError, match="no checker"):
            solver.solve(puzzle, until=until)
    with pytest.raises(GramError, match="no checker"):
        solver.solve(puzzle, rule="verified")
    with pytest.raises(GramError, match="coverage"):
        solver.stream(puzzle, until=3, coverage=0.0)
    assert solver.solve(puzzle, width=2, depth=1).estimate is None
