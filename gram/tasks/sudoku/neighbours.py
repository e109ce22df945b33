"""Hard puzzles without limit, grown from a few hard ones: a neighbour shares most clues and has another solution.

Take two clues of a puzzle away, choose another of the solutions that it then has, and add clues of that one until it is
the only one. Nearly all of these neighbours are easy: the median needs a twentieth of the guesses. But the few that are
not climb fast, by the steps of `gram.tasks.sudoku.redig`, back to the difficulty that the puzzle had. From there
the next neighbour is reached, so a chain leads to boards that have nothing in common with the first.

    more, solutions = grow(puzzles, solutions, 10_000, seed=0)      # about eight a second on each core
"""

import math

import numpy as np
from rich.console import Console

from gram.compiled import on_all_cores
from gram.progress import bar
from gram.tasks.sudoku.redig import Board, new_board, random_orders, rate, remove_given, walk
from gram.tasks.sudoku.solver import (
    MANY_GUESSES,
    Cells,
    Digits,
    Integers,
    candidates_of,
    compiled,
    search,
)

EXCHANGED = 2
"""Clues that are taken away at once."""
SOLUTIONS = 64
"""Solutions among which one is chosen."""
SEARCH_LIMIT = 2000
"""Guesses after which a neighbour is given up."""
MOST_ADDED = 8
"""Clues that are added before a neighbour is given up."""
AT_ONCE = 32
"""Neighbours that are made in one call of compiled code."""
BATCHES = 60
"""Such calls before the hardest neighbour so far has to do."""
FIRST_GATE = 0.15
"""A neighbour climbs if it needs this fraction of the guesses that are aimed at."""
CLIMBS = ((5, 0.3), (25, 0.6))
"""Rounds of climbing, and the fraction of the guesses that a neighbour must need after them."""
ROUND_STEPS = 8
"""Steps in a round, none of which may make the puzzle easier than it was after the round before."""


@compiled
def neighbour(
    puzzle: Digits, solution: Digits, order: Integers, digits: Integers, peers: Cells, units: Cells, chosen: Digits
) -> bool:
    """Make a neighbour, in place, and write its only solution to `chosen`; False if it was given up.

    Args:
        puzzle: [cells] 0 for a blank.
        solution: [cells] its only one.
        order: [cells] in which givens are taken away and added.
        digits: [cells, size] bits in the order in which a cell tries its digits.
        peers: of the geometry.
        units: of the geometry.
        chosen: [cells] takes the solution.
    """
    given = order[puzzle[order] > 0]
    puzzle[given[:EXCHANGED]] = 0
    candidates = np.empty(len(puzzle), dtype=np.int32)
    found = np.empty((SOLUTIONS, len(puzzle)), dtype=np.int8)
    candidates_of(puzzle, units.shape[1], candidates)
    count, _ = search(candidates, peers, units, digits, found, SOLUTIONS, SEARCH_LIMIT)
    if count < 2:
        return False
    # The digits are tried in random order, so the last solution is as good a choice as any.
    chosen[:] = found[count - 1]
    if (chosen == solution).all():
        chosen[:] = found[0]
    for _ in range(MOST_ADDED + 1):
        candidates_of(puzzle, units.shape[1], candidates)
        count, guesses = search(candidates, peers, units, digits, found[:2], 2, SEARCH_LIMIT)
        if count < 2:
            return guesses < SEARCH_LIMIT
        other = found[1] if (found[0] == chosen).all() else found[0]
        differing = order[(puzzle[order] == 0) & (other[order] != chosen[order])]
        puzzle[differing[0]] = chosen[differing[0]]
    return False


@compiled
def neighbours(
    puzzle: Digits, solution: Digits, orders: Integers, digits: Integers, peers: Cells, units: Cells
) -> tuple[Digits, Digits]:
    """Make a neighbour for each order [tries, cells]; return those with one solution, and the solutions."""
    made, solutions = np.empty(orders.shape, dtype=np.int8), np.empty(orders.shape, dtype=np.int8)
    count = 0
    for k in range(len(orders)):
        made[count] = puzzle
        if neighbour(made[count], solution, orders[k], digits[k], peers, units, solutions[count]):
            count += 1
    return made[:count], solutions[:count]


def grow(puzzles: Digits, solutions: Digits, count: int, *, seed: int) -> tuple[Digits, Digits]:
    """Return new 9 x 9 puzzles with one solution each [count, cells], and their solutions [count, cells].

    Every puzzle [puzzles, cells] begins a chain of neighbours about as hard as itself; it depends on the seed and that
    puzzle alone.
    """
    links = math.ceil(count / len(puzzles))
    grown = np.empty((2, len(puzzles), links, puzzles.shape[1]), dtype=np.int8)

    def grow_chain(row: int) -> None:
        generator = np.random.default_rng([seed, 2, row])
        puzzle, board = puzzles[row], new_board(solutions[row])
        aim = rate(puzzle.copy(), board, MANY_GUESSES)
        for link in range(links):
            puzzle, board = _hard_neighbour(puzzle, board, aim, generator)
            grown[:, row, link] = puzzle, board.solution
            advance(1)

    with bar(Console(stderr=True), "growing puzzles", len(puzzles) * links) as advance:
        on_all_cores(grow_chain, list(range(len(puzzles))))
    # Link by link, so that fewer puzzles than there are in all come from all chains.
    flat = grown.swapaxes(1, 2).reshape(2, -1, puzzles.shape[1])[:, :count]
    return flat[0], flat[1]


def _hard_neighbour(puzzle: Digits, board: Board, aim: int, generator: np.random.Generator) -> tuple[Digits, Board]:
    """Return a neighbour that needs about `aim` guesses, or the hardest that was found; and its board."""
    hardest, of_board, highest = puzzle, board, -1
    for _ in range(BATCHES):
        orders = random_orders(generator, AT_ONCE, cells=len(puzzle))
        digits = np.argsort(generator.random((AT_ONCE, len(puzzle), board.units.shape[1])), axis=2)
        made = neighbours(puzzle, board.solution, orders, (1 << digits).astype(np.int32), board.peers, board.units)
        for other, solution, order in zip(*made, orders, strict=False):
            other_board = new_board(solution.copy())
            rating = _climb(other, other_board, order, aim, generator)
            if rating > highest:
                hardest, of_board, highest = other.copy(), other_board, rating
            if rating >= CLIMBS[-1][1] * aim:
                return hardest, of_board
    return hardest, of_board


def _climb(puzzle: Digits, board: Board, order: Integers, aim: int, generator: np.random.Generator) -> int:
    """Make a puzzle [cells] minimal and then harder, in place, as long as that is promising; return its rating."""
    while remove_given(puzzle, order, board) >= 0:
        pass
    rating = rate(puzzle, board, MANY_GUESSES)
    if rating < FIRST_GATE * aim:
        return rating
    for rounds, gate in CLIMBS:
        for _ in range(rounds):
            if rating >= aim:
                return rating
            walk(puzzle, random_orders(generator, ROUND_STEPS, cells=len(puzzle)), rating, board)
            rating = max(rating, rate(puzzle, board, MANY_GUESSES))
        if rating < gate * aim:
            break
    return rating
