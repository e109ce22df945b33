"""Sudoku puzzles in CSV files: source,question,answer,rating, with '.' or 0 for a blank, plain or gzipped.

The files of Sudoku-Extreme are looked for below `GRAM_DATA`, then downloaded from the hub and checked.
"""

import gzip
import os
import re
from collections.abc import Generator
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from gram.errors import GramError
from gram.tasks.base import Tokens
from gram.tasks.store import download, find_file
from gram.tasks.sudoku.solver import Digits, geometry, solve

HUB = "https://huggingface.co/datasets/sapientinc/sudoku-extreme"
TRAIN_FILES = ("train.csv", "sudoku_extreme_1k_train.csv")
HEADER = ["source", "question", "answer", "rating"]
CELLS = 81


@dataclass(frozen=True)
class Puzzles:
    """Puzzles of a file with their line numbers."""

    puzzles: Digits
    """[rows, cells] 0 for a blank"""
    solutions: Digits
    """[rows, cells]"""
    path: Path
    lines: Tokens
    """[rows] line numbers, the header being line 1"""

    def place(self, row: int) -> str:
        """Return the file and line of a row, for a message."""
        line = self.lines[row]
        return f"{self.path}, line {line}" if line else "a generated puzzle"

    def with_more(self, puzzles: Digits, solutions: Digits) -> "Puzzles":
        """Add generated puzzles, which have no line number."""
        return replace(
            self,
            puzzles=np.concatenate([self.puzzles, puzzles]),
            solutions=np.concatenate([self.solutions, solutions]),
            lines=np.concatenate([self.lines, np.zeros(len(puzzles), dtype=self.lines.dtype)]),
        )

    def take(self, rows: NDArray[np.intp]) -> "Puzzles":
        """Return the puzzles in these rows."""
        return replace(self, puzzles=self.puzzles[rows], solutions=self.solutions[rows], lines=self.lines[rows])


def extreme_file(*names: str) -> Path:
    """Return the first of these Sudoku-Extreme files below `GRAM_DATA`/sudoku, or download the first one."""
    return find_file(*(f"sudoku/{name}" for name in names)) or _from_hub(names[0])


def _from_hub(name: str) -> Path:
    """Download a file of the hub's dataset; its Git LFS pointer tells the SHA-256 that it must have."""
    try:
        pointer = download(f"{HUB}/raw/main/{name}", f"sudoku/{name}.pointer", None)
    except GramError as error:
        # The advice must name the file itself, not its pointer.
        raise GramError(str(error).replace(f"{name}.pointer", name)) from error
    found = re.search(r"^oid sha256:([0-9a-f]{64})$", pointer.read_text(errors="replace"), re.MULTILINE)
    if not found:
        raise GramError(f"{pointer} is not a Git LFS pointer with the checksum of {name}: remove it and try again.")
    return download(f"{HUB}/resolve/main/{name}", f"sudoku/{name}", f"sha256:{found[1]}")


def user_file(name: str) -> Path:
    """Return a CSV file that the user named: an absolute path, or one below `GRAM_DATA`."""
    path = Path(name).expanduser()
    found = (path if path.is_file() else None) if path.is_absolute() else find_file(name)
    if not found:
        where = "" if path.is_absolute() else f" below GRAM_DATA ({os.environ.get('GRAM_DATA') or 'which is not set'})"
        raise GramError(f"There is no file {name}{where}.")
    return found


def _lines(path: Path, *, any_header: bool = False) -> Generator[bytes, None, None]:
    """The lines of a plain or gzipped file, without their ends; the header is checked and left out."""
    try:
        with gzip.open(path) if path.suffix == ".gz" else path.open("rb") as file:
            header = file.readline().decode(errors="replace").strip().split(",")
            if header != HEADER and not any_header:
                raise GramError(f"{path}, line 1: the header must be {','.join(HEADER)}, not {','.join(header)[:80]}.")
            for line in file:
                yield line.rstrip(b"\r\n")
    except (OSError, EOFError) as error:  # a damaged or truncated gzip file
        raise GramError(f"{path} cannot be read: {error}.") from error


def rows_of(path: Path, source: str = "") -> Tokens:
    """Return the line numbers [rows] of a file's puzzles whose source begins with `source`; the header is line 1."""
    start = source.encode()
    with closing(_lines(path)) as lines:
        numbers = [number for number, line in enumerate(lines, 2) if line and line.startswith(start)]
    return np.array(numbers, dtype=np.int64)


def ratings_of(path: Path, lines: Tokens) -> Tokens:
    """Return the ratings [rows] on these lines [rows] of a file: the last column, under any header."""
    with closing(_lines(path, any_header=True)) as content:
        texts = dict(enumerate((line.rpartition(b",")[2] for line in content), 2))
    for number in np.sort(lines).tolist():
        if not texts.get(number, b"").isdigit():
            raise GramError(f"{path}, line {number}: the last column must be a rating, a whole number from 0.")
    return np.array([int(texts[number]) for number in lines.tolist()], dtype=np.int64)


def distinct_puzzles(path: Path, lines: Tokens) -> Puzzles:
    """Read these lines in the order of the file; of equal puzzles only the first counts."""
    found = read_puzzles(path, np.sort(lines))
    _, first = np.unique(found.puzzles, axis=0, return_index=True)
    return found.take(np.sort(first))


def read_puzzles(path: Path, lines: Tokens) -> Puzzles:
    """Read and check the puzzles on these lines [rows], ascending; the first bad row is named.

    Every answer must be a valid board that keeps the givens, and the only one.
    """
    wanted = set(lines.tolist())
    with closing(_lines(path)) as content:
        texts = [_fields(path, number, line) for number, line in enumerate(content, 2) if number in wanted]
    digits = np.frombuffer(b"".join(texts), dtype=np.uint8).reshape(-1, 2, CELLS)
    boards = np.where(digits == ord("."), 0, digits - ord("0")).astype(np.int8)
    found = Puzzles(boards[:, 0].copy(), boards[:, 1].copy(), path, lines)
    _check_answers(found)
    return found


def _fields(path: Path, number: int, line: bytes) -> bytes:
    """Return the question and the answer of a line, one after the other."""
    fields = line.split(b",")
    if len(fields) != len(HEADER):
        raise GramError(f"{path}, line {number}: the row has {len(fields)} fields, not {len(HEADER)}.")
    for name, field, allowed in (("question", fields[1], rb"[.0-9]*"), ("answer", fields[2], rb"[1-9]*")):
        if len(field) != CELLS:
            raise GramError(f"{path}, line {number}: the {name} has {len(field)} characters, not {CELLS}.")
        if not re.fullmatch(allowed, field):
            raise GramError(f"{path}, line {number}: the {name} has characters other than digits and '.'.")
    return fields[1] + fields[2]


def _check_answers(found: Puzzles) -> None:
    layout = geometry(9)
    changed = ((found.puzzles > 0) & (found.puzzles != found.solutions)).any(axis=1)
    invalid = (np.sort(found.solutions[:, layout.units], axis=2) != np.arange(1, layout.size + 1)).any(axis=(1, 2))
    _refuse(found, changed, "the answer changes a given of the question")
    _refuse(found, invalid, "the answer repeats a digit in a row, column or box")
    _refuse(found, solve(found.puzzles).counts > 1, "the question has several solutions")


def _refuse(found: Puzzles, bad: NDArray[np.bool_], what: str) -> None:
    if bad.any():
        raise GramError(f"{found.place(int(np.argmax(bad)))}: {what}.")
