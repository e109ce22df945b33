"""Published folders of tokens: read as they were written, or refused with what is wrong."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from gram.errors import GramError
from gram.tasks.base import IGNORE, Tokens
from gram.tasks.tokens.task import TokenFile
from tests.tasks.tokens.helpers import SPLITS, check_groups


class Builder:
    """Writes a folder as the published builders do, for puzzles with any number of examples."""

    def __init__(self, folder: Path, **metadata: Any) -> None:
        self.folder = folder
        self.metadata = metadata

    def write(self, split: str, groups: list[list[tuple[int, list[tuple[list[int], list[int]]]]]]) -> None:
        """groups: lists of puzzles (identifier, examples), an example being input and label."""
        results: dict[str, list[Any]] = {key: [] for key in ("inputs", "labels", "puzzle_identifiers")}
        results |= {"puzzle_indices": [0], "group_indices": [0]}
        for group in groups:
            for identifier, examples in group:
                for tokens, label in examples:
                    results["inputs"].append(tokens)
                    results["labels"].append(label)
                results["puzzle_indices"].append(len(results["inputs"]))
                results["puzzle_identifiers"].append(identifier)
            results["group_indices"].append(len(results["puzzle_identifiers"]))
        (self.folder / split).mkdir(parents=True)
        for key, values in results.items():
            dtype = np.uint8 if key in ("inputs", "labels") else np.int32
            np.save(self.folder / split / f"all__{key}.npy", np.array(values, dtype=dtype))
        content = {
            "pad_id": 0,
            "ignore_label_id": 0,
            "blank_identifier_id": 0,
            "vocab_size": 11,
            "seq_len": 4,
            "num_puzzle_identifiers": 1,
            "total_groups": len(groups),
            "mean_puzzle_examples": 1.0,
            "total_puzzles": len(results["puzzle_identifiers"]),
            "sets": ["all"],
            **self.metadata,
        }
        (self.folder / split / "dataset.json").write_text(json.dumps(content))


def puzzle(number: int, version: int = 0) -> tuple[int, list[tuple[list[int], list[int]]]]:
    """One example whose tokens name its group; the label of the last position is missing."""
    tokens = [1, number % 10 + 1, number // 10 + 1, version + 1]
    return 0, [(tokens, [*tokens[1:], 0])]


@pytest.fixture
def published(tmp_path: Path) -> Path:
    """40 groups of 3 augmentations for training, and 5 test puzzles, of which one is a training puzzle too."""
    builder = Builder(tmp_path / "published")
    builder.write("train", [[puzzle(number, version) for version in range(3)] for number in range(40)])
    builder.write("test", [[puzzle(number)] for number in range(39, 44)])
    (tmp_path / "published" / "identifiers.json").write_text('["<blank>"]')
    return tmp_path / "published"


def test_a_published_folder_keeps_its_test_split(published: Path) -> None:
    task = TokenFile(path=str(published), validation_share=0.1)
    assert (task.length, task.vocab_size, task.puzzles) == (4, 11, 1)
    test = task.split("test")
    assert sorted(test.inputs.tolist()) == sorted(puzzle(number)[1][0][0] for number in range(39, 44))
    assert (test.targets[:, -1] == IGNORE).all()
    assert np.array_equal(test.targets[:, :-1], test.inputs[:, 1:])
    assert test.puzzle_ids is not None
    assert not test.puzzle_ids.any()
    check_groups(task)
    # without the training row that is also a test row
    assert sum(len(task.split(name)) for name in SPLITS) == 40 * 3 + 5 - 1


def test_validation_takes_whole_published_groups(published: Path) -> None:
    task = TokenFile(path=str(published), validation_share=0.1)
    validation, train = (
        {tuple(row) for row in task.split(name).inputs[:, 1:3].tolist()} for name in ("validation", "train")
    )
    assert len(validation) == 4
    assert not validation & train
    assert len(validation | train) == 40
    other = TokenFile(path=str(published), validation_share=0.1, seed=1)
    assert other.split_hash() != task.split_hash()
    assert np.array_equal(np.sort(other.split("test").inputs, axis=0), np.sort(task.split("test").inputs, axis=0))


def test_the_same_input_of_two_puzzles_is_two_inputs(tmp_path: Path) -> None:
    builder = Builder(tmp_path, num_puzzle_identifiers=31, ignore_label_id=None)
    same = [1, 1, 1, 1]
    groups = [[(number, [(same, [2, 2, 2, number % 10]), ([*same[:3], 2], same)])] for number in range(1, 31)]
    builder.write("train", groups[:20])
    builder.write("test", groups[20:])
    task = TokenFile(path=str(tmp_path))
    assert task.puzzles == 31
    examples = task.split("test")
    assert examples.puzzle_ids is not None
    assert sorted(examples.puzzle_ids.tolist()) == sorted([*range(21, 31)] * 2)
    assert len(np.unique(examples.groups)) == len(examples) == 20
    rows = examples.inputs[:, 3] == 1
    assert np.array_equal(examples.targets[rows, 3], examples.puzzle_ids[rows] % 10)  # 0 is a label here
    assert sum(len(task.split(name)) for name in SPLITS) == 30 * 2


def damage(folder: Path, name: str, change: Callable[[Tokens], Any]) -> None:
    path = folder / "train" / f"all__{name}.npy"
    np.save(path, change(np.load(path)))


@pytest.mark.parametrize(
    ("name", "change", "message"),
    [
        ("inputs", lambda a: a[:, :3], r"all__inputs.npy has the shape \[120, 3\], but \[120, 4\] is expected"),
        ("labels", lambda a: a[:-1], r"all__labels.npy has the shape \[119, 4\]"),
        ("labels", lambda a: a * 0, "labels.npy, row 0 .counted from 0. has no label at all"),
        ("inputs", lambda a: a + 10, "all__inputs.npy holds 11, which is not in 0..10"),
        ("labels", lambda a: a + 10, "all__labels.npy holds .*, which is not in 0..10"),
        ("inputs", lambda a: a / 2, "must hold whole numbers in 2 dimension"),
        ("puzzle_indices", lambda a: a[:-1], "puzzle_indices.npy must ascend from 0 to 120"),
        ("puzzle_indices", lambda a: a[::-1], "puzzle_indices.npy must ascend from 0 to 120"),
        ("puzzle_indices", lambda a: np.delete(a, 5), "puzzle_indices.npy needs 121 numbers"),
        ("group_indices", lambda a: a + 1, "group_indices.npy must ascend from 0 to 120"),
        ("puzzle_identifiers", lambda a: a + 1, "puzzle_identifiers.npy holds 1, which is not in 0..0"),
    ],
)
def test_a_damaged_published_folder_is_refused(
    published: Path, name: str, change: Callable[[Tokens], Any], message: str
) -> None:
    damage(published, name, change)
    with pytest.raises(GramError, match=message):
        TokenFile(path=str(published))


def test_missing_parts_of_a_published_folder_are_named(published: Path, tmp_path: Path) -> None:
    with pytest.raises(GramError, match="leave out test_share"):
        TokenFile(path=str(published), test_share=0.1)
    (published / "test" / "all__labels.npy").write_bytes(b"\x93NUMPY")
    with pytest.raises(GramError, match=r"all__labels.npy is cut off"):
        TokenFile(path=str(published))
    (published / "test" / "all__labels.npy").unlink()
    with pytest.raises(GramError, match=r"all__labels.npy is missing, but dataset.json"):
        TokenFile(path=str(published))
    (published / "test" / "dataset.json").write_text('{"seq_len": 4}')
    with pytest.raises(GramError, match=r"test/dataset.json: vocab_size: Field required"):
        TokenFile(path=str(published))
    with pytest.raises(GramError, match=r"dataset.json is missing: the published builders"):
        TokenFile(path=str(tmp_path))


def test_a_published_folder_is_found_below_the_data_folder(published: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GRAM_DATA", str(published.parent))
    assert TokenFile(path="published").split_hash() == TokenFile(path=str(published)).split_hash()
