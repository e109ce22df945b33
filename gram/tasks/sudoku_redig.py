"""New puzzles from old ones: clues change places, while the solution stays the only one and the puzzle stays hard.

Most puzzles of a board are easy: one that is dug from the complete board needs 2 guesses where a puzzle of
Sudoku-Extreme needs 100, and even a puzzle with two revealed cells, dug again, has lost half of them. So a puzzle is
changed in many small steps. Each step reveals a cell and takes another clue away; a step after which the puzzle has
several solutions, or is much easier than the first one, is taken back.
"""

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from gram.errors import GramError
from gram.tasks.sudoku_solver import Cells, Digits, Integers, candidates_of, compiled, geometry, search, solve

Masks = NDArray[np.uint64]
"""Sets of cells as bits, two words each: [..., 2]."""

SWAPS = 16
"""Steps for each new puzzle: more make it differ more, and take longer."""
EASIEST = 0.75
"""A step is taken back if the puzzle then needs fewer guesses than this fraction of the first one's. The guesses
scatter above it, so that their mean is the original puzzles'."""
SETS = 512
"""Unavoidable sets that are kept for each board."""
BOARDS = 4096
"""Boards whose unavoidable sets are kept."""


@compiled
def mask_of(digits: Digits, others: Digits, bits: Masks) -> tuple[np.uint64, np.uint64]:
    """The cells in which two boards [cells] differ."""
    low, high = np.uint64(0), np.uint64(0)
    for cell in range(len(digits)):
        if digits[cell] != others[cell]:
            low |= bits[cell, 0]
            high |= bits[cell, 1]
    return low, high


@compiled
def is_needed(cell: int, given: tuple[np.uint64, np.uint64], sets: Masks, bits: Masks) -> bool:
    """Tell whether one of the unavoidable sets [sets, 2] holds this given and no other."""
    for k in range(len(sets)):
        if sets[k, 0] & given[0] == bits[cell, 0] and sets[k, 1] & given[1] == bits[cell, 1]:
            return True
    return False


@compiled
def remove_one(
    puzzle: Digits,
    solution: Digits,
    order: Integers,
    peers: Cells,
    units: Cells,
    ascending: Integers,
    bits: Masks,
    sets: Masks,
    known: int,
) -> tuple[int, int]:
    """Remove the first given, in this order of cells, without which the solution is still the only one.

    Two solutions differ in an unavoidable set of cells: every puzzle with one of these solutions has a given in it. So
    the sets of earlier searches spare most of the later ones.

    Args:
        puzzle: [cells] 0 for a blank; the given is removed in place.
        solution: [cells].
        order: [cells] the cells to try.
        peers: of the geometry.
        units: of the geometry.
        ascending: of the geometry.
        bits: [cells, 2] each cell as a set.
        sets: [sets, 2] takes the unavoidable sets of the board; the oldest are overwritten.
        known: how many there have been.

    Returns:
        the cell, or -1 if every given is needed; and how many sets there have been then
    """
    found = np.empty((1, len(puzzle)), dtype=np.int8)
    candidates = np.empty(len(puzzle), dtype=np.int32)
    given = mask_of(puzzle, np.zeros_like(puzzle), bits)
    for k in range(len(order)):
        cell = order[k]
        if puzzle[cell] == 0 or is_needed(cell, given, sets[: min(known, len(sets))], bits):
            continue
        puzzle[cell] = 0
        candidates_of(puzzle, units.shape[1], candidates)
        candidates[cell] ^= 1 << (solution[cell] - 1)
        solutions, _ = search(candidates, peers, units, ascending, found, 1)
        if solutions == 0:
            return cell, known
        puzzle[cell] = solution[cell]
        sets[known % len(sets)] = mask_of(solution, found[0], bits)
        known += 1
    return -1, known


@compiled
def swap_givens(
    puzzle: Digits,
    solution: Digits,
    orders: Integers,
    least: int,
    peers: Cells,
    units: Cells,
    ascending: Integers,
    bits: Masks,
    sets: Masks,
    known: int,
) -> int:
    """Walk from a puzzle [cells], in place, to another with the same solution and as many givens.

    Args:
        puzzle: [cells] 0 for a blank; changed in place.
        solution: [cells] its only one.
        orders: [steps, cells] each step reveals the first blank cell and tries to remove the other givens, in order.
        least: take a step back if the puzzle then needs fewer guesses.
        peers: of the geometry.
        units: of the geometry.
        ascending: of the geometry.
        bits: see `remove_one`.
        sets: see `remove_one`.
        known: see `remove_one`.

    Returns:
        how many unavoidable sets there have been
    """
    candidates = np.empty(len(puzzle), dtype=np.int32)
    found = np.empty((0, len(puzzle)), dtype=np.int8)
    for step in range(len(orders)):
        first = 0
        while first < len(puzzle) and puzzle[orders[step, first]] != 0:
            first += 1
        if first == len(puzzle):  # nothing is blank
            break
        revealed = orders[step, first]
        puzzle[revealed] = solution[revealed]
        # The givens before the first blank cell are tried last.
        others = np.concatenate((orders[step, first + 1 :], orders[step, :first]))
        removed, known = remove_one(puzzle, solution, others, peers, units, ascending, bits, sets, known)
        if removed >= 0:
            candidates_of(puzzle, units.shape[1], candidates)
            _, guesses = search(candidates, peers, units, ascending, found, 2, least)
            if guesses >= least:
                continue
            puzzle[removed] = solution[removed]
        puzzle[revealed] = 0
    return known


@dataclass
class _Board:
    """What is known of a solution."""

    sets: Masks
    """[sets, 2] cells of which every puzzle with this solution has a given"""
    known: int = 0
    """how many have been found"""
    ratings: dict[bytes, int] = field(default_factory=dict)
    """guesses that its puzzles need"""


class Redigger:
    """Makes new puzzles from given ones; what it remembers saves time and never changes the result."""

    def __init__(self, size: int) -> None:
        """Prepare for boards of this size."""
        self._layout = geometry(size)
        cells = np.arange(self._layout.cells, dtype=np.uint64)
        low = np.where(cells < 64, np.uint64(1) << (cells % 64), np.uint64(0))
        high = np.where(cells < 64, np.uint64(0), np.uint64(1) << (cells % 64))
        self._bits: Masks = np.stack([low, high], axis=1)
        self._boards: dict[bytes, _Board] = {}

    def redig(self, puzzles: Digits, solutions: Digits, generator: np.random.Generator) -> Digits:
        """Return a new puzzle [puzzles, cells] for each, with the same only solution and as many givens."""
        shape = (len(puzzles), SWAPS, self._layout.cells)
        orders = np.argsort(generator.random(shape), axis=2).astype(np.int32)
        redug = puzzles.copy()
        for puzzle, solution, order in zip(redug, solutions, orders, strict=True):
            self._walk(puzzle, solution, order)
        return redug

    def _walk(self, puzzle: Digits, solution: Digits, order: Integers) -> None:
        board = self._board(solution)
        key = puzzle.tobytes()
        if key not in board.ratings:
            board.ratings[key] = int(solve(puzzle[None]).guesses[0])
        least = int(np.ceil(EASIEST * board.ratings[key]))
        layout = self._layout
        tables = (layout.peers, layout.units, layout.ascending, self._bits)
        board.known = swap_givens(puzzle, solution, order, least, *tables, board.sets, board.known)

    def _board(self, solution: Digits) -> _Board:
        key = solution.tobytes()
        if key not in self._boards:
            if len(self._boards) == BOARDS:
                self._boards.clear()
            self._boards[key] = _Board(np.zeros((SETS, 2), dtype=np.uint64))
        return self._boards[key]


def check_redig(fraction: float) -> float:
    """Return the fraction of visits that show a re-dug puzzle, or raise `GramError` if it is none."""
    if isinstance(fraction, bool) or not 0 <= float(fraction) <= 1:
        raise GramError(f"redig must be a fraction from 0 (off) to 1 (every visit), not {fraction}")
    return float(fraction)
