"""Hard puzzles of new boards."""

from pathlib import Path

import numpy as np

from gram.tasks.sudoku.climb import climb
from gram.tasks.sudoku.extreme import SudokuExtreme
from gram.tasks.sudoku.solver import solve
from tests.tasks.sudoku.helpers import SPLITS, check_puzzles, csv_rows, write


def test_climbed_puzzles_are_hard_and_have_the_solution_that_is_given() -> None:
    puzzles, solutions = climb(12, seed=0)
    found = solve(puzzles, limit=2)
    assert (found.counts == 1).all()
    assert np.array_equal(found.first, solutions)
    assert found.guesses.mean() > 15  # dug puzzles need 2
    assert len({solution.tobytes() for solution in solutions}) == 12


def test_they_depend_on_the_seed_alone() -> None:
    first, again, other = (climb(3, seed=seed)[0] for seed in (1, 1, 2))
    assert np.array_equal(first, again)
    assert not np.array_equal(first, other)


def test_they_are_added_to_the_training_puzzles_of_a_file(tmp_path: Path) -> None:
    train = str(write(tmp_path / "train.csv", csv_rows(slice(0, 10))))
    test = str(write(tmp_path / "test.csv", csv_rows(slice(10, 20))))
    plain = SudokuExtreme(train_file=train, test_file=test, validation_puzzles=3)
    more = SudokuExtreme(train_file=train, test_file=test, validation_puzzles=3, climbed=5)
    check_puzzles(plain, (10, 3, 7))
    check_puzzles(more, (15, 3, 7))
    for name in SPLITS[1:]:  # training with and without them is measured on the same rows
        assert np.array_equal(plain.split(name).inputs, more.split(name).inputs)
