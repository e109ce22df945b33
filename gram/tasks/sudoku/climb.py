"""Hard puzzles without limit: a puzzle of a new board is changed step by step, and what makes it easier is undone.

Puzzles that are dug from a complete board need 2 guesses on average; after some hundred steps of climbing they need
about 45, where those of Sudoku-Extreme need 90. That takes a few hundredths of a second for each.
"""

import numpy as np
from rich.console import Console

from gram.progress import bar
from gram.tasks.sudoku.generator import random_boards
from gram.tasks.sudoku.redig import CHUNK, Board, new_board, random_orders, rate, remove_given, walk
from gram.tasks.sudoku.solver import MANY_GUESSES, Digits, on_all_cores

CLIMBS = 2
"""Puzzles of a board that climb; the harder one is taken."""
ROUNDS, STEPS = 60, 8
"""Each round walks so many steps, none of which may make the puzzle easier than it was at the end of a round."""


def climb(count: int, *, seed: int) -> tuple[Digits, Digits]:
    """Return hard 9 x 9 puzzles with one solution [count, cells], 0 for a blank, and the solutions [count, cells]."""
    solutions = random_boards(9, count, np.random.default_rng([seed, 2]))
    puzzles = solutions.copy()

    def climb_some(rows: range) -> None:
        for row in rows:
            generator, board = np.random.default_rng([seed, 3, row]), new_board(solutions[row])
            climbs = [_climbed(board, generator) for _ in range(CLIMBS)]
            puzzles[row] = max(climbs, key=lambda puzzle: rate(puzzle, board, MANY_GUESSES))
        advance(len(rows))

    with bar(Console(stderr=True), "making hard puzzles", count) as advance:
        on_all_cores(climb_some, [range(start, min(start + CHUNK, count)) for start in range(0, count, CHUNK)])
    return puzzles, solutions


def _climbed(board: Board, generator: np.random.Generator) -> Digits:
    """Dig a puzzle [cells] and let it climb."""
    puzzle = board.solution.copy()
    (order,) = random_orders(generator, 1, cells=len(puzzle))
    while remove_given(puzzle, order, board) >= 0:
        pass
    least = rate(puzzle, board, MANY_GUESSES)
    for _ in range(ROUNDS):
        walk(puzzle, random_orders(generator, STEPS, cells=len(puzzle)), least, board)
        least = max(least, rate(puzzle, board, MANY_GUESSES))
    return puzzle
