"""Common parts of all Sudoku tasks: tokens, verification, augmentation, reading and drawing."""

import re
from functools import cached_property
from operator import index
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from gram.errors import GramError
from gram.tasks.base import (
    Examples,
    Structure,
    Task,
    Tokens,
    Verdict,
    check_fraction,
    check_pairs,
    check_rows,
    check_split_options,
    glyph,
)
from gram.tasks.sudoku.redig import Redigger
from gram.tasks.sudoku.solver import geometry, list_solutions
from gram.tasks.sudoku.symmetry import random_symmetries

if TYPE_CHECKING:
    from matplotlib.axes import Axes

PAD, BLANK = 0, 1
SOLUTION_LIMIT = 1000
"""The most solutions that `solutions` lists: a nearly blank board has more than memory."""
MOST_GUESSES = 100_000
"""Guesses that checking a user's puzzle may take, a fraction of a second; the hardest known ones need a few hundred."""
BITS_SET = np.array([number.bit_count() for number in range(1 << 9)])


class SudokuBoard(Task):
    """A Sudoku task on a `size` x `size` board; tokens are 0 pad, 1 blank, 2.. the digits from 1."""

    augments = True

    def __init__(self, *, name: str, size: int, seed: int, redig: float = 0.0, redig_difficulty: float = 0.75) -> None:
        """Name the task and check its board.

        Args:
            name: of the task.
            size: 4 (boxes 2x2), 6 (boxes 2x3) or 9 (boxes 3x3).
            seed: of the data.
            redig: fraction of the visits of a training example that show a new puzzle with the same solution.
            redig_difficulty: fraction of the original's guesses that the new puzzle should need at least.
        """
        check_split_options(seed=seed)
        self._layout = geometry(index(size))
        self.name = name
        self.size, self.seed = size, seed
        self.redig = check_fraction("redig", redig)
        self.redig_difficulty = check_fraction("redig_difficulty", redig_difficulty)
        self.vocab_size = size + 2
        self.length = size * size

    @property
    def structure(self) -> Structure:
        """Rows, columns and boxes hold each digit once, and the digits are interchangeable."""
        row, column = np.divmod(np.arange(self.length), self.size)
        box = row // self._layout.box_rows * self.size + column // self._layout.box_columns
        constraints = {"row": row.tolist(), "column": column.tolist(), "box": box.tolist()}
        # Not a rule: a contradiction anywhere concerns every cell, and by rows and columns alone it spreads slowly.
        constraints["board"] = [0] * self.length
        return Structure(constraints, symbols=range(BLANK + 1, self.vocab_size))

    def verify(self, inputs: Tokens, outputs: Tokens) -> Verdict:
        """Verify outputs [rows, length] for inputs [rows, length].

        The conflicts are the repeated digits of every row, column and box, the givens that are changed, and the cells
        without a digit.
        """
        inputs, outputs = check_pairs(self, inputs, outputs)
        filled = self._has_digit(outputs)
        changed = (self._has_digit(inputs) & (outputs != inputs)).sum(axis=1)
        conflicts = self._repeats(outputs, filled) + changed + (~filled).sum(axis=1)
        return Verdict(valid=conflicts == 0, conflicts=conflicts)

    def _repeats(self, tokens: Tokens, filled: NDArray[np.bool_]) -> Tokens:
        """Return the number of repeated digits [rows]: filled cells less distinct digits, summed over all units."""
        layout = self._layout
        bits = np.where(filled, 1 << np.clip(tokens - 2, 0, self.size), 0).astype(np.int16)
        # [rows, band, row of the band, stack, column of the stack]
        bits = bits.reshape(-1, self.size // layout.box_rows, layout.box_rows, layout.box_rows, layout.box_columns)
        rows, columns, boxes = (3, 4), (1, 2), (2, 4)
        distinct = [BITS_SET[np.bitwise_or.reduce(bits, axis=axes)].sum(axis=(1, 2)) for axes in (rows, columns, boxes)]
        repeats: Tokens = 3 * filled.sum(axis=1) - np.sum(distinct, axis=0)
        return repeats

    def augment(self, inputs: Tokens, targets: Tokens, generator: np.random.Generator) -> tuple[Tokens, Tokens]:
        """Transform each row [rows, length] by a random symmetry: digits, bands, stacks, rows, columns, diagonal.

        A fraction `redig` of the training puzzles first becomes a new puzzle with the same solution.
        """
        if self.redig:
            chosen = generator.random(len(inputs)) < self.redig
            redug = self._redigger.redig((inputs - 1).astype(np.int8), generator) + 1
            inputs = np.where(chosen[:, None], redug, inputs)
        symmetries = random_symmetries(self.size, len(inputs), generator)
        return symmetries.apply(inputs), symmetries.apply(targets)

    @cached_property
    def _redigger(self) -> Redigger:
        train = self.split("train")
        puzzles, solutions = ((rows - 1).astype(np.int8) for rows in (train.inputs, train.targets))
        return Redigger(puzzles, solutions, difficulty=self.redig_difficulty, seed=self.seed)

    def solutions(self, tokens: Tokens) -> Tokens | None:
        """Return the solutions [count, length] of one input [length]; no more than `SOLUTION_LIMIT` of them."""
        digits = np.maximum(check_rows(self, tokens[None])[0] - 1, 0)
        return list_solutions(digits, limit=SOLUTION_LIMIT).astype(np.int64) + 1

    def parse(self, text: str) -> Tokens:
        """Turn a puzzle as text into tokens [length]; it must have exactly one solution.

        Digits row by row, '.' or '0' for a blank; white space and '/' are ignored.
        """
        cells = re.sub(r"[\s/]", "", text)
        if len(cells) != self.length:
            raise GramError(f"The board has {len(cells)} cells, but {self.length} are expected.")
        if unknown := re.search(rf"[^.0-{self.size}]", cells):
            where = self._place(unknown.start())
            raise GramError(f"Unknown character {unknown[0]!r} at {where}: use 1 to {self.size}, and . for a blank.")
        tokens = np.array([BLANK if cell == "." else int(cell) + 1 for cell in cells], dtype=np.int64)
        self._check_solvable(tokens)
        return tokens

    def _check_solvable(self, tokens: Tokens) -> None:
        for unit in self._layout.units:
            given, counts = np.unique(tokens[unit], return_counts=True)
            for token in given[(counts > 1) & (given > BLANK)]:
                first, second = unit[tokens[unit] == token][:2]
                raise GramError(
                    f"The givens contradict each other: {token - 1} stands at {self._place(int(first))} and at "
                    f"{self._place(int(second))}."
                )
        solutions = list_solutions(tokens - 1, limit=2, guess_limit=MOST_GUESSES)
        if len(solutions) != 1:
            has, cure = ("several solutions", "add") if len(solutions) else ("no solution", "change")
            raise GramError(f"The puzzle has {has}: {cure} a given.")

    def _place(self, cell: int) -> str:
        return f"row {cell // self.size + 1}, column {cell % self.size + 1}"

    def render(self, tokens: Tokens, given: Tokens | None = None) -> str:
        """Draw one board [length] as text, with gaps between the boxes.

        '.' blank, '?' pad or another illegal token; '!' follows a digit that is repeated in its row, column or box, or
        that stands where `given` has another.
        """
        tokens = check_rows(self, tokens[None])[0]
        filled = self._has_digit(tokens)
        signs = np.where(filled, (tokens - 1).astype(str), np.where(tokens == BLANK, ".", "?"))
        marks = np.where(self._wrong(tokens, given) & filled, "!", " ")
        cells = np.char.add(signs, marks).reshape(self.size, -1, self._layout.box_columns)
        lines = ["  ".join(" ".join(stack) for stack in row).rstrip() for row in cells]
        bands = [lines[start : start + self._layout.box_rows] for start in range(0, self.size, self._layout.box_rows)]
        return "\n\n".join("\n".join(band) for band in bands)

    def draw(self, axes: "Axes", tokens: Tokens, given: Tokens | None = None) -> None:
        """Draw one board [length]: givens bold and black, other digits blue, wrong ones red."""
        from matplotlib.collections import PathCollection
        from matplotlib.transforms import Affine2D

        tokens = check_rows(self, tokens[None])[0]
        givens = self._has_digit(tokens if given is None else check_rows(self, given[None])[0])
        wrong, filled = self._wrong(tokens, given), self._has_digit(tokens)
        self._draw_lines(axes)
        signs, colours = [], []
        for cell in np.flatnonzero(tokens != BLANK):
            row, column = divmod(int(cell), self.size)
            sign = glyph(str(tokens[cell] - 1) if filled[cell] else "?", 0.7, bold=bool(givens[cell]))
            signs.append(Affine2D().translate(column, row).transform_path(sign))
            colours.append("#d62728" if wrong[cell] else "black" if givens[cell] else "#1f5fbf")
        axes.add_collection(PathCollection(signs, facecolors=colours, linewidths=0), autolim=False)

    def _draw_lines(self, axes: "Axes") -> None:
        """Draw thin lines between cells and thick ones around boxes."""
        axes.set(xticks=[], yticks=[], xlim=(-0.5, self.size - 0.5), ylim=(self.size - 0.5, -0.5), aspect="equal")
        for line in range(1, self.size):
            axes.axhline(line - 0.5, color="black", linewidth=0.4 if line % self._layout.box_rows else 1.6)
            axes.axvline(line - 0.5, color="black", linewidth=0.4 if line % self._layout.box_columns else 1.6)

    def _wrong(self, tokens: Tokens, given: Tokens | None) -> NDArray[np.bool_]:
        """Return which cells [length] repeat a digit, change a given or have an invalid token."""
        wrong: NDArray[np.bool_] = ~self._has_digit(tokens) & (tokens != BLANK)
        for unit in self._layout.units:
            values, counts = np.unique(tokens[unit], return_counts=True)
            wrong[unit] |= np.isin(tokens[unit], values[(counts > 1) & (values > BLANK)])
        if given is not None:
            wrong |= self._has_digit(given) & (given != tokens)
        return wrong

    def _has_digit(self, tokens: Tokens) -> NDArray[np.bool_]:
        digits: NDArray[np.bool_] = (tokens > BLANK) & (tokens < self.vocab_size)
        return digits


def examples_of(puzzles: NDArray[Any], solutions: NDArray[Any]) -> Examples:
    """Return examples of digits [rows, cells] with 0 for a blank; every row is a distinct input."""
    return Examples(puzzles.astype(np.int64) + 1, solutions.astype(np.int64) + 1, np.arange(len(puzzles)))
