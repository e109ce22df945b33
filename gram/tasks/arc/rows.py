"""ARC's augmented rows: what a puzzle id stands for, rows that expand when they are taken, and their hashes.

Every (task, augmentation) has a puzzle id. A row is a pair in the form of one puzzle id, so it takes two numbers to
store, and ten sums per grid to hash.
"""

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gram.tasks.arc.grids import BLACK, COLOURS, EOS, LENGTH, PAD, Augmentation, Bytes, is_colour
from gram.tasks.base import Tokens


@dataclass(frozen=True)
class PuzzleIds:
    """Which task and which augmentation every puzzle id stands for; id 0 stands for no known puzzle."""

    data: str
    """name of the data, and a hash of its grids"""
    names: tuple[str, ...]
    """[ids] of the tasks; "" for id 0"""
    dihedral: Bytes
    """[ids]"""
    colours: Bytes
    """[ids, COLOURS]"""

    def __len__(self) -> int:
        return len(self.names)

    def augmentation(self, puzzle_id: int) -> Augmentation:
        """Return how the grids of this id came from those of its task."""
        return Augmentation(int(self.dihedral[puzzle_id]), tuple(self.colours[puzzle_id].tolist()))

    @cached_property
    def token_of(self) -> Bytes:
        """[ids, tokens] what each token of the original is renamed to."""
        end = np.tile(np.array([PAD, EOS], dtype=np.uint8), (len(self), 1))
        return np.concatenate([end, self.colours + np.uint8(BLACK)], axis=1)

    def to_json(self) -> dict[str, Any]:
        """JSON-ready: `puzzles[id]` is written as in the data sets of HRM and TRM, say 007bbfb7|||t3|||0412356789."""
        digits = ("".join(map(str, colours)) for colours in self.colours.tolist())
        rows = zip(self.names, self.dihedral.tolist(), digits, strict=True)
        written = [f"{name}|||t{turn}|||{colours}" for name, turn, colours in rows]
        return {"data": self.data, "puzzles": ["<blank>", *written[1:]]}


class CanvasRows:
    """Rows of tokens [rows, LENGTH] that exist only while they are used: millions of them fit into little memory."""

    def __init__(self, canvases: Bytes, ids: PuzzleIds, pairs: Tokens, puzzles: Tokens, *, pad: int) -> None:
        """Rows of canvases [pairs, 8, LENGTH], one per pair [rows] and puzzle id [rows]; `pad` replaces token 0."""
        self.canvases, self.dihedral, self.pairs, self.puzzles, self.pad = canvases, ids.dihedral, pairs, puzzles, pad
        self.token_of = ids.token_of
        self.shape = (len(pairs), LENGTH)

    def __len__(self) -> int:
        return len(self.pairs)

    def __getitem__(self, key: Any) -> Tokens:
        """Return rows by number, slice, or array of numbers or truth values, as in a numpy array."""
        puzzles = np.asarray(self.puzzles[key])
        cells = self.canvases[self.pairs[key], self.dihedral[puzzles]]
        tokens: Tokens = self.token_of[puzzles[..., None], cells].astype(np.int64)
        tokens[tokens == PAD] = self.pad
        return tokens

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> NDArray[Any]:
        return self[:].astype(dtype or np.int64, copy=False)


# --- hashes -----------------------------------------------------------------------------------------------------------

Hashes = NDArray[np.uint64]

# A grid's hash is the sum over its cells of (colour + 1) x the cell's random weight, modulo 2^64, with other weights
# for outputs than for inputs. It is linear in the colours, so ten sums give the hash of every renaming of a grid.
WEIGHTS: Hashes = np.random.default_rng(900).integers(0, 2**64, (2, LENGTH), dtype=np.uint64)


def colour_sums(canvases: Bytes, *, side: int) -> Hashes:
    """Sum the weights under each colour [..., COLOURS] of canvases [..., LENGTH]; side 0 is input, 1 output."""
    flat = canvases.reshape(-1, LENGTH)
    row, cell = np.nonzero(is_colour(flat))
    sums = np.zeros((len(flat), COLOURS), dtype=np.uint64)
    np.add.at(sums, (row, flat[row, cell] - BLACK), WEIGHTS[side, cell])
    return sums.reshape(*canvases.shape[:-1], COLOURS)


def linear_hash(sums: Hashes, colours: Bytes) -> Hashes:
    """Hash grids [...] with colour sums [..., COLOURS] whose colours are renamed by colours [..., COLOURS]."""
    total = np.zeros(sums.shape[:-1], dtype=np.uint64)
    for colour in range(COLOURS):  # one at a time: millions of rows at once would take ten times the memory
        total += sums[..., colour] * (colours[..., colour].astype(np.uint64) + np.uint64(1))
    return total


def canvas_hash(canvases: NDArray[Any], *, side: int) -> Hashes:
    """Return the same hash [rows] straight from canvases [rows, LENGTH]."""
    values = np.where(is_colour(canvases), canvases - BLACK + 1, 0).astype(np.uint64)
    total: Hashes = (values * WEIGHTS[side]).sum(axis=1, dtype=np.uint64)
    return total
