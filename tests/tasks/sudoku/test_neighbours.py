"""Hard puzzles that are grown from a few."""

from pathlib import Path

import numpy as np
import pytest

from gram.tasks.sudoku.extreme import SudokuExtreme
from gram.tasks.sudoku.generator import hard_puzzles
from gram.tasks.sudoku.neighbours import grow
from gram.tasks.sudoku.solver import Digits, solve
from tests.tasks.sudoku.helpers import SPLITS, check_puzzles, csv_rows, write


@pytest.fixture(scope="module")
def known() -> tuple[Digits, Digits]:
    return hard_puzzles(9, 4, seed=0, min_rating=20)


def test_neighbours_are_about_as_hard_and_have_the_solution_that_is_given(known: tuple[Digits, Digits]) -> None:
    puzzles, solutions = grow(*known, 12, seed=0)
    found = solve(puzzles, limit=2)
    assert (found.counts == 1).all()
    assert np.array_equal(found.first, solutions)
    assert found.guesses.mean() > 0.5 * solve(known[0]).guesses.mean()


def test_a_chain_leads_away_from_the_board_it_began_with(known: tuple[Digits, Digits]) -> None:
    _, solutions = grow(*known, 12, seed=0)
    assert len({solution.tobytes() for solution in (*known[1], *solutions)}) == 16
    shared = [(solutions[link * 4 : link * 4 + 4] == known[1]).mean() for link in range(3)]
    assert shared[2] < shared[0] < 1


def test_a_chain_depends_on_the_seed_and_its_puzzle_alone(known: tuple[Digits, Digits]) -> None:
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
