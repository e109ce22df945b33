"""What the Sudoku tasks promise: the benchmark's protocol, splits without symmetries, a strict verdict."""

import functools
import gzip
import hashlib
import http.server
import re
import threading
from collections.abc import Iterator
from itertools import product
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gram.errors import GramError
from gram.tasks.base import SplitName, Tokens
from gram.tasks.sudoku import files as sudoku_files
from gram.tasks.sudoku.board import BLANK, PAD, SudokuBoard
from gram.tasks.sudoku.extreme import SudokuExtreme
from gram.tasks.sudoku.generated import SudokuGeneration, SudokuHard
from gram.tasks.sudoku.generator import minimal_puzzles, random_boards
from gram.tasks.sudoku.solver import Digits, list_solutions
from gram.tasks.sudoku.symmetry import random_symmetries, symmetric_pairs

SPLITS: tuple[SplitName, ...] = ("train", "validation", "test")
HEADER = "source,question,answer,rating"
PUZZLE = "................12..3.45...............1.6.7..45...3......3...4...2.....61.8....."


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GRAM_CACHE", str(tmp_path / "cache"))
    monkeypatch.delenv("GRAM_DATA", raising=False)


@functools.cache
def some_puzzles() -> tuple[Digits, Digits]:
    """60 easy puzzles and their solutions, drawn once."""
    generator = np.random.default_rng(0)
    solutions = random_boards(9, 60, generator)
    return minimal_puzzles(solutions, generator), solutions


def csv_rows(rows: slice) -> list[str]:
    def text(board: Digits) -> str:
        return "".join("." if digit == 0 else str(digit) for digit in board)

    return [f"made,{text(p)},{text(s)},0" for p, s in zip(*(some[rows] for some in some_puzzles()), strict=True)]


def write(path: Path, rows: list[str]) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    content = "\n".join([HEADER, *rows, ""])
    path.write_bytes(gzip.compress(content.encode()) if path.suffix == ".gz" else content.encode())
    return path


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


def check_puzzles(task: SudokuBoard, counts: tuple[int, int, int]) -> None:
    """Every target is the only solution of its input, and no puzzle of a split is a symmetry of another split's."""
    splits = [task.split(name) for name in SPLITS]
    assert tuple(len(examples) for examples in splits) == counts
    for examples in splits:
        assert examples.inputs.dtype == examples.targets.dtype == examples.groups.dtype == np.int64
        assert task.verify(examples.inputs, examples.targets).valid.all()
        assert (np.diff(examples.groups) > 0).all()
        for board, target in zip(examples.inputs, examples.targets, strict=True):
            assert np.array_equal(task.solutions(board), [target])
    for first, second in ((0, 1), (0, 2), (1, 2)):
        known, others = splits[first], splits[second]
        assert not symmetric_pairs(known.inputs - 1, known.targets - 1, others.inputs - 1, others.targets - 1)


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
    undo = random_symmetries(size, 4, np.random.default_rng(seed)).inverse()
    assert np.array_equal(undo.apply(moved), inputs)
    assert np.array_equal(undo.apply(moved_targets), targets)


def test_augmentation_reaches_every_symmetry() -> None:
    board = (list_solutions(np.zeros(16), limit=1).astype(np.int64) + 1).repeat(20_000, axis=0)
    board[:, 0] = BLANK  # so that the diagonal shows
    moved, _ = SudokuHard(size=4).augment(board, board, np.random.default_rng(0))
    assert {tuple(np.flatnonzero(row == BLANK)) for row in moved} == {(cell,) for cell in range(16)}
    assert len(np.unique(moved, axis=0)) == 96 * 16  # its class has 96 of the 288 boards, each with any cell blank


def test_the_protocol_of_sudoku_extreme(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(tmp_path / "sudoku" / "train.csv", csv_rows(slice(0, 40)))
    write(tmp_path / "sudoku" / "test.csv", csv_rows(slice(40, 60)))
    monkeypatch.setenv("GRAM_DATA", str(tmp_path))
    task = SudokuExtreme(train_puzzles=25, validation_puzzles=10)
    check_puzzles(task, (25, 10, 20))
    assert task.name == "sudoku-extreme"
    assert task.split_hash() != SudokuExtreme(train_puzzles=25, validation_puzzles=10, seed=1).split_hash()
    answers = {row.tobytes() for row in some_puzzles()[1][:40].astype(np.int64) + 1}
    assert {row.tobytes() for name in SPLITS[:2] for row in task.split(name).targets} <= answers
    assert len(SudokuExtreme(train_puzzles=25, validation_puzzles=None).split("validation")) == 15


def test_other_files_lose_the_name_and_lend_rows_for_validation(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(tmp_path / "sudoku" / "sudoku_extreme_1k_train.csv", csv_rows(slice(0, 20)))
    hard = [row.replace("made", "other") for row in csv_rows(slice(20, 25))] + csv_rows(slice(25, 60))
    path = write(tmp_path / "whole.csv", hard)
    write(tmp_path / "hard.csv.gz", [*hard, hard[-1]])  # one row twice
    monkeypatch.setenv("GRAM_DATA", str(tmp_path))
    task = SudokuExtreme(test_file="hard.csv.gz", test_source="made", validation_puzzles=0)
    check_puzzles(task, (20, 0, 35))
    assert task.name == "sudoku-file"
    check_puzzles(SudokuExtreme(test_file=str(path), validation_puzzles=8, test_puzzles=9, seed=3), (20, 8, 9))
    with pytest.raises(GramError, match="give validation_puzzles"):
        SudokuExtreme(test_file="hard.csv.gz", validation_puzzles=None).split("train")


def test_symmetries_between_files_are_refused_or_dropped(tmp_path: Path) -> None:
    puzzles, solutions = (some[:1].astype(np.int64) + 1 for some in some_puzzles())
    symmetries = random_symmetries(9, 1, np.random.default_rng(1))
    question, answer = ("".join(map(str, symmetries.apply(some)[0] - 1)) for some in (puzzles, solutions))
    train = write(tmp_path / "a.csv", csv_rows(slice(0, 10)))
    test = write(tmp_path / "b.csv", [*csv_rows(slice(10, 15)), f"moved,{question},{answer},0"])
    options = {"train_file": str(train), "test_file": str(test), "validation_puzzles": 0}
    with pytest.raises(GramError, match=r"b.csv, line 7: this test puzzle is a symmetry .*a.csv, line 2 \(1 in all\)"):
        SudokuExtreme(**options).split("train")  # type: ignore[arg-type]
    check_puzzles(SudokuExtreme(**options, drop_symmetric=True), (10, 0, 5))  # type: ignore[arg-type]


def with_ratings(rows: list[str], ratings: list[int]) -> list[str]:
    return [changed(row, 3, str(rating)) for row, rating in zip(rows, ratings, strict=True)]


def validation_files(tmp_path: Path) -> dict[str, str]:
    """20 training puzzles rated 0 to 19, and 40 others whose ratings 0 to 39 stand in a file of their own."""
    files = {
        "train_file": write(tmp_path / "train.csv", with_ratings(csv_rows(slice(0, 20)), list(range(20)))),
        "validation_file": write(tmp_path / "hard.csv.gz", csv_rows(slice(20, 60))),
        "validation_ratings": tmp_path / "ratings.csv",
    }
    files["validation_ratings"].write_text("\n".join(["guesses", *map(str, range(40)), ""]))
    return {name: str(path) for name, path in files.items()}


def rows_in_file(inputs: Tokens) -> list[int]:
    """Which of `some_puzzles` these are."""
    known = {row.tobytes(): number for number, row in enumerate(some_puzzles()[0].astype(np.int64) + 1)}
    return sorted(known[row.tobytes()] for row in inputs)


def test_validation_rows_are_drawn_with_the_ratings_of_the_training_rows(tmp_path: Path) -> None:
    files = validation_files(tmp_path)
    task = SudokuExtreme(**files, validation_puzzles=10, test_puzzles=0)  # type: ignore[arg-type]
    check_puzzles(task, (20, 10, 0))
    assert task.name == "sudoku-file"
    assert rows_in_file(task.split("validation").inputs) == list(range(20, 40, 2))
    # With as many as there are ratings, twice as many, and one that takes what is nearest.
    for count, expected in ((20, range(20, 40)), (21, range(20, 41)), (40, range(20, 60))):
        drawn = SudokuExtreme(**files, validation_puzzles=count, test_puzzles=0)  # type: ignore[arg-type]
        assert rows_in_file(drawn.split("validation").inputs) == list(expected)


def test_validation_rows_without_ratings_follow_the_seed_and_are_not_tested_on(tmp_path: Path) -> None:
    files = validation_files(tmp_path)
    del files["validation_ratings"]
    options = {**files, "test_file": files["validation_file"], "validation_puzzles": 10}
    tasks = [SudokuExtreme(**options, seed=seed) for seed in (0, 0, 1)]  # type: ignore[arg-type]
    check_puzzles(tasks[0], (20, 10, 30))
    assert tasks[0].split_hash() == tasks[1].split_hash() != tasks[2].split_hash()
    untested = SudokuExtreme(**options | {"test_puzzles": 0})  # type: ignore[arg-type]
    assert np.array_equal(untested.split("validation").inputs, tasks[0].split("validation").inputs)
    rows = rows_in_file(np.concatenate([tasks[0].split(name).inputs for name in SPLITS]))
    assert rows == list(range(60))
    everything = SudokuExtreme(**files, validation_puzzles=None, test_puzzles=0)  # type: ignore[arg-type]
    check_puzzles(everything, (20, 40, 0))


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("guesses\n0\nmany\n", r"ratings.csv, line 3: the last column must be a rating"),
        ("guesses\n0\n1\n", r"ratings.csv, line 4: the last column must be a rating"),
    ],
)
def test_ratings_that_do_not_fit_the_puzzles_are_refused(tmp_path: Path, content: str, message: str) -> None:
    files = validation_files(tmp_path)
    Path(files["validation_ratings"]).write_text(content)
    with pytest.raises(GramError, match=message):
        SudokuExtreme(**files, validation_puzzles=3, test_puzzles=0).split("train")  # type: ignore[arg-type]


def test_more_validation_rows_than_there_are_is_refused(tmp_path: Path) -> None:
    task = SudokuExtreme(**validation_files(tmp_path), validation_puzzles=41, test_puzzles=0)  # type: ignore[arg-type]
    with pytest.raises(GramError, match="41 validation_puzzles are asked for, but their file has 40"):
        task.split("train")


@pytest.mark.parametrize("origin", ["validation", "test"])
def test_a_solution_that_training_has_is_refused_or_dropped(tmp_path: Path, origin: str) -> None:
    # Another puzzle with the same solution: re-digging the one for training might lead to it.
    solutions = some_puzzles()[1][:1]
    symmetries = random_symmetries(9, 1, np.random.default_rng(1))
    other = minimal_puzzles(solutions, np.random.default_rng(2))
    question, answer = ("".join(map(str, symmetries.apply(some + 1)[0] - 1)) for some in (other, solutions))
    train = write(tmp_path / "a.csv", csv_rows(slice(0, 10)))
    held_out = write(tmp_path / "b.csv", [*csv_rows(slice(10, 15)), f"moved,{question},{answer},0"])
    options: dict[str, object] = {"train_file": str(train), "test_puzzles": 0, "validation_file": str(held_out)}
    if origin == "test":
        options = {"train_file": str(train), "test_file": str(held_out), "validation_puzzles": 0}
        check_puzzles(SudokuExtreme(**options), (10, 0, 6))  # type: ignore[arg-type]
        options["redig"] = 1.0
    message = rf"line 7: this {origin} puzzle's solution is a symmetry of the train puzzle's solution at .*line 2"
    with pytest.raises(GramError, match=message):
        SudokuExtreme(**options).split("train")  # type: ignore[arg-type]
    task = SudokuExtreme(**options, drop_symmetric=True)  # type: ignore[arg-type]
    assert len(task.split("validation")) + len(task.split("test")) == 5


def changed(row: str, field: int, value: str) -> str:
    fields = row.split(",")
    fields[field] = value
    return ",".join(fields)


@pytest.mark.parametrize(
    ("field", "value", "message"),
    [
        (3, "0,1", "the row has 5 fields, not 4"),
        (1, "." * 80, "the question has 80 characters, not 81"),
        (1, "x" + "." * 80, "the question has characters other than digits"),
        (2, "." * 81, "the answer has characters other than digits"),
        (2, "123456789" * 9, "the answer (changes|repeats)"),
        (1, "." * 81, "the question has several solutions"),
    ],
)
def test_a_bad_row_is_named(tmp_path: Path, field: int, value: str, message: str) -> None:
    rows = csv_rows(slice(0, 3))
    path = write(tmp_path / "a.csv", [*rows[:2], changed(rows[2], field, value)])
    with pytest.raises(GramError, match=rf"a.csv, line 4: {message}"):
        SudokuExtreme(train_file=str(path), test_file=str(path)).split("train")


def test_files_that_are_missing_damaged_or_something_else(tmp_path: Path) -> None:
    good = str(write(tmp_path / "good.csv", csv_rows(slice(0, 3))))
    with pytest.raises(GramError, match=r"no file other\.csv below GRAM_DATA"):
        SudokuExtreme(train_file="other.csv", test_file=good).split("train")
    (tmp_path / "no.csv").write_text("a,b\n1,2\n")
    with pytest.raises(GramError, match=r"no.csv, line 1: the header must be source,question,answer,rating, not a,b"):
        SudokuExtreme(train_file=str(tmp_path / "no.csv"), test_file=good).split("train")
    whole = write(tmp_path / "cut.csv.gz", csv_rows(slice(0, 60)))
    whole.write_bytes(whole.read_bytes()[:-100])
    with pytest.raises(GramError, match=r"cut.csv.gz cannot be read"):
        SudokuExtreme(train_file=good, test_file=str(whole)).split("train")


class Quiet(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *_: object) -> None: ...


@pytest.fixture
def hub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder that is served in place of the hub."""
    handler = functools.partial(Quiet, directory=str(tmp_path / "hub"))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        monkeypatch.setattr(sudoku_files, "HUB", f"http://127.0.0.1:{server.server_address[1]}")
        yield tmp_path / "hub"
        server.shutdown()
        thread.join()


def publish(hub: Path, name: str, rows: list[str], digest: str | None = None) -> None:
    file = write(hub / "resolve" / "main" / name, rows)
    digest = digest or hashlib.sha256(file.read_bytes()).hexdigest()
    (hub / "raw" / "main").mkdir(parents=True, exist_ok=True)
    pointer = f"version https://git-lfs.github.com/spec/v1\noid sha256:{digest}\nsize {file.stat().st_size}\n"
    (hub / "raw" / "main" / name).write_text(pointer)


def test_the_download_is_checked_against_the_pointer(hub: Path) -> None:
    publish(hub, "train.csv", csv_rows(slice(0, 30)))
    publish(hub, "test.csv", csv_rows(slice(30, 60)), digest="0" * 64)
    task = SudokuExtreme(train_puzzles=20, validation_puzzles=10)
    with pytest.raises(GramError, match=r"Could not download .*resolve/main/test.csv"):
        task.split("train")
    (hub / "raw" / "main" / "test.csv").write_text("<html>")
    for pointer in hub.parent.rglob("*.pointer"):
        pointer.unlink()
    with pytest.raises(GramError, match="not a Git LFS pointer"):
        SudokuExtreme(train_puzzles=20, validation_puzzles=10).split("train")
    publish(hub, "test.csv", csv_rows(slice(30, 60)))
    for pointer in hub.parent.rglob("*.pointer"):
        pointer.unlink()
    check_puzzles(SudokuExtreme(train_puzzles=20, validation_puzzles=10), (20, 10, 30))


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
        ("", "the board has 0 cells, but 16 are expected"),
        ("." * 15, "the board has 15 cells, but 16 are expected"),
        ("..../..x./..../....", "unknown character 'x' at row 2, column 3: use 1 to 4, and . for a blank"),
        ("..../..5./..../....", "unknown character '5' at row 2, column 3"),
        ("1..1/..../..../....", "the givens contradict each other: 1 stands at row 1, column 1 and at row 1, column 4"),
        ("2.../..../..../2...", "the givens contradict each other: 2 stands at row 1, column 1 and at row 4, column 1"),
        ("..../..../..3./...3", "the givens contradict each other: 3 stands at row 3, column 3 and at row 4, column 4"),
        ("123./...4/..../....", "the puzzle has no solution: change a given"),
        ("1234/..../..../....", "the puzzle has several solutions: add a given"),
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
        (SudokuHard, {"seed": -1}, "seed of the data must not be negative"),
        (SudokuHard, {"min_rating": -1}, "min_rating must be at least 0"),
        (SudokuHard, {"extra_givens": -1}, "extra_givens must be at least 0"),
        (SudokuHard, {"train_puzzles": 0}, "training rows must be at least 1"),
        (SudokuExtreme, {"train_puzzles": 0}, "train_puzzles must be at least 1"),
        (SudokuExtreme, {"validation_ratings": "a.csv"}, "validation_ratings needs a validation_file"),
        (SudokuExtreme, {"test_puzzles": -1}, "test_puzzles must be at least 0, or None for all"),
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
