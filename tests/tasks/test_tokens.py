"""Bring your own data: files and published folders are read or refused by line, split by input, and judged."""

import json
from collections.abc import Callable
from importlib import metadata
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gram.errors import GramError
from gram.recipe import load_recipe
from gram.tasks.base import IGNORE, SplitName, Tokens
from gram.tasks.tokens.task import TokenFile

ROOT = Path(__file__).parents[2]
SPLITS: tuple[SplitName, ...] = ("train", "validation", "test")


@pytest.fixture(autouse=True)
def no_data_folder(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("GRAM_DATA", raising=False)


def write_lines(path: Path, rows: list[dict[str, Any]]) -> str:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return str(path)


def pairs_of(task: TokenFile) -> set[tuple[tuple[int, ...], tuple[int, ...]]]:
    parts = [task.split(name) for name in SPLITS]
    rows = [(a, b) for part in parts for a, b in zip(part.inputs.tolist(), part.targets.tolist(), strict=True)]
    assert len(set(map(str, rows))) == len(rows)  # nothing twice
    return {(tuple(a), tuple(b)) for a, b in rows}


def check_groups(task: TokenFile) -> None:
    """Groups ascend, a group is one input, an input is one group and in one split."""
    seen: set[bytes] = set()
    for name in SPLITS:
        examples = task.split(name)
        assert examples.inputs.dtype == examples.targets.dtype == examples.groups.dtype == np.int64
        assert (np.diff(examples.groups) >= 0).all()
        distinct, rows, _ = examples.distinct()
        assert np.array_equal(np.repeat(distinct, rows, axis=0), examples.inputs)
        here = {row.tobytes() for row in distinct}
        assert len(here) == len(distinct)
        assert not here & seen
        seen |= here


@pytest.fixture
def counted(tmp_path: Path) -> str:
    """200 inputs [a, b, 0] with the answers [a, b, a + b] and, where a > b, [b, a, a + b] as well."""
    rows = []
    for a, b in np.ndindex(20, 10):
        rows.append({"input": [a, b, 0], "target": [a, b, a + b], "note": "not read"})
        if a > b:
            rows.append({"input": [a, b, 0], "target": [b, a, a + b]})
    return write_lines(tmp_path / "counted.jsonl", rows)


def test_a_file_becomes_disjoint_splits_with_all_its_rows(counted: str) -> None:
    task = TokenFile(path=counted)
    rows = [json.loads(line) for line in Path(counted).read_text().splitlines()]
    assert pairs_of(task) == {(tuple(row["input"]), tuple(row["target"])) for row in rows}
    assert [len(task.split(name).distinct()[0]) for name in SPLITS] == [162, 8, 30]  # 15% of 200, 5% of the rest
    assert (task.length, task.vocab_size, task.puzzles, task.left_out) == (3, 29, 0, 0)
    assert task.split("train").puzzle_ids is None
    check_groups(task)


def test_the_split_follows_the_seed_and_not_the_order_of_the_rows(counted: str, tmp_path: Path) -> None:
    task = TokenFile(path=counted)
    assert task.split_hash() == "27297be20f69"  # a change here changes every result
    lines = Path(counted).read_text().splitlines()
    (tmp_path / "shuffled.jsonl").write_text("\n\n".join([*reversed(lines), lines[0]]))  # no last newline, one twice
    shuffled = TokenFile(path=str(tmp_path / "shuffled.jsonl"))
    assert shuffled.split_hash() == task.split_hash()
    assert shuffled.left_out == 1
    assert TokenFile(path=counted, seed=1).split_hash() != task.split_hash()
    assert TokenFile(path=counted, test_share=0.3).split_hash() != task.split_hash()


def test_json_lines_and_numpy_files_give_the_same_task(counted: str, tmp_path: Path) -> None:
    rows = [json.loads(line) for line in Path(counted).read_text().splitlines()]
    columns = {key: np.array([row[key] for row in rows], dtype=np.uint8) for key in ("input", "target")}
    np.savez(tmp_path / "named.npz", **columns)
    np.save(tmp_path / "stacked.npy", np.stack([columns["input"], columns["target"]], axis=1).astype(np.int16))
    fields = np.empty(len(rows), dtype=[("input", "i4", 3), ("target", "i4", 3)])
    fields["input"], fields["target"] = columns["input"], columns["target"]
    np.save(tmp_path / "fields.npy", fields)
    hashes = {TokenFile(path=str(tmp_path / name)).split_hash() for name in ("named.npz", "stacked.npy", "fields.npy")}
    assert hashes == {TokenFile(path=counted).split_hash()}


rows_of_tokens = st.integers(1, 4).flatmap(
    lambda length: st.lists(
        st.tuples(
            st.lists(st.integers(0, 2), min_size=length, max_size=length),
            st.lists(st.sampled_from([0, 1, 2, IGNORE]), min_size=length, max_size=length).filter(
                lambda target: set(target) != {IGNORE}
            ),
        ),
        min_size=1,
        max_size=30,
    )
)


@settings(max_examples=40)
@given(rows=rows_of_tokens, seed=st.integers(0, 3), outputs=st.randoms(use_true_random=False))
def test_any_file_is_split_and_verified_as_by_brute_force(
    tmp_path_factory: pytest.TempPathFactory, rows: list[tuple[list[int], list[int]]], seed: int, outputs: Any
) -> None:
    path = tmp_path_factory.mktemp("any") / "any.jsonl"
    task = TokenFile(path=write_lines(path, [{"input": a, "target": b} for a, b in rows]), seed=seed, test_share=0.4)
    assert pairs_of(task) == {(tuple(a), tuple(b)) for a, b in rows}
    assert task.left_out == len(rows) - len(pairs_of(task))
    check_groups(task)
    asked = [*[a for a, _ in rows], [3] * task.length, [259] * task.length]  # 259 is 3 if cut to a byte
    answers = [[outputs.choice([0, 1, 2]) for _ in range(task.length)] for _ in asked]
    verdict = task.verify(np.array(asked), np.array(answers))
    for row, (question, answer) in enumerate(zip(asked, answers, strict=True)):
        known = [b for a, b in rows if a == question]
        wrong = [sum(x not in (y, IGNORE) for x, y in zip(b, answer, strict=True)) for b in known]
        assert verdict.conflicts[row] == min(wrong, default=task.length)
        assert verdict.valid[row] == (0 in wrong)
        solutions = task.solutions(np.array(question))
        assert (solutions is None) == (not known)
        if solutions is not None:
            assert sorted(map(tuple, solutions)) == sorted(set(map(tuple, known)))


def test_every_target_is_valid_and_an_unknown_input_never(counted: str) -> None:
    task = TokenFile(path=counted)
    for name in SPLITS:
        examples = task.split(name)
        assert task.verify(examples.inputs, examples.targets).valid.all()
        assert not task.verify(examples.inputs, examples.targets + 1).valid.any()
        assert not task.verify(examples.inputs + np.array([0, 0, 1]), examples.targets).valid.any()
    solutions = task.solutions(np.array([5, 3, 0]))
    assert solutions is not None
    assert solutions.tolist() == [[3, 5, 8], [5, 3, 8]]
    assert task.solutions(np.array([5, 3, 1])) is None
    with pytest.raises(GramError, match=r"\[rows, 3\], not \[1, 2\]"):
        task.verify(np.ones((1, 2), dtype=np.int64), np.ones((1, 3), dtype=np.int64))


def test_positions_without_any_label_mean_nothing(tmp_path: Path) -> None:
    rows = [{"input": [n, 1, 1], "target": [n, IGNORE, IGNORE if n % 2 else 4]} for n in range(9)]
    task = TokenFile(path=write_lines(tmp_path / "half.jsonl", rows))
    outputs = np.array([[3, 7, 7], [4, 7, 7]])
    assert task.canonical(outputs).tolist() == [[3, 0, 7], [4, 0, 7]]
    assert task.verify(np.array([[3, 1, 1], [4, 1, 1]]), outputs).conflicts.tolist() == [0, 1]


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


def test_ids_are_part_of_the_input_but_do_not_divide_a_split(tmp_path: Path) -> None:
    rows = [{"input": [n, 0], "target": [n, i], "id": i} for n in range(40) for i in range(3)]
    task = TokenFile(path=write_lines(tmp_path / "ids.jsonl", rows))
    assert task.puzzles == 3
    parts = [task.split(name) for name in SPLITS]
    for part in parts:
        assert part.puzzle_ids is not None
        assert np.array_equal(part.puzzle_ids, part.targets[:, 1])  # the rows kept their ids
        assert len(np.unique(part.groups)) == len(part)
    tokens = [set(part.inputs[:, 0].tolist()) for part in parts]
    assert sum(map(len, tokens)) == len(set.union(*tokens)) == 40


def test_files_are_found_below_the_data_folder(counted: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GRAM_DATA", str(Path(counted).parent))
    assert TokenFile(path="counted.jsonl").length == 3


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"seed": -1}, "seed of the split must not be negative"),
        ({"test_share": 1}, "test_share must be"),
        ({"validation_share": -0.5}, "validation_share must be"),
        ({"vocab_size": 28}, "needs a vocab_size of at least 29, not 28"),
        ({"shape": (2, 2)}, "rows x columns = 3, not"),
        ({"shape": (3,)}, "rows x columns = 3, not"),
        ({"shape": (-1, -3)}, "rows x columns = 3, not"),
        ({"plugin": "nothing"}, "there is no plugin 'nothing': give a file that ends in .py"),
        ({"plugin": "nothing.py"}, "there is no nothing.py"),
    ],
)
def test_wrong_options_are_refused(counted: str, options: dict[str, Any], message: str) -> None:
    with pytest.raises(GramError, match=message):
        TokenFile(path=counted, **options)


def test_an_unknown_split_is_refused(counted: str) -> None:
    with pytest.raises(GramError, match="no split 'dev'"):
        TokenFile(path=counted).split("dev")  # type: ignore[arg-type]


def test_parse_takes_a_json_list(counted: str) -> None:
    task = TokenFile(path=counted, vocab_size=40)
    assert task.parse(" [5, 39,\n0]").tolist() == [5, 39, 0]
    for text, message in {
        "5 3 0": "must be a JSON list",
        "[1, 2": "must be a JSON list",
        "[1, [2], 3]": "must be a JSON list",
        "[1, 2]": r"must be 3 whole numbers, not int64 \[2\]",
        "[1, 2, 3.5]": "must be 3 whole numbers, not float64",
        '{"input": [1]}': "must be 3 whole numbers",
        "[1, 2, 40]": r"holds 40, but its tokens must be in 0..39",
        "[1, 2, -1]": "holds -1",
    }.items():
        with pytest.raises(GramError, match=message):
            task.parse(text)


def test_render_shows_numbers_as_a_line_or_a_grid(tmp_path: Path) -> None:
    rows = [{"input": [0, 1, 10, 3], "target": [0, 1, 10, IGNORE]}]
    path = write_lines(tmp_path / "four.jsonl", rows)
    target = np.array(rows[0]["target"])
    assert TokenFile(path=path).render(target) == "0 1 10 ."
    assert TokenFile(path=path, shape=(2, 2)).render(target) == " 0  1\n10  ."


def test_draw_marks_what_differs_from_the_nearest_target(counted: str) -> None:
    figure_module = pytest.importorskip("matplotlib.figure")
    task = TokenFile(path=counted)
    axes = figure_module.Figure().subplots()
    task.draw(axes, np.array([3, 5, 9]), np.array([5, 3, 0]))
    assert [text.get_text() for text in axes.texts] == ["3", "5", "9"]
    assert [text.get_position() for text in axes.texts] == [(0, 0), (1, 0), (2, 0)]
    assert [text.get_color() for text in axes.texts] == ["#1f5fbf", "#1f5fbf", "#d62728"]
    valid = figure_module.Figure().subplots()
    task.draw(valid, np.array([5, 3, 8]), np.array([5, 3, 0]))
    assert [text.get_color() for text in valid.texts] == ["black", "black", "#1f5fbf"]


PLUGIN = """
import numpy as np
def verify(inputs, outputs): return outputs.sum(axis=1) == 2 * inputs.sum(axis=1)
def render(tokens): return "+".join(map(str, tokens))
def parse(text): return [int(part) for part in text.split("+")]
"""


def test_a_plugin_verifies_renders_and_parses(counted: str, tmp_path: Path) -> None:
    (tmp_path / "plugin.py").write_text(PLUGIN)
    task = TokenFile(path=counted, plugin=str(tmp_path / "plugin.py"))
    inputs = np.array([[5, 3, 0], [25, 3, 0]])
    verdict = task.verify(inputs, np.array([[8, 0, 8], [28, 20, 7]]))  # neither a known target nor a known input
    assert verdict.valid.tolist() == [True, False]
    assert verdict.conflicts.tolist() == [0, 1]
    assert task.render(inputs[0]) == "5+3+0"
    assert task.parse("5+3+0").tolist() == [5, 3, 0]
    with pytest.raises(GramError, match="must be 3 whole numbers"):
        task.parse("5+3")


@pytest.mark.parametrize(
    ("code", "message"),
    [
        ("import not_there_at_all", "cannot be loaded: ModuleNotFoundError: No module"),
        ("def verify(", "cannot be loaded: SyntaxError"),
        ("verify = 5", "defines none of verify, render and parse"),
        (
            "def verify(inputs, outputs): return inputs == outputs",
            r"must return an array of bool \[2\], not bool \[2, 3\]",
        ),
        ("def verify(inputs, outputs): return [1, 0]", r"must return an array of bool \[2\], not int64 \[2\]"),
    ],
)
def test_a_bad_plugin_is_refused(counted: str, tmp_path: Path, code: str, message: str) -> None:
    (tmp_path / "plugin.py").write_text(code)
    with pytest.raises(GramError, match=message):
        TokenFile(path=counted, plugin=str(tmp_path / "plugin.py")).verify(np.ones((2, 3), int), np.ones((2, 3), int))


def test_a_plugin_can_be_installed(counted: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "sums_for_gram.py").write_text(PLUGIN)
    (tmp_path / "sums-1.dist-info").mkdir()
    (tmp_path / "sums-1.dist-info" / "METADATA").write_text("Metadata-Version: 2.1\nName: sums\nVersion: 1\n")
    (tmp_path / "sums-1.dist-info" / "entry_points.txt").write_text("[gram.tasks.tokens]\nsums = sums_for_gram\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    assert "sums" in metadata.entry_points(group="gram.tasks.tokens").names
    assert TokenFile(path=counted, plugin="sums").render(np.array([5, 3, 0])) == "5+3+0"


def test_the_example_of_the_documentation_runs(latin_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(latin_folder)
    task = TokenFile(**load_recipe(ROOT / "gram" / "recipes" / "tokens" / "gram.yaml").task.options)
    assert sum(len(task.split(name)) for name in SPLITS) == 2952
    for name in SPLITS:
        examples = task.split(name)
        assert task.verify(examples.inputs, examples.targets).valid.all()
        assert not task.verify(examples.inputs, examples.inputs).valid.any()
        assert not task.verify(examples.inputs, examples.targets[:, ::-1]).valid.all()
    assert task.render(np.array([1, 1, 1, 1, 1, 1, 1, 2, 3])) == ". . .\n. . .\n. a b"


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
    assert task.left_out == 1  # the training row that is also a test row
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
    assert task.left_out == 0


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
