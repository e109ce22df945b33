"""What the Sudoku tasks promise: splits without symmetries, a strict verdict, boards in and out as text."""

import re
from itertools import product
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gram.errors import GramError
from gram.tasks.base import Tokens
from gram.tasks.sudoku.board import BLANK, PAD, SudokuBoard
from gram.tasks.sudoku.extreme import SudokuExtreme
from gram.tasks.sudoku.generated import SudokuGeneration, SudokuHard
from gram.tasks.sudoku.generator import random_boards
from gram.tasks.sudoku.solver import list_solutions
from gram.tasks.sudoku.symmetry import random_symmetries
from tests.tasks.sudoku.helpers import SPLITS, check_puzzles, csv_rows, inverse, some_puzzles, write

PUZZLE = "................12..3.45...............1.6.7..45...3......3...4...2.....61.8....."


def units(size: int) -> list[list[int]]:
    """Rows, columns and boxes, written down anew."""
    high, wide = {4: (2, 2), 6: (2, 3), 9: (3, 3)}[size]
    rows = [[r * size + c for c in range(size)] for r in range(size)]
    columns = [[r * size + c for r in range(size)] for c in range(size)]
    boxes = [
        [(top + i) * size + left + j for i in range(high) for j in range(wide)]
        for top, left in product(range(0, size, high), range(0, size, wide))
    ]
    return rows + columns + boxes


def brute_force_conflicts(size: int, board: list[int], output: list[int]) -> int:
    """Count the broken rules cell by cell, sharing no code with the task."""
    legal = range(2, size + 2)
    repeats = sum(max(0, [output[cell] for cell in unit].count(token) - 1) for unit in units(size) for token in legal)
    changed = sum(before in legal and after != before for before, after in zip(board, output, strict=True))
    return repeats + changed + sum(token not in legal for token in output)


@st.composite
def judged_boards(draw: st.DrawFn) -> tuple[int, list[int], list[int]]:
    """A size, an input, and an output that is random, a solution, or a solution with a few cells overwritten."""
    size = draw(st.sampled_from([4, 6, 9]))
    cells = size * size
    generator = np.random.default_rng(draw(st.integers(0, 2**32)))
    output = (random_boards(size, 1, generator)[0].astype(int) + 1).tolist()
    kept = draw(st.sets(st.integers(0, cells - 1)))
    board = [token if cell in kept else BLANK for cell, token in enumerate(output)]
    kind = draw(st.sampled_from(["solution", "corrupted", "random"]))
    if kind == "corrupted":
        for cell in draw(st.lists(st.integers(0, cells - 1), min_size=1, max_size=4)):
            output[cell] = draw(st.integers(-1, size + 2))
    if kind == "random":
        output = generator.integers(0, size + 2, cells).tolist()
    return size, board, output


@given(judged_boards())
def test_verify_agrees_with_brute_force(judged: tuple[int, list[int], list[int]]) -> None:
    size, board, output = judged
    verdict = SudokuHard(size=size).verify(np.array([board, board]), np.array([output, board]))
    expected = [brute_force_conflicts(size, board, output), brute_force_conflicts(size, board, board)]
    assert verdict.conflicts.tolist() == expected
    assert verdict.valid.tolist() == [count == 0 for count in expected]


def test_verify_refuses_other_shapes() -> None:
    with pytest.raises(GramError, match=r"\[rows, 81\], not \[2, 16\]"):
        SudokuHard().verify(np.ones((2, 16), dtype=np.int64), np.ones((2, 81), dtype=np.int64))
    with pytest.raises(GramError, match="not 3 outputs for 2 inputs"):
        SudokuHard().verify(np.ones((2, 81), dtype=np.int64), np.ones((3, 81), dtype=np.int64))


@pytest.mark.parametrize(("size", "rating"), [(4, None), (6, None), (9, 2)])
def test_generated_splits_hold_no_symmetries(size: int, rating: int | None) -> None:
    options = {"train_puzzles": 40, "validation_puzzles": 10, "test_puzzles": 20}
    task = SudokuHard(size=size, min_rating=rating, **options)
    check_puzzles(task, (40, 10, 20))
    assert task.name == f"sudoku-{size}"
    assert (task.vocab_size, task.length) == (size + 2, size * size)
    assert task.split_hash() == SudokuHard(size=size, min_rating=rating, **options).split_hash()
    assert task.split_hash() != SudokuHard(size=size, min_rating=rating, seed=1, **options).split_hash()


def test_the_small_board_is_stable() -> None:
    assert SudokuHard().name == "sudoku-hard"
    assert SudokuHard(size=4).split_hash() == "7f9638391900"  # a change here changes every result


@given(st.sampled_from([4, 6, 9]), st.integers(0, 2**32))
def test_augmentation_keeps_validity_and_inverts(size: int, seed: int) -> None:
    generator = np.random.default_rng(seed)
    targets = random_boards(size, 4, generator).astype(np.int64) + 1
    inputs = np.where(generator.random(targets.shape) < 0.4, targets, BLANK)
    task = SudokuHard(size=size)
    moved, moved_targets = task.augment(inputs, targets, np.random.default_rng(seed))
    assert task.verify(moved, moved_targets).valid.all()
    assert ((moved == BLANK).sum(axis=1) == (inputs == BLANK).sum(axis=1)).all()
    undo = inverse(random_symmetries(size, 4, np.random.default_rng(seed)))
    assert np.array_equal(undo.apply(moved), inputs)
    assert np.array_equal(undo.apply(moved_targets), targets)


def test_augmentation_reaches_every_symmetry() -> None:
    board = (list_solutions(np.zeros(16), limit=1).astype(np.int64) + 1).repeat(20_000, axis=0)
    board[:, 0] = BLANK  # so that the diagonal shows
    moved, _ = SudokuHard(size=4).augment(board, board, np.random.default_rng(0))
    assert {tuple(np.flatnonzero(row == BLANK)) for row in moved} == {(cell,) for cell in range(16)}
    assert len(np.unique(moved, axis=0)) == 96 * 16  # its class has 96 of the 288 boards, each with any cell blank


def test_generation_has_blank_inputs_and_different_boards() -> None:
    task = SudokuGeneration(size=4, train_boards=200, validation_boards=40, test_boards=48)
    splits = [task.split(name) for name in SPLITS]
    assert [len(examples) for examples in splits] == [200, 40, 48]
    targets = np.concatenate([examples.targets for examples in splits])
    assert len(np.unique(targets, axis=0)) == 288
    assert task.verify(np.full_like(targets, BLANK), targets).valid.all()
    for examples in splits:
        assert (examples.inputs == BLANK).all()
        assert not examples.groups.any()
    train = splits[0]
    assert task.solutions(train.inputs[0]) is None  # type: ignore[func-returns-value]
    assert task.augment(train.inputs, train.targets, np.random.default_rng(0))[1] is train.targets
    augmented = SudokuGeneration(size=4, augmented=True).augment(train.inputs, train.targets, np.random.default_rng(0))
    assert not np.array_equal(augmented[1], train.targets)
    assert task.verify(*augmented).valid.all()


def test_generation_from_the_answers_of_sudoku_extreme(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(tmp_path / "sudoku" / "train.csv", csv_rows(slice(0, 40)))
    monkeypatch.setenv("GRAM_DATA", str(tmp_path))
    task = SudokuGeneration(source="extreme", train_boards=30, validation_boards=3, test_boards=3)
    answers = {row.tobytes() for row in some_puzzles()[1].astype(np.int64) + 1}
    boards = [row.tobytes() for name in SPLITS for row in task.split(name).targets]
    assert len(set(boards)) == 36
    assert set(boards) <= answers
    assert task.name == "sudoku-generation-extreme"
    with pytest.raises(GramError, match="has only 40 different answers where 2030 boards are asked for"):
        SudokuGeneration(source="extreme", train_boards=30).split("train")


def test_generation_parses_only_a_blank_board() -> None:
    task = SudokuGeneration(size=4)
    assert task.parse("").tolist() == task.parse("..../0000/..../....").tolist() == [BLANK] * 16
    with pytest.raises(GramError, match="starts from a blank board"):
        task.parse("1...............")


def test_parse_reads_back_what_render_draws() -> None:
    task = SudokuHard()
    for board in some_puzzles()[0][:10].astype(np.int64) + 1:
        assert np.array_equal(task.parse(task.render(board)), board)
    spaced = "\n".join(" / ".join(PUZZLE[start : start + 9]) for start in range(0, 81, 9)).replace(".", "0")
    assert np.array_equal(task.parse(spaced), task.parse(PUZZLE))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "The board has 0 cells, but 16 are expected"),
        ("." * 15, "The board has 15 cells, but 16 are expected"),
        ("..../..x./..../....", "Unknown character 'x' at row 2, column 3: use 1 to 4, and . for a blank"),
        ("..../..5./..../....", "Unknown character '5' at row 2, column 3"),
        ("1..1/..../..../....", "The givens contradict each other: 1 stands at row 1, column 1 and at row 1, column 4"),
        ("2.../..../..../2...", "The givens contradict each other: 2 stands at row 1, column 1 and at row 4, column 1"),
        ("..../..../..3./...3", "The givens contradict each other: 3 stands at row 3, column 3 and at row 4, column 4"),
        ("123./...4/..../....", "The puzzle has no solution: change a given"),
        ("1234/..../..../....", "The puzzle has several solutions: add a given"),
    ],
)
def test_parse_says_what_is_wrong(text: str, message: str) -> None:
    with pytest.raises(GramError, match=re.escape(message)):
        SudokuHard(size=4).parse(text)


def board_with_mistakes() -> tuple[SudokuHard, Tokens, Tokens]:
    task = SudokuHard(size=4)
    given = task.parse("1.../..3./.4../...2")
    output = np.array([[2, 3, 4, 5], [5, 4, 2, 3], [3, 5, 5, 1], [0, 2, 3, 3]]).ravel()
    return task, given, output


def test_render_marks_wrong_cells() -> None:
    task, given, output = board_with_mistakes()
    assert task.render(given) == "1  .   .  .\n.  .   3  .\n\n.  4   .  .\n.  .   .  2"
    assert task.render(output, given) == "1  2   3  4\n4  3   1! 2!\n\n2  4!  4! .\n?  1   2! 2!"


def test_draw_marks_each_kind_of_cell() -> None:
    figure_module = pytest.importorskip("matplotlib.figure")
    colors = pytest.importorskip("matplotlib.colors")
    axes = figure_module.Figure().subplots()
    task, given, output = board_with_mistakes()
    task.draw(axes, output, given)
    found = {}
    (signs,) = axes.collections
    for path, colour in zip(signs.get_paths(), signs.get_facecolors(), strict=True):
        extents = path.get_extents()
        assert extents.width < 1
        assert extents.height < 1
        column, row = np.round(extents.get_points().mean(axis=0)).astype(int)
        found[int(row * 4 + column)] = colors.to_hex(colour)
    assert sorted(found) == [cell for cell in range(16) if output[cell] != BLANK]
    assert {cell for cell, colour in found.items() if colour == "#d62728"} == {6, 7, 9, 10, 12, 14, 15}
    assert {cell for cell, colour in found.items() if colour == "#000000"} == {0}
    assert output[12] == PAD


@pytest.mark.parametrize(
    ("task", "arguments", "message"),
    [
        (SudokuHard, {"size": 8}, "must be 4, 6 or 9, not 8"),
        (SudokuHard, {"seed": -1}, "seed of the split must not be negative"),
        (SudokuHard, {"min_rating": -1}, "min_rating must be at least 0"),
        (SudokuHard, {"extra_givens": -1}, "extra_givens must be at least 0"),
        (SudokuHard, {"train_puzzles": 0}, "training rows must be at least 1"),
        (SudokuExtreme, {"train_puzzles": 0}, "train_puzzles must be at least 1"),
        (SudokuExtreme, {"validation_ratings": "a.csv"}, "validation_ratings needs a validation_file"),
        (SudokuExtreme, {"test_puzzles": -1}, "test_puzzles must be at least 0, or None"),
        (SudokuGeneration, {"source": "paper"}, "source must be generator or extreme"),
        (SudokuGeneration, {"source": "extreme", "size": 4}, "size cannot be 4"),
    ],
)
def test_wrong_arguments_are_refused(task: type[SudokuBoard], arguments: dict[str, object], message: str) -> None:
    with pytest.raises(GramError, match=message):
        task(**arguments)  # type: ignore[arg-type]


@pytest.mark.parametrize("task", [SudokuHard(size=4), SudokuExtreme(), SudokuGeneration(size=4, train_boards=9)])
def test_an_unknown_split_is_refused(task: SudokuBoard) -> None:
    with pytest.raises(GramError, match="no split 'dev'"):
        task.split("dev")  # type: ignore[arg-type]
