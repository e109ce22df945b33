"""Repair: a valid board near any other."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from gram.errors import GramError
from gram.tasks.images import Digits
from gram.tasks.sudoku.generated import SudokuGeneration
from gram.tasks.sudoku.generator import random_boards
from gram.tasks.sudoku.repair import repair

SIZES = st.sampled_from([4, 6, 9])


def is_valid(boards: np.ndarray, size: int) -> bool:
    tokens = boards.astype(np.int64) + 1
    return bool(SudokuGeneration(size=size).verify(np.ones_like(tokens), tokens).valid.all())


@settings(max_examples=50)
@given(data=st.data(), size=SIZES, seed=st.integers(0, 2**32 - 1))
def test_anything_becomes_a_valid_board(data: st.DataObject, size: int, seed: int) -> None:
    boards = data.draw(arrays(np.int8, (2, size * size), elements=st.integers(0, size)))
    assert is_valid(repair(boards, np.array([seed, seed + 1])), size)


@given(size=SIZES, seed=st.integers(0, 1000))
def test_a_valid_board_is_left_alone(size: int, seed: int) -> None:
    boards = random_boards(size, 3, np.random.default_rng(seed))
    assert np.array_equal(repair(boards, np.arange(3)), boards)


def test_a_few_wrong_digits_are_changed_and_little_else() -> None:
    generator = np.random.default_rng(0)
    boards = random_boards(9, 100, generator)
    wrong = boards.copy()
    for row in wrong:
        row[generator.permutation(81)[:8]] = generator.integers(1, 10, 8)
    mended = repair(wrong, np.arange(100))
    assert is_valid(mended, 9)
    # The board that it was has 73.9 of the 81 digits; the found one may not have many fewer.
    assert (mended == wrong).sum(axis=1).mean() > (boards == wrong).sum(axis=1).mean() - 1


def test_each_row_depends_on_its_own_seed_alone() -> None:
    blank, seeds = np.zeros((4, 81), dtype=np.int8), np.array([5, 6, 7, 5])
    together = repair(blank, seeds)
    assert np.array_equal(together[1:2], repair(blank[:1], seeds[1:2]))
    assert np.array_equal(together[0], together[3])
    assert not np.array_equal(together[0], together[1])


def test_other_tasks_say_that_they_cannot() -> None:
    with pytest.raises(GramError, match="cannot repair"):
        Digits().repair(np.zeros((1, 64)), np.zeros((1, 64)), np.zeros(1))
