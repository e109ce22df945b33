"""Trial and error: a candidate goes if singles lead from it to a contradiction.

What this leaves unsolved is hard for people and for networks alike, however few guesses a search needs. Nearly
three quarters of Sudoku-Extreme's puzzles are of this kind, and hardly any that are dug from a random board.
"""

import numpy as np

from gram.tasks.sudoku.solver import PLACED, Digits, Geometry, candidates_of, compiled, propagate


@compiled
def resists_trial(puzzle: Digits, layout: Geometry) -> bool:
    """Tell whether a puzzle [cells] with one solution is left unsolved when every candidate has been tried."""
    candidates, trial = np.empty(len(puzzle), dtype=np.int32), np.empty(len(puzzle), dtype=np.int32)
    candidates_of(puzzle, layout.size, candidates)
    gone = 1
    while gone:
        propagate(candidates, layout.peers, layout.units)
        gone, left = 0, 0
        for cell in range(len(candidates)):
            if candidates[cell] & PLACED:
                continue
            left += 1
            for digit in range(layout.size):
                bit = 1 << digit
                if candidates[cell] & bit == 0 or candidates[cell] == bit:
                    continue
                trial[:] = candidates
                trial[cell] = bit
                if not propagate(trial, layout.peers, layout.units):
                    candidates[cell] ^= bit
                    gone += 1
        if left == 0:
            return False
    return True
