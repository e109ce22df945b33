"""The protocol of Sudoku-Extreme: whose rows are in which split, and files that are refused by line."""

import functools
import hashlib
import http.server
import threading
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from gram.errors import GramError
from gram.tasks.base import Tokens
from gram.tasks.sudoku import files as sudoku_files
from gram.tasks.sudoku.extreme import SudokuExtreme
from gram.tasks.sudoku.generator import minimal_puzzles
from gram.tasks.sudoku.symmetry import random_symmetries
from tests.tasks.sudoku.helpers import SPLITS, changed, check_puzzles, csv_rows, some_puzzles, write


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
