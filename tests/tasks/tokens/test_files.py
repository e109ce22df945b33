"""Files of one's own that are refused, by line where there are lines."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from gram.errors import GramError
from gram.tasks.tokens.task import TokenFile
from tests.tasks.tokens.helpers import write_lines


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("{'input': [1, 2]}", "line 3: this is not JSON"),
        ('{"input": [1, 2], "tar', "line 3: this is not JSON"),
        ("[" * 100_000, "line 3: this is not JSON"),
        ("\xff", "line 3: this is not JSON"),
        ("[1, 2]", "line 3: a row must look like"),
        ('{"input": [1, 2]}', "line 3: the key 'target' is missing"),
        ('{"input": 5, "target": [1, 2]}', "line 3: input must be a list"),
        ('{"input": [], "target": []}', "line 3: input must be a list"),
        ('{"input": [1, 2, 3], "target": [1, 2, 3]}', "line 3: input has 3 tokens, but 2 are in the input of line 1"),
        ('{"input": [1, 2], "target": [1]}', "line 3: target has 1 tokens, but 2"),
        ('{"input": [1, 2.0], "target": [1, 2]}', "line 3: input holds 2.0, which is not a whole number"),
        ('{"input": [1, 2], "target": [true, 2]}', "line 3: target holds true, which is not a whole number"),
        ('{"input": [1, 2], "target": ["2", 2]}', 'line 3: target holds "2", which is not a whole number'),
        ('{"input": [1, [2]], "target": [1, 2]}', "line 3: input holds [2], which is not a whole number"),
        ('{"input": [1, -2], "target": [1, 2]}', "line 3: input holds -2: tokens must not be negative"),
        ('{"input": [1, -100], "target": [1, 2]}', "line 3: input holds -100: tokens must not be negative"),
        ('{"input": [1, 2], "target": [1, -2]}', "line 3: target holds -2: only -100 may be negative"),
        ('{"input": [1, 2], "target": [-100, -100]}', "line 3: target has no label at all"),
        ('{"input": [1, 9999999999], "target": [1, 2]}', "line 3: input holds a number beyond 2147483647"),
        ('{"input": [1, 2], "target": [1, 2], "id": 1}', "line 3: all rows must have an id, or none"),
    ],
)
def test_a_bad_line_is_named(tmp_path: Path, line: str, message: str) -> None:
    good = '{"input": [1, 2], "target": [2, 1]}\n'
    path = tmp_path / "bad.jsonl"
    path.write_bytes((good + "\n" + line + "\n" + good).encode("latin-1"))
    with pytest.raises(GramError) as error:
        TokenFile(path=str(path))
    assert str(error.value).startswith(f"{path}, {message}")
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("identity", [1.5, "seven", -3])
def test_an_id_is_a_number(tmp_path: Path, identity: object) -> None:
    path = write_lines(tmp_path / "ids.jsonl", [{"input": [1], "target": [2], "id": identity}])
    with pytest.raises(GramError, match="line 1: id"):
        TokenFile(path=path)


TWO = np.array([[1, 2], [3, 4]])


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        ({"input": TWO}, "the array 'target' is missing; there is input"),
        ({"input": TWO, "target": TWO[:1]}, r"target has the shape \[1, 2\]"),
        ({"input": TWO[0], "target": TWO[0]}, r"input has the shape \[2\]"),
        ({"input": TWO, "target": TWO, "id": TWO}, r"id has the shape \[2, 2\]"),
        ({"input": TWO, "target": TWO / 1}, "target must hold whole numbers, not float64"),
        ({"input": TWO - 3, "target": TWO}, r"row 0 \(counted from 0\): input holds -2"),
        ({"input": TWO, "target": TWO - [[0], [4]]}, r"row 1 \(counted from 0\): target holds -1"),
        ({"input": TWO, "target": TWO + np.array([[0], [2**40]])}, r"row 1 \(counted from 0\): target holds 10995"),
        ({"input": TWO[:0], "target": TWO[:0]}, r"is empty: its arrays have the shape \[0, 2\]"),
    ],
)
def test_bad_arrays_are_refused(tmp_path: Path, arrays: dict[str, Any], message: str) -> None:
    np.savez(tmp_path / "bad.npz", **arrays)
    with pytest.raises(GramError, match=message):
        TokenFile(path=str(tmp_path / "bad.npz"))


def test_files_that_are_no_data_are_refused(tmp_path: Path, counted: str) -> None:
    contents: dict[str, bytes] = {
        "empty.jsonl": b"\n \n",
        "half.npz": b"PK\x03\x04",
        "half.npy": b"\x93NUMPY",
        "a.csv": b"",
    }
    for name, content in contents.items():
        (tmp_path / name).write_bytes(content)
    np.save(tmp_path / "flat.npy", TWO)
    np.save(tmp_path / "objects.npy", np.array([[1], [2, 3]], dtype=object))
    messages = {
        "empty.jsonl": "is empty",
        "a.csv": "must be a .jsonl",
        "nowhere.npz": "neither here nor below GRAM_DATA",
    }
    messages |= {
        "flat.npy": "2 .input and target.",
        "half.npz": "cut off",
        "half.npy": "cut off",
        "objects.npy": "no plain",
    }
    for name, message in messages.items():
        with pytest.raises(GramError, match=message):
            TokenFile(path=str(tmp_path / name))
