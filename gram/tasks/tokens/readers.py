"""Read rows of tokens: files of the user's own, and the folders that the published HRM and TRM builders write.

A published folder holds `train` and `test`; each has a `dataset.json` and, for every name in its `sets` (usually only
`all`), five arrays:

    all__inputs.npy, all__labels.npy       [rows, seq_len] tokens
    all__puzzle_indices.npy                [puzzles + 1] where the rows of each puzzle start, and the number of rows
    all__puzzle_identifiers.npy            [puzzles] which embedding each puzzle has; 0 is the blank one
    all__group_indices.npy                 [groups + 1] where the puzzles of each group start, and the number of puzzles

A group is an original puzzle with its augmented versions.
"""

import json
import zipfile
from array import array
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel, Field, ValidationError

from gram.config import describe
from gram.errors import GramError
from gram.tasks.base import IGNORE

Integers = NDArray[np.integer[Any]]

LARGEST = 2**31 - 1
"""the largest token or id"""


@dataclass(frozen=True)
class Rows:
    """Inputs and targets as they were read, in the smallest type that holds the tokens and `IGNORE`."""

    inputs: Integers
    """[rows, length]"""
    targets: Integers
    """[rows, length]; `IGNORE` where there is no label"""
    ids: NDArray[np.int64] | None
    """[rows] puzzle ids, if there are any"""

    def __len__(self) -> int:
        return len(self.inputs)

    def __add__(self, other: "Rows") -> "Rows":
        ids = None if self.ids is None or other.ids is None else np.concatenate([self.ids, other.ids])
        return Rows(np.concatenate([self.inputs, other.inputs]), np.concatenate([self.targets, other.targets]), ids)

    def take(self, chosen: NDArray[np.intp]) -> "Rows":
        """Return the rows with these numbers."""
        return Rows(self.inputs[chosen], self.targets[chosen], None if self.ids is None else self.ids[chosen])


@dataclass(frozen=True)
class PublishedFolder:
    """Both splits, and what they share."""

    train: Rows
    test: Rows
    train_groups: Integers
    """[rows of train] number of the published group"""
    vocab_size: int
    puzzles: int
    """how many puzzle identifiers there are, the blank one included"""


class Metadata(BaseModel):
    """What is needed of a `dataset.json`; the rest of it (totals, means, the padding token) follows from the arrays."""

    vocab_size: int = Field(ge=1, le=LARGEST)
    seq_len: int = Field(ge=1)
    ignore_label_id: int | None
    num_puzzle_identifiers: int = Field(ge=1, le=LARGEST)
    sets: list[str] = Field(min_length=1)


def read_file(path: Path) -> Rows:
    """Read and check a .jsonl, .npy or .npz file; the error names the first line or row that is wrong."""
    if path.suffix == ".jsonl":
        columns, lines = _json_lines(path)
        return _checked(columns, lambda row: f"{path}, line {lines[row]}")
    if path.suffix in (".npy", ".npz"):
        return _checked(_numpy_columns(path), lambda row: f"{path}, row {row} (counted from 0)")
    raise GramError(f"{path} must be a .jsonl, .npy or .npz file, or a folder of a published builder.")


def _json_lines(path: Path) -> tuple[dict[str, Integers], list[int]]:
    """Return the columns input, target and, if the rows have them, id; and the line of every row."""
    columns = {"input": array("q"), "target": array("q"), "id": array("q")}
    lines: list[int] = []
    length = 0
    with path.open("rb") as file:
        for number, line in enumerate(file, 1):
            if not line.strip():
                continue
            record = _record(line, f"{path}, line {number}")
            length = length or len(record["input"])
            lines.append(number)
            for key, values in record.items():
                if key != "id" and len(values) != length:
                    what = f"{key} has {len(values)} tokens, but {length} are in the input of line {lines[0]}"
                    raise GramError(f"{path}, line {number}: {what}.")
                columns[key].extend(values)
            if len(columns["id"]) not in (0, len(lines)):
                raise GramError(f"{path}, line {number}: all rows must have an id, or none.")
    if not lines:
        raise GramError(f"{path} is empty: one row per line is expected.")
    arrays = {key: np.frombuffer(values, dtype=np.int64) for key, values in columns.items() if values}
    return {key: values if key == "id" else values.reshape(-1, length) for key, values in arrays.items()}, lines


def _record(line: bytes, where: str) -> dict[str, list[int]]:
    """Return one row: lists of whole numbers under input and target, and of one under id if it has an id."""
    try:
        content = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise GramError(f"{where}: this is not JSON ({error}).") from error
    if not isinstance(content, dict):
        raise GramError(f'{where}: a row must look like {{"input": [1, 2], "target": [3, 4]}}.')
    record: dict[str, list[int]] = {}
    for key in ("input", "target"):
        if key not in content:
            raise GramError(f"{where}: the key {key!r} is missing.")
        if not isinstance(content[key], list) or not content[key]:
            raise GramError(f"{where}: {key} must be a list of whole numbers.")
        record[key] = content[key]
    if content.get("id") is not None:
        record["id"] = [content["id"]]
    for key, values in record.items():
        if set(map(type, values)) != {int}:  # quicker than to look at each; and True is no token
            bad = next(value for value in values if type(value) is not int)
            raise GramError(f"{where}: {key} holds {json.dumps(bad)[:40]}, which is not a whole number.")
        if max(values) > LARGEST or min(values) < -LARGEST:
            raise GramError(f"{where}: {key} holds a number beyond {LARGEST}.")
    return record


def _numpy_columns(path: Path) -> dict[str, Integers]:
    """Return the columns input, target and, if there are any, id of a .npz or .npy file."""
    try:
        with path.open("rb") as file:
            loaded = np.load(file, allow_pickle=False)
            if isinstance(loaded, np.ndarray):
                fields = _fields(path, loaded)
            else:
                fields = {key: loaded[key] for key in loaded.files}
    except (OSError, ValueError, EOFError, zipfile.BadZipFile) as error:
        raise GramError(f"{path} is cut off, or holds no plain arrays ({error}).") from error
    for key in ("input", "target"):
        if key not in fields:
            raise GramError(f"{path}: the array {key!r} is missing; there is {', '.join(fields) or 'none'}.")
    columns: dict[str, Integers] = {key: fields[key] for key in ("input", "target", "id") if key in fields}
    shape = columns["input"].shape
    for key, column in columns.items():
        if not np.issubdtype(column.dtype, np.integer):
            raise GramError(f"{path}: {key} must hold whole numbers, not {column.dtype}.")
        expected = shape[:1] if key == "id" else shape
        if len(shape) != 2 or column.shape != expected:
            what = f"{key} has the shape {list(column.shape)}"
            raise GramError(f"{path}: {what}; input and target must be [rows, length], id [rows].")
    if 0 in shape:
        raise GramError(f"{path} is empty: its arrays have the shape {list(shape)}.")
    return columns


def _fields(path: Path, content: NDArray[Any]) -> dict[str, NDArray[Any]]:
    if content.dtype.names is not None:
        return {name: content[name] for name in content.dtype.names}
    if content.ndim != 3 or content.shape[1] != 2:
        what = f"not {content.dtype} {list(content.shape)}"
        raise GramError(
            f"{path} must be [rows, 2 (input and target), length] or have the fields input and target, {what}."
        )
    return {"input": content[:, 0], "target": content[:, 1]}


def _checked(columns: dict[str, Integers], where: Callable[[int], str]) -> Rows:
    """Check every number; `where` says where a row is."""
    inputs, targets, ids = columns["input"], columns["target"], columns.get("id")
    _refuse(inputs < 0, inputs, where, "input holds {}: tokens must not be negative")
    _refuse((targets < 0) & (targets != IGNORE), targets, where, f"target holds {{}}: only {IGNORE} may be negative")
    _refuse((targets == IGNORE).all(axis=1, keepdims=True), targets[:, :1], where, "target has no label at all")
    for key, column in columns.items():
        _refuse(column > LARGEST, column, where, f"{key} holds {{}}, which is beyond {LARGEST}")
    if ids is not None:
        _refuse(ids < 0, ids, where, "id is {}, but must not be negative")
    small = compact_type(int(max(inputs.max(), targets.max())))
    return Rows(inputs.astype(small), targets.astype(small), None if ids is None else ids.astype(np.int64))


def _refuse(bad: NDArray[np.bool_], values: Integers, where: Callable[[int], str], what: str) -> None:
    """Raise `GramError` for the first row where `bad` [rows, ...] is true."""
    if bad.any():
        row = int(bad.reshape(len(bad), -1).any(axis=1).argmax())
        raise GramError(f"{where(row)}: {what.format(values[bad][0])}.")


def compact_type(largest: int) -> np.dtype[Any]:
    """Return the smallest type that holds the tokens 0..largest and `IGNORE`: augmented data has a billion of them."""
    return np.result_type(np.min_scalar_type(IGNORE), np.min_scalar_type(-1 - largest))


def read_folder(folder: Path) -> PublishedFolder:
    """Read and check a whole published folder."""
    train, test = (_metadata(folder / name / "dataset.json") for name in ("train", "test"))
    for key in ("seq_len", "vocab_size", "num_puzzle_identifiers"):
        if getattr(train, key) != getattr(test, key):
            raise GramError(f"{folder}: {key} is {getattr(train, key)} in train but {getattr(test, key)} in test.")
    train_rows, train_groups = _published_split(folder / "train", train)
    test_rows, _ = _published_split(folder / "test", test)
    return PublishedFolder(train_rows, test_rows, train_groups, train.vocab_size, train.num_puzzle_identifiers)


def _metadata(path: Path) -> Metadata:
    try:
        return Metadata.model_validate_json(path.read_bytes())
    except FileNotFoundError as error:
        raise GramError(f"{path} is missing: the published builders write one for train and one for test.") from error
    except ValidationError as error:
        raise GramError(f"{path}: {describe(error)}.") from error


def _published_split(folder: Path, metadata: Metadata) -> tuple[Rows, Integers]:
    """Return the rows of all sets, and the group of each row."""
    parts: list[tuple[Integers, ...]] = []
    for name in metadata.sets:
        first_group = max((int(groups.max(initial=-1)) for *_, groups in parts), default=-1) + 1
        parts.append(_published_set(folder, name, metadata, first_group))
    inputs, targets, ids, groups = (np.concatenate(column) for column in zip(*parts, strict=True))
    if not len(inputs):
        raise GramError(f"{folder} has no rows: build the dataset again.")
    return Rows(inputs, targets, ids.astype(np.int64)), groups


def _published_set(folder: Path, name: str, metadata: Metadata, first_group: int) -> tuple[Integers, ...]:
    """inputs, targets [rows, length], puzzle ids, groups (numbered from `first_group`) [rows] of one set."""
    path = {field: folder / f"{name}__{field}.npy" for field in _DIMENSIONS}
    content = {field: _published_array(path[field], dimensions) for field, dimensions in _DIMENSIONS.items()}
    inputs, labels, identifiers = content["inputs"], content["labels"], content["puzzle_identifiers"]
    for field, column in (("inputs", inputs), ("labels", labels)):
        if column.shape != (len(inputs), metadata.seq_len):
            expected = [len(inputs), metadata.seq_len]
            raise GramError(f"{path[field]} has the shape {list(column.shape)}, but {expected} is expected.")
    rows_of_puzzle = _sizes(path["puzzle_indices"], content["puzzle_indices"], len(inputs))
    puzzles_of_group = _sizes(path["group_indices"], content["group_indices"], len(identifiers))
    if len(rows_of_puzzle) != len(identifiers):
        raise GramError(f"{path['puzzle_indices']} needs {len(identifiers) + 1} numbers: one per puzzle, and the end.")

    _check_range(path["inputs"], inputs, metadata.vocab_size)
    _check_range(path["puzzle_identifiers"], identifiers, metadata.num_puzzle_identifiers)
    unlabelled = labels == metadata.ignore_label_id  # None, for no such label, equals nothing
    _check_range(path["labels"], labels[~unlabelled], metadata.vocab_size)
    if unlabelled.all(axis=1).any():  # any answer would pass for right
        raise GramError(
            f"{path['labels']}, row {unlabelled.all(axis=1).argmax()} (counted from 0) has no label at all."
        )
    small = compact_type(metadata.vocab_size - 1)
    targets = labels.astype(small)
    targets[unlabelled] = IGNORE
    group = np.repeat(np.arange(len(puzzles_of_group)) + first_group, puzzles_of_group)
    return (inputs.astype(small), targets, np.repeat(identifiers, rows_of_puzzle), np.repeat(group, rows_of_puzzle))


_DIMENSIONS = {"inputs": 2, "labels": 2, "puzzle_identifiers": 1, "puzzle_indices": 1, "group_indices": 1}


def _published_array(path: Path, dimensions: int) -> Integers:
    try:
        content: NDArray[Any] = np.load(path, allow_pickle=False)
    except FileNotFoundError as error:
        raise GramError(f"{path} is missing, but dataset.json beside it announces it.") from error
    except (OSError, ValueError, EOFError) as error:
        raise GramError(f"{path} is cut off, or not a .npy file ({error}).") from error
    if not np.issubdtype(content.dtype, np.integer) or content.ndim != dimensions:
        found = f"{content.dtype} {list(content.shape)}"
        raise GramError(f"{path} must hold whole numbers in {dimensions} dimension(s), not {found}.")
    return content


def _sizes(path: Path, bounds: Integers, end: int) -> NDArray[np.int64]:
    """Return sizes [ranges] of the consecutive ranges with these bounds [ranges + 1], which must cover 0..end."""
    sizes: NDArray[np.int64] = bounds[1:].astype(np.int64) - bounds[:-1]
    if not len(bounds) or bounds[0] != 0 or bounds[-1] != end or (sizes < 0).any():
        raise GramError(f"{path} must ascend from 0 to {end}.")
    return sizes


def _check_range(path: Path, values: Integers, end: int) -> None:
    bad = values[(values < 0) | (values >= end)]
    if bad.size:
        raise GramError(f"{path} holds {bad[0]}, which is not in 0..{end - 1} as dataset.json announces.")
