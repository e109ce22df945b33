"""A valid board near an invalid one: consistent digits are kept, and a search completes the rest."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from gram.tasks.sudoku.solver import (
    PLACED,
    Digits,
    Geometry,
    Integers,
    candidates_of,
    compiled,
    geometry,
    propagate,
    search,
)


@compiled
def keep_digits(board: Digits, turns: Integers, layout: Geometry, limit: int, candidates: Integers) -> int:
    """Place the digits of a board [cells] in the order of `turns` [cells], each unless singles show a contradiction.

    `candidates` [cells] takes the possible digits as bits. Returns how many digits were kept, `limit` at most.
    """
    candidates_of(np.zeros_like(board), layout.size, candidates)
    trial = np.empty_like(candidates)
    kept = 0
    for turn in range(len(turns)):
        cell = turns[turn]
        if kept == limit or board[cell] == 0:
            continue
        bit = 1 << (board[cell] - 1)
        if candidates[cell] == bit | PLACED:  # the digits before this one leave no other
            kept += 1
        elif candidates[cell] & bit and candidates[cell] & PLACED == 0:
            trial[:] = candidates
            trial[cell] = bit
            if propagate(trial, layout.peers, layout.units):
                candidates[:] = trial
                kept += 1
    return kept


@compiled
def repair_all(boards: Digits, turns: Integers, layout: Geometry, orders: Integers, repaired: Digits) -> None:
    """Write a valid board [rows, cells] for each of `boards`; fewer digits are kept where they have no completion."""
    candidates = np.empty(boards.shape[1], dtype=np.int32)
    for row in range(len(boards)):
        limit, solutions = boards.shape[1], 0
        while solutions == 0:
            kept = keep_digits(boards[row], turns[row], layout, limit, candidates)
            solutions, _ = search(candidates, layout, orders[row], repaired[row : row + 1], 1)
            limit = kept // 2


def repair(boards: NDArray[Any], seeds: NDArray[Any]) -> Digits:
    """Return a valid board near each of boards [rows, cells] of digits, 0 for a blank; a valid board is returned as is.

    The result of a row depends on its own seed [rows] alone. It is not always the nearest board (that is a hard
    problem): digits without a conflict may stay first, in random order, then those with few conflicts, each if the ones
    before allow it. What remains is filled by a search.
    """
    layout = geometry(round(boards.shape[1] ** 0.5))
    boards = np.ascontiguousarray(boards, dtype=np.int8)
    conflicts = (boards[:, layout.peers] == boards[:, :, None]).sum(axis=2)
    chance = np.array([np.random.default_rng(seed).random((layout.cells, layout.size + 1)) for seed in seeds])
    turns = np.argsort(conflicts + chance[:, :, 0], axis=1).astype(np.int32)
    orders = (1 << np.argsort(chance[:, :, 1:], axis=2)).astype(np.int32)
    repaired = np.zeros_like(boards)
    repair_all(boards, turns, layout, orders, repaired)
    return repaired
