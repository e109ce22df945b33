"""Hard puzzles without limit, grown from a few hard ones: a neighbour shares most clues and has another solution.

Take a clue of a puzzle away, choose another of the solutions that it then has, and add clues of that one until it is
the only one. Nearly all of these neighbours are easy, but the steps of `gram.tasks.sudoku.redig` soon make the few
others as hard as the first puzzle. From there the next neighbour is reached, so a chain leads to boards that have
little in common with the first.

What must be kept is that a puzzle resists trial and error (`gram.tasks.sudoku.trial`). The number of guesses alone does
not do: chains that keep it drift, within a few links, to puzzles that a network solves twice as often.

    more, solutions = grow(puzzles, solutions, 10_000, seed=0)      # about twenty a second on each core
"""

import math

import numpy as np
from rich.console import Console

from gram.compiled import on_all_cores
from gram.progress import bar
from gram.tasks.sudoku.redig import SETS, Board, make_minimal, new_board, rate, walk
from gram.tasks.sudoku.solver import MANY_GUESSES, Digits, Integers, candidates_of, compiled, search
from gram.tasks.sudoku.trial import resists_trial

SOLUTIONS = 64
"""Solutions among which one is chosen."""
SEARCH_LIMIT = 2000
"""Guesses after which a neighbour is given up."""
MOST_ADDED = 8
"""Clues that are added before a neighbour is given up."""
TRIES = 500
"""Neighbours of a puzzle before it is given up."""
STARTS = 8
"""Puzzles that are tried before the hardest neighbour of the last one has to do."""
FIRST_GATE, LAST_GATE = 0.15, 0.6
"""Fractions of the first puzzle's guesses: a neighbour that needs fewer is not made harder, one that needs more is
kept if the first puzzle does not resist trial and error."""
ROUNDS, ROUND_STEPS = 3, 8
"""Rounds of making a puzzle harder and steps in a round, none of which may make it easier than the round before did."""


@compiled
def random_orders(count: int, length: int) -> Integers:
    """Return random orders [count, length]."""
    orders = np.empty((count, length), dtype=np.int32)
    for k in range(count):
        orders[k] = np.random.permutation(length)
    return orders


@compiled
def neighbour(puzzle: Digits, board: Board, chosen: Digits) -> bool:
    """Make a neighbour of a puzzle [cells], in place, and write its only solution to `chosen` [cells].

    Returns False if it was given up.
    """
    layout = board.layout
    (order,) = random_orders(1, len(puzzle))
    digits = (1 << random_orders(len(puzzle), layout.size)).astype(np.int32)
    puzzle[order[puzzle[order] > 0][0]] = 0
    candidates = np.empty(len(puzzle), dtype=np.int32)
    found = np.empty((SOLUTIONS, len(puzzle)), dtype=np.int8)
    candidates_of(puzzle, layout.size, candidates)
    count, _ = search(candidates, layout, digits, found, SOLUTIONS, SEARCH_LIMIT)
    if count < 2:
        return False
    # The digits are tried in random order, so the last solution is as good a choice as any.
    chosen[:] = found[count - 1]
    if (chosen == board.solution).all():
        chosen[:] = found[0]
    for _ in range(MOST_ADDED + 1):
        candidates_of(puzzle, layout.size, candidates)
        count, guesses = search(candidates, layout, digits, found[:2], 2, SEARCH_LIMIT)
        if count < 2:
            return guesses < SEARCH_LIMIT
        other = found[1] if (found[0] == chosen).all() else found[0]
        differing = order[(puzzle[order] == 0) & (other[order] != chosen[order])]
        puzzle[differing[0]] = chosen[differing[0]]
    return False


@compiled
def is_as_hard(puzzle: Digits, board: Board, rating: int, aim: int, resists: bool) -> bool:
    """Tell whether a puzzle [cells] is as hard as the first of its family, of which `aim` and `resists` are known."""
    return resists_trial(puzzle, board.layout) if resists else rating >= LAST_GATE * aim


@compiled
def make_harder(puzzle: Digits, board: Board, aim: int, resists: bool) -> tuple[int, bool]:
    """Make a puzzle [cells] minimal, and harder if that is promising, in place; return its rating and `is_as_hard`."""
    (order,) = random_orders(1, len(puzzle))
    make_minimal(puzzle, order, board)
    rating = rate(puzzle, board, MANY_GUESSES)
    done = is_as_hard(puzzle, board, rating, aim, resists)
    for _ in range(ROUNDS):
        if done or rating < FIRST_GATE * aim:
            break
        walk(puzzle, random_orders(ROUND_STEPS, len(puzzle)), rating, board)
        rating = max(rating, rate(puzzle, board, MANY_GUESSES))
        done = is_as_hard(puzzle, board, rating, aim, resists)
    return rating, done


@compiled
def hard_neighbour(puzzle: Digits, board: Board, aim: int, resists: bool, seed: int) -> tuple[Digits, Digits, bool]:
    """Return a neighbour [cells], its solution [cells], and whether it is as hard as the first puzzle of its family.

    That puzzle needs `aim` guesses, and `resists` tells whether it resists trial and error.
    """
    np.random.seed(seed)  # numba's own, one for each thread
    hardest, of_hardest, highest = puzzle, board.solution, -1
    for _ in range(TRIES):
        other, solution = puzzle.copy(), board.solution.copy()
        if not neighbour(other, board, solution):
            continue
        sets, found = np.zeros((SETS, 2), dtype=np.uint64), np.zeros(1, dtype=np.int64)
        other_board = Board(solution, sets, found, board.bits, board.layout)
        rating, done = make_harder(other, other_board, aim, resists)
        if done:
            return other, solution, True
        if rating > highest:
            hardest, of_hardest, highest = other, solution, rating
    return hardest, of_hardest, False


def grow(puzzles: Digits, solutions: Digits, count: int, *, seed: int) -> tuple[Digits, Digits]:
    """Return new 9 x 9 puzzles with one solution each [count, cells], and their solutions [count, cells].

    Every puzzle [puzzles, cells] has a family about as hard as itself; it depends on the seed and that puzzle alone.
    """
    members = math.ceil(count / len(puzzles))
    grown = np.empty((members, 2, *puzzles.shape), dtype=np.int8)

    def grow_family(row: int) -> None:
        generator = np.random.default_rng([seed, 2, row])
        for member, made in enumerate(_family(puzzles[row], solutions[row], members, generator)):
            grown[member, :, row] = made
        advance(members)

    with bar(Console(stderr=True), "growing puzzles", len(puzzles) * members) as advance:
        on_all_cores(grow_family, list(range(len(puzzles))))
    # Member by member, so that fewer puzzles than there are in all come from all families.
    flat = grown.swapaxes(0, 1).reshape(2, -1, puzzles.shape[1])[:, :count]
    return flat[0], flat[1]


def _family(
    puzzle: Digits, solution: Digits, members: int, generator: np.random.Generator
) -> list[tuple[Digits, Digits]]:
    """Return puzzles and solutions [cells], each a neighbour of the first puzzle or of an earlier one."""
    board = new_board(solution.copy())
    aim = rate(puzzle.copy(), board, MANY_GUESSES)
    resists = resists_trial(puzzle, board.layout)
    family = [(puzzle.copy(), solution.copy())]
    while len(family) <= members:
        for _ in range(STARTS):
            start, of_start = family[generator.integers(len(family))]
            *made, done = hard_neighbour(start, new_board(of_start), aim, resists, int(generator.integers(2**32)))
            if done:
                break
        family.append((made[0], made[1]))
    return family[1:]
