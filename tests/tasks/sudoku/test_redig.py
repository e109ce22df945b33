"""What re-digging promises: new puzzles with the same only solution, as hard as asked for, the same for a seed."""

import functools
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gram.errors import GramError
from gram.tasks import make_task
from gram.tasks.sudoku import redig as sudoku_redig
from gram.tasks.sudoku.generated import SudokuHard
from gram.tasks.sudoku.generator import hard_puzzles, minimal_puzzles
from gram.tasks.sudoku.redig import MANY_GUESSES, Board, Redigger, hardest_jump, rate, walk
from gram.tasks.sudoku.solver import Digits, geometry, solve
from gram.tasks.sudoku.symmetry import canonical_puzzles, random_symmetries


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GRAM_CACHE", str(tmp_path / "cache"))
    monkeypatch.delenv("GRAM_DATA", raising=False)


@functools.cache
def some_puzzles() -> tuple[Digits, Digits]:
    """12 puzzles that need 5 guesses and more, and their solutions; made once."""
    return hard_puzzles(9, 12, seed=0, min_rating=5)


@functools.cache
def some_redigger() -> Redigger:
    return Redigger(*some_puzzles(), difficulty=0.5, seed=0)


def board_of(solution: Digits) -> Board:
    layout = geometry(9)
    bits = np.array([[1 << cell, 0] if cell < 64 else [0, 1 << (cell - 64)] for cell in range(81)], dtype=np.uint64)
    sets, found = np.zeros((64, 2), dtype=np.uint64), np.zeros(1, dtype=np.int64)
    return Board(solution, sets, found, bits, layout)


def orders(steps: int, seed: int) -> Any:
    return np.random.default_rng(seed).permuted(np.tile(np.arange(81, dtype=np.int32), (steps, 1)), axis=1)


@settings(max_examples=20)
@given(st.integers(0, 2**32))
def test_redug_puzzles_have_the_same_only_solution(seed: int) -> None:
    puzzles, solutions = some_puzzles()
    redug = some_redigger().redig(puzzles, np.random.default_rng(seed))
    solved = solve(redug)
    assert (solved.counts == 1).all()
    assert np.array_equal(solved.first, solutions)
    assert (redug != puzzles).any(axis=1).mean() > 0.8  # a walk may lead back, though it rarely does


def test_every_visit_shows_another_puzzle_and_the_seed_decides_which() -> None:
    puzzles, _ = some_puzzles()
    visits = [some_redigger().redig(puzzles, np.random.default_rng(seed)) for seed in range(10)]
    distinct = [len(np.unique(row, axis=0)) for row in np.stack(visits, axis=1)]
    assert min(distinct) >= 6
    assert np.mean(distinct) > 9
    # The others have remembered nothing so far, or more; a run that resumes has forgotten it.
    fresh = Redigger(*puzzles_in_other_order(), difficulty=0.5, seed=0)
    again = Redigger(*some_puzzles(), difficulty=0.5, seed=0)
    for seed in (3, 9):
        assert np.array_equal(again.redig(puzzles, np.random.default_rng(seed)), visits[seed])
        assert not np.array_equal(fresh.redig(puzzles, np.random.default_rng(seed)), visits[seed])


def puzzles_in_other_order() -> tuple[Digits, Digits]:
    puzzles, solutions = some_puzzles()
    return puzzles[::-1].copy(), solutions[::-1].copy()


def test_the_stock_is_made_once(monkeypatch: pytest.MonkeyPatch) -> None:
    puzzles, solutions = some_puzzles()
    first = Redigger(puzzles, solutions, difficulty=0.5, seed=0).redig(puzzles, np.random.default_rng(0))
    monkeypatch.setattr(Redigger, "_fill", None)
    second = Redigger(puzzles, solutions, difficulty=0.5, seed=0).redig(puzzles, np.random.default_rng(0))
    assert np.array_equal(first, second)
    for changed in ({"difficulty": 0.6}, {"seed": 1}):
        with pytest.raises(TypeError):  # another stock is needed
            Redigger(puzzles, solutions, **{"difficulty": 0.5, "seed": 0} | changed)  # type: ignore[arg-type]


def test_unknown_puzzles_stay_as_they_are() -> None:
    others = minimal_puzzles(some_puzzles()[1], np.random.default_rng(1))
    assert np.array_equal(some_redigger().redig(others, np.random.default_rng(0)), others)


def test_a_walk_keeps_the_rating() -> None:
    for puzzle, solution in zip(*some_puzzles(), strict=True):
        board, moved = board_of(solution), puzzle.copy()
        rating = rate(puzzle, board, MANY_GUESSES)
        # Both ways to read the board, by the public solver.
        assert rating == solve(np.stack([puzzle, puzzle[::-1]])).guesses.sum()
        assert rate(puzzle, board, rating - 1) == rating - 1
        walk(moved, orders(40, seed=2), rating, board)
        assert rate(moved, board, MANY_GUESSES) >= rating


def test_a_walk_without_a_rating_leads_far_away() -> None:
    puzzle, solution = (some[0] for some in some_puzzles())
    moved = puzzle.copy()
    walk(moved, orders(100, seed=3), 0, board_of(solution))
    assert ((moved > 0) & (puzzle > 0)).sum() < 0.7 * (puzzle > 0).sum()


def test_a_jump_changes_the_puzzle_and_takes_the_hardest() -> None:
    for puzzle, solution in zip(*some_puzzles(), strict=True):
        board = board_of(solution)
        jumps = [hardest_jump(puzzle, one[None], board) for one in orders(8, seed=1)]
        hardest, rating = hardest_jump(puzzle, orders(8, seed=1), board)
        assert rating == max(rating for _, rating in jumps) == rate(hardest, board, MANY_GUESSES)
        assert (hardest != puzzle).any()
        for made, _ in jumps:
            assert np.array_equal(solve(made[None]).first[0], solution)
            assert solve(made[None]).counts == 1


def test_a_puzzle_without_neighbours_jumps(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sudoku_redig, "walk", lambda *_: None)
    puzzles, solutions = some_puzzles()
    redug = Redigger(puzzles, solutions, difficulty=1.0, seed=0).redig(puzzles, np.random.default_rng(0))
    assert (redug != puzzles).any(axis=1).all()
    assert np.array_equal(solve(redug).first, solutions)


def test_a_complete_board_stays() -> None:
    solution = some_puzzles()[1][0]
    moved = solution.copy()
    walk(moved, orders(3, seed=0), 0, board_of(solution))
    assert np.array_equal(moved, solution)


def test_no_puzzle_leaves_an_unavoidable_set_blank() -> None:
    puzzle, solution = (some[1] for some in some_puzzles())
    board = board_of(solution)
    walk(puzzle.copy(), orders(30, seed=4), 0, board)
    assert board.found[0] > 20
    others = minimal_puzzles(np.repeat(solution[None], 20, axis=0), np.random.default_rng(5))
    for low, high in board.sets[: board.found[0]].tolist():
        cells = [cell for cell in range(81) if (low | high << 64) >> cell & 1]
        assert (others[:, cells] > 0).any(axis=1).all()
        assert solve(np.where(np.isin(np.arange(81), cells), 0, solution)[None]).counts == 2


def task_with(redig: float) -> SudokuHard:
    return SudokuHard(
        min_rating=5, train_puzzles=12, validation_puzzles=3, test_puzzles=3, redig=redig, redig_difficulty=0.5
    )


@pytest.mark.parametrize("redig", [0.0, 0.3, 1.0])
def test_a_fraction_of_the_training_visits_is_redug(redig: float) -> None:
    task = task_with(redig)
    train = task.split("train")
    rows = np.tile(np.arange(12), 20)
    inputs, targets = task.augment(train.inputs[rows], train.targets[rows], np.random.default_rng(1))
    assert task.verify(inputs, targets).valid.all()
    assert (solve(inputs - 1).counts == 1).all()
    known = canonical_puzzles(train.inputs - 1, train.targets - 1)[rows]
    fraction = (canonical_puzzles(inputs - 1, targets - 1) != known).any(axis=1).mean()
    assert abs(fraction - redig) < 0.1
    again, _ = task_with(redig).augment(train.inputs[rows], train.targets[rows], np.random.default_rng(1))
    assert np.array_equal(inputs, again)


def test_other_splits_are_never_redug() -> None:
    task = task_with(1.0)
    for examples in (task.split("validation"), task.split("test")):
        moved, solutions = task.augment(examples.inputs, examples.targets, np.random.default_rng(1))
        before, after = ((examples.inputs, examples.targets), (moved, solutions))
        forms = [canonical_puzzles(puzzles - 1, answers - 1) for puzzles, answers in (before, after)]
        assert np.array_equal(*forms)


def test_without_redigging_the_random_numbers_are_what_they_were() -> None:
    train = task_with(0.0).split("train")
    moved, _ = task_with(0.0).augment(train.inputs, train.targets, np.random.default_rng(1))
    assert np.array_equal(moved, random_symmetries(9, 12, np.random.default_rng(1)).apply(train.inputs))


def test_many_puzzles_have_fewer_versions_each(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sudoku_redig, "STOCK_SIZE", 30)
    puzzles, solutions = some_puzzles()
    redigger = Redigger(puzzles, solutions, difficulty=0.0, seed=0)
    assert redigger._stock["puzzles"].shape == (12, 2, 81)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"redig": 1.5}, "redig must be a number from 0 to 1, not 1.5"),
        ({"redig": True}, "redig must be a number from 0 to 1, not True"),
        ({"redig": float("nan")}, "redig must be a number from 0 to 1, not nan"),
        ({"redig_difficulty": -1}, "redig_difficulty must be a number from 0 to 1, not -1"),
        ({"redig": "often"}, "cannot be built with"),
        ({"redig": 1, "size": 6}, "redig needs size 9"),
    ],
)
def test_wrong_options_are_refused(options: dict[str, object], message: str) -> None:
    with pytest.raises(GramError, match=message):
        make_task("sudoku", **options)
