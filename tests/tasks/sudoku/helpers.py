"""Puzzles that are drawn once, files of them, and what every split must keep to."""

import functools
import gzip
from pathlib import Path

import numpy as np

from gram.tasks.base import SplitName
from gram.tasks.sudoku.board import SudokuBoard
from gram.tasks.sudoku.generator import minimal_puzzles, random_boards
from gram.tasks.sudoku.solver import Digits
from gram.tasks.sudoku.symmetry import Symmetries, symmetric_pairs

SPLITS: tuple[SplitName, ...] = ("train", "validation", "test")
HEADER = "source,question,answer,rating"


@functools.cache
def some_puzzles() -> tuple[Digits, Digits]:
    """60 easy puzzles and their solutions, drawn once."""
    generator = np.random.default_rng(0)
    solutions = random_boards(9, 60, generator)
    return minimal_puzzles(solutions, generator), solutions


def inverse(symmetries: Symmetries) -> Symmetries:
    """The symmetries that undo these."""
    return Symmetries(np.argsort(symmetries.cells, axis=1), np.argsort(symmetries.tokens, axis=1))


def csv_rows(rows: slice) -> list[str]:
    def text(board: Digits) -> str:
        return "".join("." if digit == 0 else str(digit) for digit in board)

    return [f"made,{text(p)},{text(s)},0" for p, s in zip(*(some[rows] for some in some_puzzles()), strict=True)]


def write(path: Path, rows: list[str]) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    content = "\n".join([HEADER, *rows, ""])
    path.write_bytes(gzip.compress(content.encode()) if path.suffix == ".gz" else content.encode())
    return path


def check_puzzles(task: SudokuBoard, counts: tuple[int, int, int]) -> None:
    """Every target is the only solution of its input, and no puzzle of a split is a symmetry of another split's."""
    splits = [task.split(name) for name in SPLITS]
    assert tuple(len(examples) for examples in splits) == counts
    for examples in splits:
        assert examples.inputs.dtype == examples.targets.dtype == examples.groups.dtype == np.int64
        assert task.verify(examples.inputs, examples.targets).valid.all()
        assert (np.diff(examples.groups) > 0).all()
        for board, target in zip(examples.inputs, examples.targets, strict=True):
            assert np.array_equal(task.solutions(board), [target])
    for first, second in ((0, 1), (0, 2), (1, 2)):
        known, others = splits[first], splits[second]
        assert not symmetric_pairs(known.inputs - 1, known.targets - 1, others.inputs - 1, others.targets - 1)


def changed(row: str, field: int, value: str) -> str:
    fields = row.split(",")
    fields[field] = value
    return ",".join(fields)
