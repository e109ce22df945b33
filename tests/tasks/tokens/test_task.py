"""Bring your own data: files are split by input and judged by what they hold."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gram.errors import GramError
from gram.tasks.base import IGNORE
from gram.tasks.tokens.task import TokenFile
from tests.tasks.tokens.helpers import SPLITS, check_groups, write_lines


def pairs_of(task: TokenFile) -> set[tuple[tuple[int, ...], tuple[int, ...]]]:
    parts = [task.split(name) for name in SPLITS]
    rows = [(a, b) for part in parts for a, b in zip(part.inputs.tolist(), part.targets.tolist(), strict=True)]
    assert len(set(map(str, rows))) == len(rows)  # nothing twice
    return {(tuple(a), tuple(b)) for a, b in rows}


def test_a_file_becomes_disjoint_splits_with_all_its_rows(counted: str) -> None:
    task = TokenFile(path=counted)
    rows = [json.loads(line) for line in Path(counted).read_text().splitlines()]
    assert pairs_of(task) == {(tuple(row["input"]), tuple(row["target"])) for row in rows}
    assert [len(task.split(name).distinct()[0]) for name in SPLITS] == [162, 8, 30]  # 15% of 200, 5% of the rest
    assert (task.length, task.vocab_size, task.puzzles) == (3, 29, 0)
    assert task.split("train").puzzle_ids is None
    check_groups(task)


def test_the_split_follows_the_seed_and_not_the_order_of_the_rows(counted: str, tmp_path: Path) -> None:
    task = TokenFile(path=counted)
    assert task.split_hash() == "27297be20f69"  # a change here changes every result
    lines = Path(counted).read_text().splitlines()
    (tmp_path / "shuffled.jsonl").write_text("\n\n".join([*reversed(lines), lines[0]]))  # no last newline, one twice
    shuffled = TokenFile(path=str(tmp_path / "shuffled.jsonl"))
    assert shuffled.split_hash() == task.split_hash()
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
        ({"plugin": "nothing"}, "There is no plugin 'nothing': give a file that ends in .py"),
        ({"plugin": "nothing.py"}, "There is no nothing.py"),
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
