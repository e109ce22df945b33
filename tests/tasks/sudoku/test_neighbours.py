"""Hard puzzles that are grown from a few."""

from pathlib import Path

import numpy as np
import pytest

from gram.tasks.sudoku.extreme import SudokuExtreme
from gram.tasks.sudoku.generator import hard_puzzles
from gram.tasks.sudoku.neighbours import grow
from gram.tasks.sudoku.solver import Digits, geometry, solve
from gram.tasks.sudoku.trial import resists_trial
from tests.tasks.sudoku.helpers import SPLITS, check_puzzles, csv_rows, write


@pytest.fixture(scope="module")
def known() -> tuple[Digits, Digits]:
    return hard_puzzles(9, 4, seed=0, min_rating=20)


HARD = "8..........36......7..9.2...5...7.......457.....1...3...1....68..85...1..9....4.."
"""Resists trial and error; most who rate puzzles call such ones extreme."""


def resists(puzzle: Digits) -> bool:
    return bool(resists_trial(puzzle, geometry(9)))


@pytest.fixture(scope="module")
def hard() -> tuple[Digits, Digits]:
    puzzle = np.array([[0 if digit == "." else int(digit) for digit in HARD]], dtype=np.int8)
    return puzzle, solve(puzzle).first


def test_few_puzzles_resist_trial_and_error(known: tuple[Digits, Digits], hard: tuple[Digits, Digits]) -> None:
    assert solve(hard[0]).counts.tolist() == [1]
    assert resists(hard[0][0])
    assert not any(resists(puzzle) for puzzle in known[0])
    assert not resists(hard[1][0])


def test_neighbours_have_the_solution_that_is_given(known: tuple[Digits, Digits]) -> None:
    puzzles, solutions = grow(*known, 12, seed=0)
    found = solve(puzzles, limit=2)
    assert (found.counts == 1).all()
    assert np.array_equal(found.first, solutions)
    assert len({solution.tobytes() for solution in (*known[1], *solutions)}) == 16
    assert found.guesses.mean() > 0.5 * solve(known[0]).guesses.mean()


def test_the_family_of_a_puzzle_that_resists_trial_and_error_resists_as_well(hard: tuple[Digits, Digits]) -> None:
    puzzles, _ = grow(*hard, 4, seed=0)
    assert all(resists(puzzle) for puzzle in puzzles)


def test_a_family_depends_on_the_seed_and_its_puzzle_alone(known: tuple[Digits, Digits]) -> None:
    puzzles, solutions = known
    first, again, other = (grow(puzzles[:2], solutions[:2], 4, seed=seed)[0] for seed in (1, 1, 2))
    assert np.array_equal(first, again)
    assert not np.array_equal(first, other)
    assert np.array_equal(first[::2], grow(puzzles[:1], solutions[:1], 2, seed=1)[0])


def test_they_are_added_to_the_training_puzzles_of_a_file(tmp_path: Path) -> None:
    train = str(write(tmp_path / "train.csv", csv_rows(slice(0, 10))))
    test = str(write(tmp_path / "test.csv", csv_rows(slice(10, 20))))
    plain = SudokuExtreme(train_file=train, test_file=test, validation_puzzles=3)
    more = SudokuExtreme(train_file=train, test_file=test, validation_puzzles=3, neighbours=5)
    check_puzzles(plain, (10, 3, 7))
    check_puzzles(more, (15, 3, 7))
    for name in SPLITS[1:]:  # training with and without them is measured on the same rows
        assert np.array_equal(plain.split(name).inputs, more.split(name).inputs)
