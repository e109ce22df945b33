"""The symmetries of Sudoku: digits, bands, stacks, the rows of a band, the columns of a stack, and the diagonal.

They make endless equally valid versions of a puzzle, and so decide whether two puzzles are really different: two
puzzles with one solution each are symmetric exactly if their `canonical_puzzles` are equal.
"""

from dataclasses import dataclass
from functools import cache
from itertools import permutations, product
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gram.compiled import on_all_cores
from gram.tasks.base import Tokens
from gram.tasks.sudoku.solver import Cells, Digits, Integers, compiled, geometry


@dataclass(frozen=True)
class Symmetries:
    """One symmetry per row of a batch of tokens (0 pad, 1 blank, 2.. digits)."""

    cells: Tokens
    """[rows, cells] from which cell each cell takes its token"""
    tokens: Tokens
    """[rows, size + 2] what becomes of each token; pad and blank stay"""

    def apply(self, boards: Tokens) -> Tokens:
        """Transform boards [rows, cells] of tokens, each by its own symmetry."""
        moved = np.take_along_axis(boards, self.cells, axis=1)
        return np.take_along_axis(self.tokens, moved, axis=1)


def random_symmetries(size: int, rows: int, generator: np.random.Generator) -> Symmetries:
    """Draw a symmetry per row, uniformly from the whole group."""
    layout = geometry(size)
    row_order = _random_lines(rows, size // layout.box_rows, layout.box_rows, generator)
    column_order = _random_lines(rows, size // layout.box_columns, layout.box_columns, generator)
    cells = row_order[:, :, None] * size + column_order[:, None, :]
    if layout.box_rows == layout.box_columns:
        flipped = generator.random(rows) < 0.5
        cells[flipped] = cells[flipped].swapaxes(1, 2)
    digits = random_orders(generator, rows, size) + 2
    fixed = np.broadcast_to(np.arange(2), (rows, 2))
    return Symmetries(cells.reshape(rows, -1), np.concatenate([fixed, digits], axis=1))


def random_orders(generator: np.random.Generator, *shape: int) -> Tokens:
    """Return uniformly random orders of the last axis [*shape]."""
    return np.argsort(generator.random(shape), axis=-1)


def _random_lines(rows: int, groups: int, lines: int, generator: np.random.Generator) -> Tokens:
    """[rows, groups * lines] lines that change places within their group, and groups that change places."""
    group = random_orders(generator, rows, groups)
    return (group[:, :, None] * lines + random_orders(generator, rows, groups, lines)).reshape(rows, -1)


def fingerprints(puzzles: NDArray[Any], solutions: NDArray[Any]) -> Tokens:
    """Return numbers [puzzles, 4] that are invariant under the symmetries of a puzzle [puzzles, cells].

    They say how often the digits occur, how many givens the lines of each band and stack hold, and how the digits of
    the solution [puzzles, cells] change from line to line.
    """
    layout = geometry(round(puzzles.shape[1] ** 0.5))
    given = (puzzles > 0).reshape(len(puzzles), layout.size, layout.size)
    bands = _numbered(given.sum(axis=2), layout.box_rows)
    stacks = _numbered(given.sum(axis=1), layout.box_columns)
    digits = np.stack([(puzzles == digit).sum(axis=1) for digit in range(1, layout.size + 1)], axis=1)
    sides = np.stack([bands, stacks], axis=1)
    if layout.box_rows == layout.box_columns:  # the diagonal exchanges bands and stacks
        sides.sort(axis=1)
    cycles = np.zeros(len(puzzles), dtype=np.int64)
    boards = np.ascontiguousarray(solutions, dtype=np.int8).reshape(-1, layout.size, layout.size)
    number_cycles(boards, layout.box_rows, cycles)
    number_cycles(np.ascontiguousarray(boards.swapaxes(1, 2)), layout.box_columns, cycles)
    return np.column_stack([sides, _numbered(digits, layout.size), cycles])


@compiled
def number_cycles(boards: Digits, lines: int, numbers: Tokens) -> None:
    """Add to numbers [boards] how the rows of each band, of `lines` rows, of boards [boards, size, size] are related.

    From one row to another every digit becomes the one in the same column; the lengths of the cycles that this makes
    depend neither on the digits' names nor on the order of the columns.
    """
    size = boards.shape[1]
    successor = np.zeros(size + 1, dtype=np.int64)
    for board in range(len(boards)):
        for first in range(size):
            for second in range(first + 1, first // lines * lines + lines):
                for column in range(size):
                    successor[boards[board, first, column]] = boards[board, second, column]
                number = 0
                for start in range(1, size + 1):
                    power, digit = 1, start
                    while successor[digit] != 0:  # not seen yet
                        successor[digit], digit = 0, successor[digit]
                        power *= 7
                    number += power
                numbers[board] += number**3  # so that equal sums are rare; it may wrap around


def _numbered(counts: Tokens, lines: int) -> Tokens:
    """[rows] one number for counts [rows, groups * lines], whatever the order of groups and of the lines of a group."""
    base = 10 ** np.arange(lines)
    groups = np.sort(counts.reshape(len(counts), counts.shape[1] // lines, lines), axis=2) @ base
    groups.sort(axis=1)
    numbers: Tokens = groups @ ((10**lines) ** np.arange(groups.shape[1]))
    return numbers


@cache
def _column_orders(size: int) -> Cells:
    """[orders, size] every order of the columns: stacks change places, and columns within their stack."""
    columns = geometry(size).box_columns
    stacks = size // columns
    orders = [
        [stack * columns + column for stack, inner in zip(outer, inners, strict=True) for column in inner]
        for outer in permutations(range(stacks))
        for inners in product(permutations(range(columns)), repeat=stacks)
    ]
    return np.array(orders, dtype=np.uint64)


@compiled
def ascending_rows(keys: Integers, box_rows: int) -> Tokens:
    """Return the order of rows [size] in which their keys [size] ascend: in each band, and of the bands by the first.

    The keys are the digits of the first column, so they are all different.
    """
    ranks = keys.copy()
    for start in range(0, len(keys), box_rows):
        ranks[start : start + box_rows] += 100 * keys[start : start + box_rows].min()
    return np.argsort(ranks)


@compiled
def try_arrangement(
    grid: Digits, given: Digits, rows: Tokens, columns: Cells, labels: Integers, best: Digits, best_given: Digits
) -> None:
    """Keep an arrangement of the board if it is smaller than the best, its digits first, then its pattern of givens."""
    size = len(rows)
    ahead = False
    for part in range(2):
        for place in range(size * size):
            row, column = rows[place // size], columns[place % size]
            value = labels[grid[row, column]] if part == 0 else given[row, column]
            kept = best if part == 0 else best_given
            if value > kept[place] and not ahead:
                return
            ahead = ahead or value < kept[place]
            kept[place] = value


@compiled
def second_row_is_larger(
    grid: Digits, first: int, box_rows: int, columns: Cells, labels: Integers, best: Digits
) -> bool:
    """Tell, before all rows are put in order, that the second row of this arrangement exceeds the best one's."""
    size = len(grid)
    second, lead = -1, size + 1
    for row in range(first // box_rows * box_rows, (first // box_rows + 1) * box_rows):
        if row != first and labels[grid[row, columns[0]]] < lead:
            second, lead = row, labels[grid[row, columns[0]]]
    for place in range(size):
        value = labels[grid[second, columns[place]]]
        if value != best[size + place]:
            return bool(value > best[size + place])
    return False


@compiled
def canonicalise(grid: Digits, given: Digits, box_rows: int, columns: Cells, best: Digits, best_given: Digits) -> None:
    """Try every first row and order of columns: the digits' names and the order of the other rows follow from these."""
    size = len(grid)
    labels = np.zeros(size + 1, dtype=np.int32)
    keys = np.zeros(size, dtype=np.int32)
    for first in range(size):
        for k in range(len(columns)):
            for column in range(size):
                labels[grid[first, columns[k, column]]] = column + 1
            if second_row_is_larger(grid, first, box_rows, columns[k], labels, best):
                continue
            for row in range(size):
                keys[row] = labels[grid[row, columns[k, 0]]]  # 1 in the first row, the least
            rows = ascending_rows(keys, box_rows)
            try_arrangement(grid, given, rows, columns[k], labels, best, best_given)


@compiled
def canonicalise_all(grids: Digits, given: Digits, box_rows: int, columns: Cells, square: bool, forms: Digits) -> None:
    """Write the smallest version of every board [boards, size, size] into forms [boards, cells]."""
    cells = forms.shape[1]
    best = np.empty(cells, dtype=np.int8)
    best_given = np.empty(cells, dtype=np.int8)
    for board in range(len(grids)):
        best[:], best_given[:] = 127, 127
        canonicalise(grids[board], given[board], box_rows, columns, best, best_given)
        if square:
            flipped, flipped_given = grids[board].T.copy(), given[board].T.copy()
            canonicalise(flipped, flipped_given, box_rows, columns, best, best_given)
        forms[board] = best * best_given


def canonical_puzzles(puzzles: NDArray[Any], solutions: NDArray[Any]) -> Digits:
    """Return the smallest symmetric version [puzzles, cells] of puzzles with exactly one solution each.

    A symmetry of two puzzles is one of their solutions. So the solution is brought to its smallest form, and the givens
    along with it; where several symmetries do that, the one with the smallest pattern of givens counts.
    """
    layout = geometry(round(puzzles.shape[1] ** 0.5))
    shape = (len(puzzles), layout.size, layout.size)
    grids = np.ascontiguousarray(solutions, dtype=np.int8).reshape(shape)
    given = (puzzles > 0).astype(np.int8).reshape(shape)
    forms = np.empty((len(puzzles), layout.cells), dtype=np.int8)
    columns, square = _column_orders(layout.size), layout.box_rows == layout.box_columns

    def canonicalise_some(rows: slice) -> None:
        canonicalise_all(grids[rows], given[rows], layout.box_rows, columns, square, forms[rows])

    on_all_cores(canonicalise_some, [slice(start, start + 64) for start in range(0, len(puzzles), 64)])
    return forms


def symmetric_pairs(
    puzzles: NDArray[Any], solutions: NDArray[Any], others: NDArray[Any], other_solutions: NDArray[Any]
) -> list[tuple[int, int]]:
    """Return all (other, puzzle) where others[other] is a symmetry of puzzles[puzzle]; it is the first such puzzle.

    All arrays are [rows, cells], and every puzzle has exactly one solution. Only puzzles that share their fingerprint
    are compared exactly, so half a million take seconds.
    """
    marks = np.concatenate([fingerprints(puzzles, solutions), fingerprints(others, other_solutions)])
    _, numbers = np.unique(marks, axis=0, return_inverse=True)
    ours, theirs = np.split(numbers.ravel(), [len(puzzles)])
    suspects, other_suspects = np.flatnonzero(np.isin(ours, theirs)), np.flatnonzero(np.isin(theirs, ours))
    known: dict[bytes, int] = {}
    for row, form in zip(suspects, canonical_puzzles(puzzles[suspects], solutions[suspects]), strict=True):
        known.setdefault(form.tobytes(), int(row))
    forms = canonical_puzzles(others[other_suspects], other_solutions[other_suspects])
    found = zip(other_suspects, (known.get(form.tobytes()) for form in forms), strict=True)
    return [(int(row), puzzle) for row, puzzle in found if puzzle is not None]
