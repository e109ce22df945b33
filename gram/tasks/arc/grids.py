"""ARC's grids: the 30 x 30 canvas of tokens, and the augmentations with their inverses.

A grid is a `uint8` array [height, width] of colours 0 to 9. On the canvas it becomes tokens: 0 pad, 1 end of grid, 2 to
11 the colours. End markers stand below the last row and right of the last column, where the canvas has room for them.
"""

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from gram.errors import GramError
from gram.tasks.base import Tokens

SIDE = 30
LENGTH = SIDE * SIDE
PAD, EOS, BLACK = 0, 1, 2
COLOURS = 10
INVERSE_DIHEDRAL = (0, 3, 2, 1, 4, 5, 6, 7)
DIRECTIONS = ((1, 1), (-1, 1), (-1, -1), (1, -1), (1, -1), (-1, 1), (1, 1), (-1, -1))
"""In which direction each dihedral transformation reads rows and columns; 1, 3, 6 and 7 transpose first."""

Grid = NDArray[np.uint8]
Bytes = NDArray[np.uint8]


class Pair(NamedTuple):
    """One example; the output is None where the answer is not published."""

    input: Grid
    output: Grid | None


# --- the canvas -------------------------------------------------------------------------------------------------------


def to_canvas(grid: Grid, row: int = 0, column: int = 0) -> Bytes:
    """Return tokens [LENGTH] of a grid whose top-left cell lies at (row, column); it must fit."""
    canvas = np.zeros((SIDE + 1, SIDE + 1), dtype=np.uint8)  # one more row and column take the markers that do not fit
    bottom, right = row + grid.shape[0], column + grid.shape[1]
    if min(row, column) < 0 or max(bottom, right) > SIDE:
        raise GramError(f"A grid of {grid.shape[0]} x {grid.shape[1]} does not fit at row {row}, column {column}.")
    canvas[row:bottom, column:right] = grid + BLACK
    canvas[bottom, column:right] = EOS
    canvas[row:bottom, right] = EOS
    return canvas[:SIDE, :SIDE].reshape(LENGTH)


def is_colour(tokens: NDArray[Any]) -> NDArray[np.bool_]:
    """Return where a token is a colour."""
    return (tokens >= BLACK) & (tokens < BLACK + COLOURS)


def top_left(canvases: NDArray[Any]) -> tuple[Tokens, Tokens]:
    """Return the row and column [rows] of the first colour of canvases [rows, LENGTH] with one grid (0 if none)."""
    colours = is_colour(canvases).reshape(-1, SIDE, SIDE)
    return colours.any(axis=2).argmax(axis=1), colours.any(axis=1).argmax(axis=1)


def sizes(canvases: NDArray[Any]) -> tuple[Tokens, Tokens]:
    """Return height and width [rows] of the grid in the top-left corner of canvases [rows, LENGTH]; 0 if none.

    The rule is the published one: of all rectangles that start in the corner and hold nothing but colours, the one with
    the largest area; of equally large ones, the one with fewer rows. What lies outside does not matter.
    """
    colours = is_colour(canvases).reshape(-1, SIDE, SIDE)
    # [rows, SIDE] colours before the first other token
    leading = np.logical_and.accumulate(colours, axis=2).sum(axis=2)
    widths = np.minimum.accumulate(leading, axis=1)
    last = (widths * np.arange(1, SIDE + 1)).argmax(axis=1)
    width = widths[np.arange(len(widths)), last]
    return np.where(width > 0, last + 1, 0), width


def corner_grids(canvases: NDArray[Any]) -> list[Grid | None]:
    """Return the grids in the corner of canvases [rows, LENGTH], by the rule of `sizes`; None where there is none."""
    height, width = (size.tolist() for size in sizes(canvases))
    squares = canvases.reshape(-1, SIDE, SIDE)
    cut = [square[:rows, :columns] for square, rows, columns in zip(squares, height, width, strict=True)]
    return [(grid - BLACK).astype(np.uint8) if grid.size else None for grid in cut]


def from_canvas(tokens: NDArray[Any], row: int = 0, column: int = 0) -> Grid | None:
    """Return the grid that starts at (row, column) of one canvas [LENGTH]; None if there is none."""
    return corner_grids(shifted(tokens[None], np.array([-row]), np.array([-column])))[0]


def shifted(canvases: NDArray[Any], down: Tokens, right: Tokens, fill: int = PAD) -> NDArray[Any]:
    """Move the content of each canvas [rows, LENGTH] by (down, right) [rows]; what leaves the canvas is lost."""
    places = np.arange(SIDE)
    row, column = places - down[:, None], places - right[:, None]  # [rows, SIDE] where each line comes from
    inside = ((row >= 0) & (row < SIDE))[:, :, None] & ((column >= 0) & (column < SIDE))[:, None, :]
    source = (row.clip(0, SIDE - 1)[:, :, None] * SIDE + column.clip(0, SIDE - 1)[:, None, :]).reshape(-1, LENGTH)
    return np.where(inside.reshape(-1, LENGTH), np.take_along_axis(canvases, source, axis=1), fill)


# --- augmentations ----------------------------------------------------------------------------------------------------


def dihedral(grid: Grid, number: int) -> Grid:
    """Turn or mirror a grid: 0 as it is, 1 to 3 quarter turns, 4 left-right, 5 up-down, 6 and 7 the two diagonals."""
    if not 0 <= number < 8:
        raise GramError(f"A dihedral transformation has a number from 0 to 7, not {number}.")
    # Views: np.rot90 and np.flip take several times as long for grids as small as these.
    across = grid.T if number in (1, 3, 6, 7) else grid
    down, right = DIRECTIONS[number]
    return across[::down, ::right]


@dataclass(frozen=True)
class Augmentation:
    """A turn or reflection, and a renaming of the colours; black stays black."""

    dihedral: int
    """0 to 7"""
    colours: tuple[int, ...]
    """new name of each of the ten colours"""

    def __post_init__(self) -> None:
        if not 0 <= self.dihedral < 8:
            raise GramError(f"A dihedral transformation has a number from 0 to 7, not {self.dihedral}.")
        if sorted(self.colours) != list(range(COLOURS)) or self.colours[0] != 0:
            raise GramError(f"The colours must be a permutation of 0 to 9 that keeps 0, not {self.colours}.")

    def apply(self, grid: Grid) -> Grid:
        """Return the augmented grid."""
        return dihedral(np.array(self.colours, dtype=np.uint8)[grid], self.dihedral)

    def invert(self, grid: Grid) -> Grid:
        """Return the grid that `apply` turned into this one."""
        return np.argsort(self.colours).astype(np.uint8)[dihedral(grid, INVERSE_DIHEDRAL[self.dihedral])]


def pair_key(pair: Pair) -> bytes:
    """Return the same bytes for all augmentations of a pair, and for no other pair."""
    return min(_first_use(pair, number) for number in range(8))


def _first_use(pair: Pair, number: int) -> bytes:
    """Return the turned pair with its colours numbered in the order of first use, and its shapes."""
    grids = [dihedral(grid, number) for grid in pair if grid is not None]
    cells = np.concatenate([np.zeros(1, dtype=np.uint8), *(grid.ravel() for grid in grids)])  # black is always first
    _, first, member = np.unique(cells, return_index=True, return_inverse=True)
    shapes = [size for grid in grids for size in grid.shape]
    return bytes(shapes) + first.argsort().argsort()[member].astype(np.uint8).tobytes()
