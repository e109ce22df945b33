"""ARC's grids: they come back from the canvas and from every augmentation, and are hashed alike in both forms."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gram.errors import GramError
from gram.tasks.arc import grids
from gram.tasks.arc.grids import LENGTH, SIDE, Augmentation, Grid, Pair, from_canvas, to_canvas
from gram.tasks.arc.rows import canvas_hash, colour_sums, linear_hash
from gram.tasks.base import Tokens

augmentations = st.builds(
    lambda turn, colours: Augmentation(turn, (0, *colours)), st.integers(0, 7), st.permutations(range(1, 10))
)


@st.composite
def some_grids(draw: st.DrawFn, largest: int = SIDE) -> Grid:
    height, width = draw(st.integers(1, largest)), draw(st.integers(1, largest))
    generator = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    return generator.integers(0, draw(st.integers(1, 10)), (height, width), dtype=np.uint8)


# --- the canvas -------------------------------------------------------------------------------------------------------


def test_the_canvas_cell_by_cell() -> None:
    canvas = to_canvas(np.array([[0, 9, 1]], dtype=np.uint8), row=28, column=26).reshape(SIDE, SIDE)
    assert canvas[28, 26:30].tolist() == [2, 11, 3, 1]
    assert canvas[29, 26:30].tolist() == [1, 1, 1, 0]  # no marker in the corner
    assert (canvas != 0).sum() == 7
    full = to_canvas(np.zeros((SIDE, SIDE), dtype=np.uint8))
    assert (full == 2).all()  # no room for markers


@settings(max_examples=150, deadline=None)
@given(some_grids(), st.floats(0, 1), st.floats(0, 1))
def test_a_grid_comes_back_from_any_place(grid: Grid, down: float, right: float) -> None:
    row, column = round(down * (SIDE - grid.shape[0])), round(right * (SIDE - grid.shape[1]))
    canvas = to_canvas(grid, row, column)
    found = from_canvas(canvas, row, column)
    assert found is not None
    assert np.array_equal(found, grid)
    assert [int(part[0]) for part in grids.top_left(canvas[None])] == [row, column]
    moved = grids.shifted(to_canvas(grid)[None], np.array([row]), np.array([column]))
    assert np.array_equal(moved[0], canvas)


def check_places(height: int, width: int, rows: list[int], columns: list[int]) -> None:
    grid = np.random.default_rng(height * SIDE + width).integers(0, 10, (height, width), dtype=np.uint8)
    corner = to_canvas(grid)[None]
    down, right = (part.ravel() for part in np.meshgrid(rows, columns))
    canvases = grids.shifted(np.repeat(corner, len(down), axis=0), down, right)
    top, left = grids.top_left(canvases)
    assert np.array_equal(top, down)
    assert np.array_equal(left, right)
    back = grids.shifted(canvases, -down, -right)
    assert all((size == wanted).all() for size, wanted in zip(grids.sizes(back), grid.shape, strict=True))
    assert (back.reshape(-1, SIDE, SIDE)[:, :height, :width] == grid + 2).all()


def test_every_size_comes_back() -> None:
    for height in range(1, SIDE + 1):
        for width in range(1, SIDE + 1):
            check_places(height, width, sorted({0, SIDE - height}), sorted({0, SIDE - width}))


@pytest.mark.slow
def test_every_size_comes_back_from_every_place() -> None:
    for height in range(1, SIDE + 1):
        for width in range(1, SIDE + 1):
            check_places(height, width, list(range(SIDE - height + 1)), list(range(SIDE - width + 1)))


def published_crop(canvas: Tokens) -> tuple[int, int]:
    """The largest rectangle of colours from the corner, cell by cell."""
    best, size = 0, (0, 0)
    for height in range(1, SIDE + 1):
        for width in range(1, SIDE + 1):
            cells = canvas.reshape(SIDE, SIDE)[:height, :width]
            if height * width > best and ((cells >= 2) & (cells <= 11)).all():
                best, size = height * width, (height, width)
    return size


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 2**32 - 1), st.floats(0, 0.1))
def test_the_rectangle_is_the_published_one(seed: int, holes: float) -> None:
    generator = np.random.default_rng(seed)
    canvas = generator.integers(2, 12, LENGTH)
    spoiled = generator.random(LENGTH) < holes
    canvas[spoiled] = generator.choice([-100, 0, 1, 12], spoiled.sum())
    height, width = grids.sizes(canvas[None])
    assert (height[0], width[0]) == published_crop(canvas)


def test_a_grid_that_does_not_fit_and_a_canvas_without_one() -> None:
    with pytest.raises(GramError, match="3 x 3 does not fit at row 28"):
        to_canvas(np.zeros((3, 3), dtype=np.uint8), 28, 0)
    assert from_canvas(np.zeros(LENGTH, dtype=np.int64)) is None
    assert from_canvas(to_canvas(np.zeros((2, 2), dtype=np.uint8), 5, 5)) is None  # not in the corner


# --- augmentations ----------------------------------------------------------------------------------------------------


@settings(max_examples=200, deadline=None)
@given(some_grids(), augmentations)
def test_every_augmentation_inverts(grid: Grid, augmentation: Augmentation) -> None:
    assert np.array_equal(augmentation.invert(augmentation.apply(grid)), grid)
    assert np.array_equal(augmentation.apply(augmentation.invert(grid)), grid)
    assert np.array_equal(augmentation.apply(grid) == 0, grids.dihedral(grid, augmentation.dihedral) == 0)


def test_the_eight_dihedral_transformations_are_the_published_ones() -> None:
    grid = np.arange(6, dtype=np.uint8).reshape(2, 3)
    expected = [
        *(np.rot90(grid, turns) for turns in range(4)),
        np.fliplr(grid),
        np.flipud(grid),
        grid.T,
        np.fliplr(np.rot90(grid)),
    ]
    assert all(np.array_equal(grids.dihedral(grid, number), wanted) for number, wanted in enumerate(expected))
    with pytest.raises(GramError, match="from 0 to 7, not 8"):
        grids.dihedral(grid, 8)


def test_what_is_no_augmentation_is_refused() -> None:
    with pytest.raises(GramError, match="keeps 0"):
        Augmentation(0, (1, 0, *range(2, 10)))
    with pytest.raises(GramError, match="from 0 to 7"):
        Augmentation(8, tuple(range(10)))


@settings(max_examples=60, deadline=None)
@given(some_grids(largest=5), some_grids(largest=5), augmentations)
def test_the_key_of_a_pair_is_that_of_its_augmentations_only(
    asked: Grid, answer: Grid, augmentation: Augmentation
) -> None:
    key = grids.pair_key(Pair(asked, answer))
    assert key == grids.pair_key(Pair(augmentation.apply(asked), augmentation.apply(answer)))
    other = answer.copy()
    other[0, 0] = 1 if answer[0, 0] == 0 else 0  # black is never renamed, so this is another pair
    turned = {tuple(g.tobytes() for g in (grids.dihedral(asked, n), grids.dihedral(answer, n) == 0)) for n in range(8)}
    if tuple(g.tobytes() for g in (asked, other == 0)) not in turned:
        assert key != grids.pair_key(Pair(asked, other))


@settings(max_examples=40, deadline=None)
@given(some_grids(), augmentations, st.integers(0, 1))
def test_the_hash_from_ten_sums_is_the_hash_of_the_canvas(grid: Grid, augmentation: Augmentation, side: int) -> None:
    turned = to_canvas(grids.dihedral(grid, augmentation.dihedral))
    colours = np.array([augmentation.colours], dtype=np.uint8)
    from_sums = linear_hash(colour_sums(turned[None], side=side), colours)
    straight = canvas_hash(to_canvas(augmentation.apply(grid))[None].astype(np.int64), side=side)
    assert from_sums[0] == straight[0]
