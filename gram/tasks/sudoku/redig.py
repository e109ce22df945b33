"""New puzzles from old ones: clues change places, while the solution stays the only one and the puzzle stays hard.

Nearly all puzzles of a board are easy. One that is dug from the complete board needs 2 guesses on average where a
puzzle of Sudoku-Extreme needs 100, and even a puzzle in which 4 cells were revealed, dug again, needs only 30. So a
puzzle changes in small steps. Each step reveals a cell and takes another clue away, and is undone if the puzzle is then
much easier than the original. Where no step leads on, several clues change at once. A stock of puzzles, many steps away
from the originals, is made once and kept; every visit goes a few steps further from one of them.

    redigger = Redigger(puzzles, solutions, difficulty=0.75, seed=0)
    redigger.redig(puzzles[:8], generator)                        # 8 new puzzles with the same solutions
"""

import hashlib
import math
from functools import cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from rich.console import Console

from gram.compiled import on_all_cores
from gram.progress import bar
from gram.tasks.store import Arrays, cached_arrays
from gram.tasks.sudoku.solver import MANY_GUESSES, Digits, Geometry, Integers, candidates_of, compiled, geometry, search
from gram.tasks.sudoku.symmetry import random_orders

Masks = NDArray[np.uint64]
"""Sets of cells as bits, two words each: [..., 2]."""
Mask = tuple[np.uint64, np.uint64]

VISIT_STEPS = 8
"""Steps from a puzzle of the stock to the one that is shown."""
STOCK_STEPS = 16
"""Steps from one version of a puzzle to the next in the stock."""
VERSIONS = 16
"""Versions of each puzzle in the stock, if there are not too many puzzles."""
STOCK_SIZE = 16_000
"""Versions of all puzzles in the stock; each puzzle has at least one."""
JUMPS = 8
"""Puzzles from which the hardest is taken where no step leads on."""
JUMP_CELLS = 2
"""Cells that a jump reveals."""
SETS = 128
"""Unavoidable sets that are remembered for each board."""


class Board(NamedTuple):
    """A complete board and what is known of its puzzles."""

    solution: Digits
    """[cells]"""
    sets: Masks
    """[sets, 2] unavoidable sets: cells that cannot all be blank. New ones overwrite the oldest."""
    found: NDArray[np.int64]
    """[1] how many unavoidable sets were found so far"""
    bits: Masks
    """[cells, 2] each cell as a set"""
    layout: Geometry


@compiled
def differences(digits: Digits, others: Digits, bits: Masks) -> Mask:
    """Return the set of cells in which two boards [cells] differ."""
    low, high = np.uint64(0), np.uint64(0)
    for cell in range(len(digits)):
        if digits[cell] != others[cell]:
            low |= bits[cell, 0]
            high |= bits[cell, 1]
    return low, high


@compiled
def is_needed(cell: int, givens: Mask, board: Board) -> bool:
    """Tell whether a known unavoidable set holds this given and no other."""
    low, high = board.bits[cell]
    for k in range(min(board.found[0], len(board.sets))):
        if board.sets[k, 0] & givens[0] == low and board.sets[k, 1] & givens[1] == high:
            return True
    return False


@compiled
def remove_given(puzzle: Digits, order: Integers, board: Board) -> int:
    """Remove from a puzzle [cells], in place, the first given of `order` [some cells] without which it stays unique.

    Two solutions differ in an unavoidable set of cells: every puzzle with one of these solutions needs a given there.
    So the sets that earlier searches found spare most of the later searches.

    Returns the cell, or -1 if every given is needed.
    """
    solution, sets = board.solution, board.sets
    found = np.empty((1, len(puzzle)), dtype=np.int8)
    candidates = np.empty(len(puzzle), dtype=np.int32)
    givens = differences(puzzle, np.zeros_like(puzzle), board.bits)
    for k in range(len(order)):
        cell = order[k]
        if puzzle[cell] == 0 or is_needed(cell, givens, board):
            continue
        puzzle[cell] = 0
        candidates_of(puzzle, board.layout.size, candidates)
        candidates[cell] ^= 1 << (solution[cell] - 1)
        solutions, _ = search(candidates, board.layout, board.layout.ascending, found, 1)
        if solutions == 0:
            return int(cell)
        puzzle[cell] = solution[cell]
        sets[board.found[0] % len(sets)] = differences(solution, found[0], board.bits)
        board.found[0] += 1
    return -1


@compiled
def make_minimal(puzzle: Digits, order: Integers, board: Board) -> None:
    """Remove from a puzzle [cells], in place and in this order, every given that the others determine."""
    while remove_given(puzzle, order, board) >= 0:
        pass


@compiled
def rate(puzzle: Digits, board: Board, enough: int) -> int:
    """Count the guesses of two searches, from either end of the board; stop where there are enough.

    A search that starts elsewhere often needs half or twice as many guesses. Puzzles that are chosen by a single search
    become easier and easier for all others.
    """
    candidates = np.empty(len(puzzle), dtype=np.int32)
    nothing = np.empty((0, len(puzzle)), dtype=np.int8)
    guesses = 0
    for _ in range(2):
        candidates_of(puzzle, board.layout.size, candidates)
        _, more = search(candidates, board.layout, board.layout.ascending, nothing, 2, enough - guesses)
        guesses += more
        puzzle = puzzle[::-1].copy()
    return guesses


@compiled
def walk(puzzle: Digits, orders: Integers, least: int, board: Board) -> None:
    """Walk from a puzzle [cells], in place, to others with the same only solution and as many givens.

    Each step, in an order of its own in `orders` [steps, cells], reveals the first blank cell and removes the next
    given that can go. It is undone if the puzzle then has a rating below `least`.
    """
    for step in range(len(orders)):
        order = orders[step]
        first = 0
        while first < len(order) and puzzle[order[first]] != 0:
            first += 1
        if first == len(order):  # nothing is blank
            return
        revealed = order[first]
        puzzle[revealed] = board.solution[revealed]
        removed = remove_given(puzzle, np.concatenate((order[first + 1 :], order[:first])), board)
        if removed < 0:
            puzzle[revealed] = 0
        elif rate(puzzle, board, least) < least:
            puzzle[removed], puzzle[revealed] = board.solution[removed], 0


@compiled
def hardest_jump(puzzle: Digits, orders: Integers, board: Board) -> tuple[Digits, int]:
    """Return a puzzle [cells] with several other givens, the hardest of some, and its rating.

    Each jump, in an order of its own in `orders` [jumps, cells], reveals the first blank cells and removes the givens
    that can go, old ones first. If nothing else is found, the puzzle itself is returned, with rating 0.
    """
    hardest, highest = puzzle, 0
    for jump in range(len(orders)):
        order = orders[jump]
        blank = order[puzzle[order] == 0][:JUMP_CELLS]
        given = order[puzzle[order] > 0]
        other = puzzle.copy()
        other[blank] = board.solution[blank]
        for cells in (given, blank):
            make_minimal(other, cells, board)
        rating = rate(other, board, MANY_GUESSES)
        if rating >= highest and (other != puzzle).any():
            hardest, highest = other, rating
    return hardest, highest


@cache
def _bits(cells: int) -> Masks:
    """[cells, 2] each cell as a set."""
    cell, word = np.arange(cells, dtype=np.uint64)[:, None], np.arange(2, dtype=np.uint64)
    return np.where(cell // 64 == word, np.uint64(1) << cell % 64, np.uint64(0))


def new_board(solution: Digits) -> Board:
    """Return a complete board [cells] of whose puzzles nothing is known yet."""
    layout = geometry(round(len(solution) ** 0.5))
    sets, found = np.zeros((SETS, 2), dtype=np.uint64), np.zeros(1, dtype=np.int64)
    return Board(solution, sets, found, _bits(layout.cells), layout)


class Redigger:
    """Makes new puzzles from known ones, with the same solution and much the same number of clues and difficulty."""

    def __init__(self, puzzles: Digits, solutions: Digits, *, difficulty: float, seed: int) -> None:
        """Take the stock of these puzzles from the cache, or make it.

        Args:
            puzzles: [puzzles, cells] 0 for a blank.
            solutions: [puzzles, cells] their only ones.
            difficulty: new puzzles need at least this fraction of the guesses of the original, unless it has no such
                neighbours.
            seed: of the stock.
        """
        self._rows = {puzzle.tobytes(): row for row, puzzle in enumerate(puzzles)}
        self._originals, self._solutions = puzzles, solutions
        self._versions = int(np.clip(STOCK_SIZE // len(puzzles), 1, VERSIONS))
        settings = {
            "puzzles": hashlib.sha256(puzzles.tobytes() + solutions.tobytes()).hexdigest(),
            "difficulty": difficulty,
            "versions": self._versions,
            "seed": seed,
        }
        self._stock = cached_arrays("sudoku-redig-2", settings, lambda: self._build(difficulty, seed))

    def _build(self, difficulty: float, seed: int) -> Arrays:
        """Make the stock; every puzzle has random numbers of its own, so it depends on the seed alone."""
        total = len(self._originals)
        stock: Arrays = {
            "puzzles": np.repeat(self._originals[:, None], self._versions, axis=1),
            "least": np.zeros((total, self._versions), dtype=np.int64),
            "sets": np.zeros((total, SETS, 2), dtype=np.uint64),
            "found": np.zeros((total, 1), dtype=np.int64),
        }

        def fill(row: int) -> None:
            self._fill(stock, row, difficulty, np.random.default_rng([seed, row]))
            advance(1)

        with bar(Console(stderr=True), "re-digging puzzles", total) as advance:
            on_all_cores(fill, list(range(total)))
        return stock

    def _fill(self, stock: Arrays, row: int, difficulty: float, generator: np.random.Generator) -> None:
        """Make the versions of a puzzle, each from the one before."""
        puzzle, board = stock["puzzles"][row, 0].copy(), self._board(stock, row)
        least = math.ceil(difficulty * rate(puzzle, board, MANY_GUESSES))
        seen = {puzzle.tobytes()}
        for version in range(self._versions):
            walk(puzzle, self._orders(generator, STOCK_STEPS), least, board)
            made, made_least = puzzle, least
            if puzzle.tobytes() in seen:  # harder than nearly all around it: better an easier one than the same again
                made, rating = hardest_jump(puzzle, self._orders(generator, JUMPS), board)
                made_least = min(least, math.ceil(difficulty * rating))
            stock["puzzles"][row, version], stock["least"][row, version] = made, made_least
            seen.add(made.tobytes())

    def _board(self, stock: Arrays, row: int) -> Board:
        return new_board(self._solutions[row])._replace(sets=stock["sets"][row], found=stock["found"][row])

    def _orders(self, generator: np.random.Generator, *shape: int) -> Integers:
        return random_orders(generator, *shape, self._solutions.shape[1]).astype(np.int32)

    def redig(self, puzzles: Digits, generator: np.random.Generator) -> Digits:
        """Return a new puzzle [puzzles, cells] for each that is known; others [puzzles, cells] stay as they are."""
        redug = puzzles.copy()
        versions = generator.integers(self._versions, size=len(puzzles))
        orders = self._orders(generator, len(puzzles), VISIT_STEPS)
        for k, version in enumerate(versions):
            row = self._rows.get(puzzles[k].tobytes())
            if row is not None:
                redug[k] = self._stock["puzzles"][row, version]
                walk(redug[k], orders[k], self._stock["least"][row, version], self._board(self._stock, row))
        return redug
