"""Random complete Sudoku boards, and minimal puzzles with one solution that are hard for a search.

Everything follows from the seed, on any number of cores: the work is cut into chunks with a generator of their own.
"""

from collections.abc import Iterable, Iterator
from itertools import count
from typing import TypeVar

import numpy as np
from rich.console import Console

from gram.compiled import on_all_cores
from gram.errors import GramError
from gram.progress import Advance, bar
from gram.tasks.base import Tokens
from gram.tasks.sudoku.redig import make_minimal, new_board
from gram.tasks.sudoku.solver import Digits, Integers, geometry, solve
from gram.tasks.sudoku.symmetry import canonical_puzzles, random_orders, random_symmetries

Item = TypeVar("Item")

CHUNK = 50
CHUNKS_AT_ONCE = 8
ROUNDS = 15
"""Rounds of hardening, where a rating is asked for."""
CHUNKS_WITHOUT_NEWS = 400
"""Give up when this many chunks in a row brought nothing new: there may be no more such puzzles."""


def random_boards(size: int, boards: int, generator: np.random.Generator) -> Digits:
    """Return complete valid boards [boards, cells], drawn independently of each other.

    A blank board is filled by a search that tries the digits of each cell in random order, and then transformed by a
    random symmetry. That is not exactly uniform over all boards, but every board can occur, and all symmetric versions
    of a board are equally likely.
    """
    layout = geometry(size)
    blank = np.zeros((boards, layout.cells), dtype=np.int8)
    digits = random_orders(generator, boards, layout.cells, size)
    filled = solve(blank, limit=1, orders=(1 << digits).astype(np.int32)).first
    moved = random_symmetries(size, boards, generator).apply(filled.astype(np.int64) + 1)
    return (moved - 1).astype(np.int8)


def distinct_boards(size: int, boards: int, seed: int) -> Digits:
    """Return this many different complete boards [boards, cells]."""
    chunks = (random_boards(size, 5000, np.random.default_rng([seed, chunk])) for chunk in count())
    found = _distinct((zip(some, some, strict=True) for some in chunks), boards, patience=3)
    if len(found) < boards:
        raise GramError(f"Only {len(found)} different {size}x{size} boards were found, not {boards}: ask for fewer.")
    return np.array(found)


def _distinct(
    chunks: Iterable[Iterable[tuple[Digits, Item]]], wanted: int, patience: int, advance: Advance | None = None
) -> list[Item]:
    """Return the first items, `wanted` at most, with different keys; stop if `patience` chunks bring nothing new."""
    found: dict[bytes, Item] = {}
    silent = 0
    for chunk in chunks:
        before = len(found)
        for key, item in chunk:
            found.setdefault(key.tobytes(), item)
        if advance is not None:
            advance(len(found) - before)
        silent = 0 if len(found) > before else silent + 1
        if len(found) >= wanted or silent == patience:
            break
    return list(found.values())[:wanted]


def minimal_puzzles(boards: Digits, generator: np.random.Generator) -> Digits:
    """Remove givens of boards [boards, cells] at random, until each is minimal; their only solutions do not change."""
    puzzles = boards.copy()
    orders = random_orders(generator, *boards.shape).astype(np.int32)
    for puzzle, order, board in zip(puzzles, orders, boards, strict=True):
        make_minimal(puzzle, order, new_board(board))  # a board with blanks will do: no given returns to them
    return puzzles


def _with_extra_givens(puzzles: Digits, solutions: Digits, extra: Tokens, generator: np.random.Generator) -> Digits:
    """Give each puzzle [puzzles, cells] some of its removed digits back: extra [puzzles]."""
    order = generator.random(puzzles.shape) + (puzzles > 0)  # the givens come last
    rank = np.argsort(np.argsort(order, axis=1), axis=1)
    return np.where(rank < extra[:, None], solutions, puzzles)


def harden(puzzles: Digits, solutions: Digits, rounds: int, generator: np.random.Generator) -> tuple[Digits, Integers]:
    """Exchange a few givens of each minimal puzzle, again and again, and keep what is not easier; return the ratings.

    Each round costs as much as a new puzzle and raises the rating far more often than a new puzzle would.
    """
    ratings = solve(puzzles).guesses
    for _ in range(rounds):
        extra = generator.integers(1, 5, size=len(puzzles))
        others = minimal_puzzles(_with_extra_givens(puzzles, solutions, extra, generator), generator)
        other_ratings = solve(others).guesses
        better = other_ratings >= ratings
        puzzles = np.where(better[:, None], others, puzzles)
        ratings = np.where(better, other_ratings, ratings)
    return puzzles, ratings


def _chunk(size: int, seed: int, number: int, min_rating: int, extra_givens: int) -> tuple[Digits, Digits, Digits]:
    """Return the puzzles of one chunk that are hard enough, with solutions and canonical forms: [puzzles, cells]."""
    generator = np.random.default_rng([seed, number])
    solutions = random_boards(size, CHUNK, generator)
    puzzles = minimal_puzzles(solutions, generator)
    if min_rating:
        promising = solve(puzzles).guesses >= min_rating // 3
        puzzles, solutions = puzzles[promising], solutions[promising]
        puzzles, _ = harden(puzzles, solutions, ROUNDS, generator)
    if extra_givens:
        extra = generator.integers(0, extra_givens + 1, size=len(puzzles))
        puzzles = _with_extra_givens(puzzles, solutions, extra, generator)
    hard = solve(puzzles).guesses >= min_rating
    puzzles, solutions = puzzles[hard], solutions[hard]
    return puzzles, solutions, canonical_puzzles(puzzles, solutions)


def _chunks(size: int, seed: int, min_rating: int, extra_givens: int) -> Iterator[tuple[Digits, Digits, Digits]]:
    for start in count(step=CHUNKS_AT_ONCE):
        numbers = list(range(start, start + CHUNKS_AT_ONCE))
        yield from on_all_cores(lambda number: _chunk(size, seed, number, min_rating, extra_givens), numbers)


def hard_puzzles(
    size: int, puzzles: int, *, seed: int, min_rating: int = 0, extra_givens: int = 0
) -> tuple[Digits, Digits]:
    """Return puzzles with one solution each, none a symmetry of another, and their solutions: both [puzzles, cells].

    `solve` needs at least `min_rating` guesses for each of them. Each is minimal, but for 0 to `extra_givens` digits
    that are added.
    """
    with bar(Console(stderr=True), "generating puzzles", puzzles) as advance:
        chunks = (
            zip(forms, zip(some, solutions, strict=True), strict=True)
            for some, solutions, forms in _chunks(size, seed, min_rating, extra_givens)
        )
        pairs = _distinct(chunks, puzzles, CHUNKS_WITHOUT_NEWS, advance)
    if len(pairs) < puzzles:
        raise GramError(
            f"Only {len(pairs)} of {puzzles} {size}x{size} puzzles were found that need {min_rating} guesses "
            "and are no symmetries of each other: ask for fewer, a lower min_rating or more extra_givens."
        )
    shape = (len(pairs), size * size)
    return np.array([puzzle for puzzle, _ in pairs]).reshape(shape), np.array([s for _, s in pairs]).reshape(shape)
