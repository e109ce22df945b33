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

from gram.progress import bar
from gram.tasks.sudoku.redig import SETS, Board, new_board, rate, remove_given, walk
from gram.tasks.sudoku.solver import MANY_GUESSES, Digits, Integers, candidates_of, compiled, on_all_cores, search

EXCHANGED = 2
"""Clues that are taken away at once."""
SOLUTIONS = 64
"""Solutions among which one is chosen."""
SEARCH_LIMIT = 2000
"""Guesses after which a neighbour is given up."""
MOST_ADDED = 8
"""Clues that are added before a neighbour is given up."""
TRIES = 2000
"""Neighbours before the hardest so far has to do."""
FIRST_GATE = 0.15
"""A neighbour climbs if it needs this fraction of the guesses that are aimed at."""
CLIMBS = ((5, 0.3), (25, 0.6))
"""Rounds of climbing, and the fraction of the guesses that a neighbour must need after them."""
LAST_GATE = CLIMBS[-1][1]
ROUND_STEPS = 8
"""Steps in a round, none of which may make the puzzle easier than it was after the round before."""


@compiled
def random_orders(count: int, length: int) -> Integers:
    """Return random orders [count, length]."""
    orders = np.empty((count, length), dtype=np.int32)
    for k in range(count):
        orders[k] = np.random.permutation(length)
    return orders


@compiled
def neighbour(puzzle: Digits, board: Board, chosen: Digits) -> bool:
    """Make a neighbour, in place, and write its only solution to `chosen`; False if it was given up.

    Args:
        puzzle: [cells] 0 for a blank.
        board: of the puzzle.
        chosen: [cells] takes the solution.
    """
    size = board.units.shape[1]
    (order,) = random_orders(1, len(puzzle))
    digits = (1 << random_orders(len(puzzle), size)).astype(np.int32)
    puzzle[order[puzzle[order] > 0][:EXCHANGED]] = 0
    candidates = np.empty(len(puzzle), dtype=np.int32)
    found = np.empty((SOLUTIONS, len(puzzle)), dtype=np.int8)
    candidates_of(puzzle, size, candidates)
    count, _ = search(candidates, board.peers, board.units, digits, found, SOLUTIONS, SEARCH_LIMIT)
    if count < 2:
        return False
    # The digits are tried in random order, so the last solution is as good a choice as any.
    chosen[:] = found[count - 1]
    if (chosen == board.solution).all():
        chosen[:] = found[0]
    for _ in range(MOST_ADDED + 1):
        candidates_of(puzzle, size, candidates)
        count, guesses = search(candidates, board.peers, board.units, digits, found[:2], 2, SEARCH_LIMIT)
        if count < 2:
            return guesses < SEARCH_LIMIT
        other = found[1] if (found[0] == chosen).all() else found[0]
        differing = order[(puzzle[order] == 0) & (other[order] != chosen[order])]
        puzzle[differing[0]] = chosen[differing[0]]
    return False


@compiled
def climb(puzzle: Digits, board: Board, aim: int) -> int:
    """Make a puzzle [cells] minimal and then harder, in place, as long as that is promising; return its rating."""
    (order,) = random_orders(1, len(puzzle))
    while remove_given(puzzle, order, board) >= 0:
        pass
    rating = rate(puzzle, board, MANY_GUESSES)
    if rating < FIRST_GATE * aim:
        return rating
    for rounds, gate in CLIMBS:
        for _ in range(rounds):
            if rating >= aim:
                return rating
            walk(puzzle, random_orders(ROUND_STEPS, len(puzzle)), rating, board)
            rating = max(rating, rate(puzzle, board, MANY_GUESSES))
        if rating < gate * aim:
            break
    return rating


@compiled
def hard_neighbour(puzzle: Digits, board: Board, aim: int, seed: int) -> tuple[Digits, Digits]:
    """Return a neighbour [cells] that needs about `aim` guesses, or the hardest that was found, and its solution."""
    np.random.seed(seed)  # numba's own, one for each thread
    hardest, of_hardest, highest = puzzle, board.solution, -1
    for _ in range(TRIES):
        other, solution = puzzle.copy(), board.solution.copy()
        if not neighbour(other, board, solution):
            continue
        sets, found = np.zeros((SETS, 2), dtype=np.uint64), np.zeros(1, dtype=np.int64)
        rating = climb(other, Board(solution, sets, found, board.bits, board.peers, board.units, board.ascending), aim)
        if rating > highest:
            hardest, of_hardest, highest = other, solution, rating
        if rating >= LAST_GATE * aim:
            break
    return hardest, of_hardest


def grow(puzzles: Digits, solutions: Digits, count: int, *, seed: int) -> tuple[Digits, Digits]:
    """Return new 9 x 9 puzzles with one solution each [count, cells], and their solutions [count, cells].

    Every puzzle [puzzles, cells] begins a chain of neighbours about as hard as itself; it depends on the seed and that
    puzzle alone.
    """
    links = math.ceil(count / len(puzzles))
    grown = np.empty((2, len(puzzles), links, puzzles.shape[1]), dtype=np.int8)

    def grow_chain(row: int) -> None:
        seeds = np.random.default_rng([seed, 2, row]).integers(2**32, size=links)
        puzzle, board = puzzles[row].copy(), new_board(solutions[row].copy())
        aim = rate(puzzle, board, MANY_GUESSES)
        for link in range(links):
            puzzle, solution = hard_neighbour(puzzle, board, aim, seeds[link])
            board = new_board(solution)
            grown[:, row, link] = puzzle, solution
            advance(1)

    with bar(Console(stderr=True), "growing puzzles", len(puzzles) * links) as advance:
        on_all_cores(grow_chain, list(range(len(puzzles))))
    # Link by link, so that fewer puzzles than there are in all come from all chains.
    flat = grown.swapaxes(1, 2).reshape(2, -1, puzzles.shape[1])[:, :count]
    return flat[0], flat[1]
