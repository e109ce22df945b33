"""An exact Sudoku solver: singles are propagated, and where they end the most constrained cell is guessed.

Boards are digits, row by row, with 0 for a blank: [rows, cells]. Everything is compiled once by numba and kept.

    solved = solve(boards)                  # counts solutions up to 2, rates each puzzle by the number of guesses
    solved.counts == 1                      # proper puzzles
"""

import math
from dataclasses import dataclass
from functools import cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from gram.compiled import compile_cached, on_all_cores
from gram.errors import GramError

Digits = NDArray[np.int8]
Integers = NDArray[np.int32]
Cells = NDArray[np.uint64]
"""Numbers of cells; unsigned, so that numba spares itself the check for negative ones (a quarter of the time)."""

BOX_SHAPES = {4: (2, 2), 6: (2, 3), 9: (3, 3)}
"""Rows and columns of a box, by size of the board."""

PLACED = 1 << 15
"""Marks a cell whose digit has been struck out of its peers; the lower bits are the digits still possible."""

MANY_GUESSES = 1 << 31
"""More guesses than any search needs."""

compiled = compile_cached()
"""Compiles a function with numba, on first use and once per machine; it runs without Python's global lock."""


class Geometry(NamedTuple):
    """Which cells of a board belong together; a tuple, because numba takes no other record."""

    size: int
    """rows, columns, boxes and digits"""
    box_rows: int
    box_columns: int
    units: Cells
    """[3 * size, size] the cells of every row, column and box"""
    peers: Cells
    """[cells, peers] the other cells of each cell's row, column and box"""
    ascending: Integers
    """[cells, size] the digits of each cell as bits, in the order in which they are guessed"""

    @property
    def cells(self) -> int:
        return self.size * self.size


@cache
def geometry(size: int) -> Geometry:
    """Return the layout of a 4x4 (boxes 2x2), 6x6 (2x3) or 9x9 (3x3) board."""
    if size not in BOX_SHAPES:
        raise GramError(f"The Sudoku board size must be 4, 6 or 9, not {size}.")
    box_rows, box_columns = BOX_SHAPES[size]
    grid = np.arange(size * size, dtype=np.uint64).reshape(size, size)
    boxes = grid.reshape(size // box_rows, box_rows, box_rows, box_columns).swapaxes(1, 2).reshape(size, size)
    units = np.concatenate([grid, grid.T, boxes])
    together = np.zeros((size * size, size * size), dtype=bool)
    for unit in units:
        together[np.ix_(unit, unit)] = True
    np.fill_diagonal(together, False)
    peers = np.nonzero(together)[1].reshape(size * size, -1).astype(np.uint64)
    ascending = np.ascontiguousarray(np.broadcast_to(1 << np.arange(size, dtype=np.int32), (size * size, size)))
    for array in (units, peers, ascending):
        array.setflags(write=False)  # shared by every board of this size
    return Geometry(size, box_rows, box_columns, units, peers, ascending)


@compiled
def candidates_of(board: Digits, size: int, candidates: Integers) -> None:
    """Write the possible digits of each cell as bits: one for a given, all for a blank."""
    for cell in range(len(board)):
        candidates[cell] = (1 << size) - 1 if board[cell] == 0 else 1 << (board[cell] - 1)


@compiled
def strike_out(candidates: Integers, peers: Cells, cell: int) -> bool:
    """Place the only digit of a cell: no peer may have it. False if a peer then has no digit left."""
    bit = candidates[cell]
    candidates[cell] = bit | PLACED
    for k in range(peers.shape[1]):
        peer = peers[cell, k]
        if candidates[peer] & bit:
            candidates[peer] ^= bit
            if candidates[peer] & ~PLACED == 0:
                return False
    return True


@compiled
def place_naked_singles(candidates: Integers, peers: Cells) -> int:
    """Place every cell with a single candidate; return how many were placed, or -1 if they contradict each other."""
    placed = 0
    for cell in range(len(candidates)):
        mask = candidates[cell]
        if mask & PLACED == 0 and mask & (mask - 1) == 0:
            if mask == 0 or not strike_out(candidates, peers, cell):
                return -1
            placed += 1
    return placed


@compiled
def find_hidden_singles(candidates: Integers, units: Cells, full: int) -> int:
    """Reduce cells that alone in a unit can hold a digit; return how many, or -1 if a unit cannot be completed."""
    found = 0
    for unit in range(units.shape[0]):
        once, twice, placed = 0, 0, 0
        for k in range(units.shape[1]):
            mask = candidates[units[unit, k]]
            twice |= once & mask
            once |= mask
            if mask & PLACED:
                placed |= mask
        if once & full != full:
            return -1
        only = once & ~twice & ~placed & full
        if only == 0:
            continue
        for k in range(units.shape[1]):
            cell = units[unit, k]
            mask = candidates[cell] & only
            if mask == 0:
                continue
            if mask & (mask - 1):  # two digits that fit nowhere else claim this cell
                return -1
            if candidates[cell] != mask:
                candidates[cell] = mask
                found += 1
    return found


@compiled
def propagate(candidates: Integers, peers: Cells, units: Cells) -> bool:
    """Place all naked and hidden singles; False if the board has become contradictory."""
    full = (1 << units.shape[1]) - 1
    while True:
        placed = place_naked_singles(candidates, peers)
        if placed == 0:
            placed = find_hidden_singles(candidates, units, full)
        if placed <= 0:
            return placed == 0


@compiled
def most_constrained(candidates: Integers) -> int:
    """Return the first cell with the fewest candidates among those not placed, or -1 if every cell is placed."""
    best, fewest = -1, 99
    for cell in range(len(candidates)):
        mask = candidates[cell]
        if mask & PLACED:
            continue
        count = 0
        while mask:
            mask &= mask - 1
            count += 1
        if count == 2:
            return cell
        if count < fewest:
            best, fewest = cell, count
    return best


@compiled
def search(
    candidates: Integers, layout: Geometry, order: Integers, found: Digits, limit: int, guess_limit: int = MANY_GUESSES
) -> tuple[int, int]:
    """Look for solutions until there are `limit`; return how many there are, and the number of guesses.

    Args:
        candidates: [cells] possible digits as bits; not changed.
        layout: of the board.
        order: [cells, size] bits in the order in which a cell tries its digits.
        found: [any number, cells] takes the solutions, as many as fit.
        limit: stop at this number of solutions.
        guess_limit: stop at this number of guesses, to learn whether a puzzle needs as many.
    """
    cells = len(candidates)
    stack = np.empty((cells + 1, cells), dtype=np.int32)  # every guess places a cell, so it cannot be deeper
    stack[0] = candidates
    depth, count, guesses = 0, 0, 0
    while depth >= 0 and guesses < guess_limit:
        state = stack[depth]
        if not propagate(state, layout.peers, layout.units):
            depth -= 1
            continue
        cell = most_constrained(state)
        if cell < 0:
            if count < len(found):
                for k in range(cells):
                    found[count, k] = math.frexp(state[k] & ~PLACED)[1]  # the position of the only bit, from 1
            count += 1
            if count == limit:
                break
            depth -= 1
            continue
        bit = first_in_order(state[cell], order[cell])
        stack[depth + 1] = state
        stack[depth + 1, cell] = bit
        state[cell] ^= bit  # what remains to be tried when the search comes back to this depth
        guesses += 1
        depth += 1
    return count, guesses


@compiled
def first_in_order(mask: int, order: Integers) -> int:
    """Return the first of these bits that the mask has."""
    k = 0
    while mask & order[k] == 0:
        k += 1
    return int(order[k])


@compiled
def solve_all(boards: Digits, layout: Geometry, orders: Integers, limit: int, first: Digits, results: Integers) -> None:
    """Search every board [rows, cells]; write the first solution [rows, cells], and solutions and guesses [rows, 2]."""
    candidates = np.empty(boards.shape[1], dtype=np.int32)
    for row in range(len(boards)):
        candidates_of(boards[row], layout.size, candidates)
        # Either one order for all boards or one for each.
        order = orders[row % len(orders)]
        results[row] = search(candidates, layout, order, first[row : row + 1], limit)


@dataclass(frozen=True)
class Solved:
    """The results of the search for each board."""

    counts: Integers
    """[rows] number of solutions, up to the limit"""
    guesses: Integers
    """[rows] guesses of the whole search: the rating. 0 means that singles suffice"""
    first: Digits
    """[rows, cells] the first solution; zeros where there is none"""


def solve(boards: NDArray[Any], *, limit: int = 2, orders: Integers | None = None) -> Solved:
    """Count the solutions of boards [rows, cells] up to a limit, and the guesses that takes.

    Args:
        boards: digits, 0 for a blank.
        limit: stop at this number of solutions; 2 tells whether the first is the only one.
        orders: [rows, cells, size] digits as bits in the order in which each cell tries them; ascending by default.
    """
    layout = geometry(round(boards.shape[1] ** 0.5))
    boards = np.ascontiguousarray(boards, dtype=np.int8)
    first = np.zeros_like(boards)
    results = np.zeros((len(boards), 2), dtype=np.int32)

    def solve_some(rows: slice) -> None:
        some_orders = layout.ascending[None] if orders is None else orders[rows]
        solve_all(boards[rows], layout, some_orders, limit, first[rows], results[rows])

    on_all_cores(solve_some, [slice(start, start + 256) for start in range(0, len(boards), 256)])
    return Solved(counts=results[:, 0], guesses=results[:, 1], first=first)


def list_solutions(board: NDArray[Any], *, limit: int, guess_limit: int = MANY_GUESSES) -> Digits:
    """Return the solutions [count, cells] of one board [cells], at most `limit` of them.

    `GramError` if that takes `guess_limit` guesses: some boards without a solution keep a search busy for hours.
    """
    layout = geometry(round(len(board) ** 0.5))
    candidates = np.empty(layout.cells, dtype=np.int32)
    candidates_of(np.ascontiguousarray(board, dtype=np.int8), layout.size, candidates)
    found = np.zeros((limit, layout.cells), dtype=np.int8)
    count, guesses = search(candidates, layout, layout.ascending, found, limit, guess_limit)
    if count < limit and guesses >= guess_limit:
        raise GramError("It takes too long to find out whether the puzzle has one solution: add a given.")
    return found[:count]
