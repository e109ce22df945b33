"""What the ARC task promises: every row is a form of its task's pair, splits are honest, and verdicts are right."""

import json
import shutil
from pathlib import Path
from typing import Any, get_args

import numpy as np
import pytest

from gram.errors import GramError
from gram.tasks.arc import grids
from gram.tasks.arc.grids import LENGTH, SIDE, Augmentation, Pair, from_canvas, to_canvas
from gram.tasks.arc.task import ARC
from gram.tasks.base import IGNORE, Examples, SplitName

SPLITS: tuple[SplitName, ...] = get_args(SplitName)


def pair(*rows: list[list[int]]) -> dict[str, Any]:
    return {"input": rows[0], "output": rows[1]}


def write(folder: Path, name: str, tasks: dict[str, Any], answers: bool = True) -> Path:
    """A file of challenges, and one of solutions beside it."""
    folder.mkdir(exist_ok=True)
    solutions = {key: [test["output"] for test in task["test"]] for key, task in tasks.items()}
    asked = {key: {**task, "test": [{"input": test["input"]} for test in task["test"]]} for key, task in tasks.items()}
    path = folder / f"{name}_challenges.json"
    path.write_text(json.dumps(asked))
    if answers:
        (folder / f"{name}_solutions.json").write_text(json.dumps(solutions))
    return path


def random_tasks(count: int, prefix: str, seed: int) -> dict[str, Any]:
    generator = np.random.default_rng(seed)

    def one() -> list[list[int]]:
        cells: list[list[int]] = generator.integers(0, 10, generator.integers(1, 7, 2)).tolist()
        return cells

    def pairs(number: int) -> list[dict[str, Any]]:
        return [pair(one(), one()) for _ in range(number)]

    return {f"{prefix}{n}": {"train": pairs(3), "test": pairs(1 + n % 2)} for n in range(count)}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """12 training and 8 evaluation tasks of random grids; t0's test pair is e0's, turned, and t1 asks what e1 asks."""
    path = tmp_path_factory.mktemp("arc")
    training, evaluation = random_tasks(12, "t", 0), random_tasks(8, "e", 1)
    training["t0"]["test"] = [
        pair(*(np.rot90(evaluation["e0"]["test"][0][side]).tolist() for side in ("input", "output")))
    ]
    training["t1"]["train"][0]["input"] = evaluation["e1"]["test"][0]["input"]
    evaluation["e2"]["train"][0] = pair(
        *(np.fliplr(evaluation["e2"]["test"][0][side]).tolist() for side in ("input", "output"))
    )
    write(path, "training", training)
    write(path, "evaluation", evaluation)
    return path


def files(folder: Path, **options: Any) -> ARC:
    names = {part: folder / f"{part}_challenges.json" for part in ("training", "evaluation")}
    return ARC(**{**names, "augmentations": 5, "validation_share": 0.25, **options})


@pytest.fixture(scope="module")
def task(folder: Path) -> ARC:
    return files(folder)


# --- the data ---------------------------------------------------------------------------------------------------------


def test_every_row_inverts_to_a_pair_of_its_task(task: ARC) -> None:
    ids = task.ids
    known = {(p.name, a.tobytes(), b.tobytes()) for part in task.parts for p in part for a, b in (*p.train, *p.test)}
    seen = set()
    for name in SPLITS:
        examples = task.split(name)
        assert examples.puzzle_ids is not None
        for asked, answer, puzzle_id in zip(examples.inputs, examples.targets, examples.puzzle_ids, strict=True):
            found = [ids.augmentation(puzzle_id).invert(g) for g in map(from_canvas, (asked, answer)) if g is not None]
            seen.add((ids.names[puzzle_id], *(grid.tobytes() for grid in found)))
    assert seen <= known
    assert len(known - seen) == 1  # t0's test pair


def test_the_puzzle_table_survives_json_and_belongs_to_one_data_set(task: ARC, folder: Path) -> None:
    stored = json.loads(json.dumps(task.puzzle_table()))
    files(folder).check_puzzle_table(stored)
    assert len(stored["puzzles"]) == len(task.ids) == task.puzzles == 1 + 20 * 6
    assert stored["puzzles"][0] == "<blank>"
    assert stored["puzzles"][1] == f"{task.ids.names[1]}|||t0|||0123456789"
    augmentation = task.ids.augmentation(50)
    colours = "".join(map(str, augmentation.colours))
    assert stored["puzzles"][50] == f"{task.ids.names[50]}|||t{augmentation.dihedral}|||{colours}"
    with pytest.raises(GramError, match="another seed"):
        files(folder, seed=1).check_puzzle_table(stored)
    with pytest.raises(GramError, match="trained on arc-2, which may hold the answers of arc-files"):
        task.check_puzzle_table({**stored, "data": "arc-2 0123456789ab"})
    with pytest.raises(GramError, match="belong to other tasks"):
        task.check_puzzle_table({})


def test_other_grids_under_the_same_names_are_noticed(task: ARC, folder: Path, tmp_path: Path) -> None:
    copy = Path(shutil.copytree(folder, tmp_path / "copy"))
    files(copy).check_puzzle_table(task.puzzle_table())
    answers = json.loads((copy / "evaluation_solutions.json").read_text())
    answers["e3"][0][0][0] = (answers["e3"][0][0][0] + 1) % 10  # an answer that no augmentation depends on
    (copy / "evaluation_solutions.json").write_text(json.dumps(answers))
    assert files(copy).puzzle_table()["puzzles"] == task.puzzle_table()["puzzles"]
    with pytest.raises(GramError, match="other tasks, grids"):
        files(copy).check_puzzle_table(task.puzzle_table())


def test_augmentations_are_different_and_as_many_as_there_are(tmp_path: Path) -> None:
    # One black cell has no other form; one coloured cell has nine; a 1 x 2 grid of two colours 2 x 9 x 8.
    forms = {"black": ([[0]], 1), "cell": ([[5]], 9), "two": ([[1, 2]], 144)}
    tasks = {name: {"train": [pair(grid, grid)], "test": [pair(grid, grid)]} for name, (grid, _) in forms.items()}
    # The second pair is the first one upside down: a half turn only exchanges them.
    tasks["swap"] = {"train": [pair([[1, 2]], [[1]]), pair([[2, 1]], [[1]])], "test": [pair([[0, 0, 0]], [[0]])]}
    task = ARC(evaluation=write(tmp_path, "few", tasks), augmentations=400, validation_share=0)
    names = list(task.ids.names)
    assert {name: names.count(name) for name in forms} == {name: count for name, (_, count) in forms.items()}
    assert names.count("swap") == 2 * 9 * 8  # of 4 x 9 x 8: lying or standing, and two colours
    train = task.split("train")
    rows = {(names[n], row.tobytes()) for row, n in zip(train.inputs, train.puzzle_ids, strict=True)}
    assert len([row for row in rows if row[0] != "swap"]) == 1 + 9 + 144


def test_splits_are_disjoint_and_ordered(task: ARC) -> None:
    seen: set[tuple[int, bytes]] = set()
    for name in SPLITS:
        examples = task.split(name)
        assert (np.diff(examples.groups) >= 0).all()
        assert examples.groups[0] == 0
        assert examples.puzzle_ids is not None
        inputs = [(int(n), row.tobytes()) for n, row in zip(examples.puzzle_ids, examples.inputs, strict=True)]
        assert not seen & set(inputs)
        assert len(set(inputs)) == examples.groups[-1] + 1
        seen |= set(inputs)
        # The originals come first, so that the first inputs are as many different tasks.
        assert task.ids.augmentation(int(examples.puzzle_ids[0])) == Augmentation(0, tuple(range(10)))


def test_no_answer_of_an_evaluation_task_is_trained_on(task: ARC) -> None:
    held_out = {grids.pair_key(p): puzzle.name for puzzle in task.parts.evaluation for p in puzzle.test}
    names = {puzzle.name for puzzle in task.parts.training}
    train, test = task.split("train"), task.split("test")
    keys = [(grids.pair_key(row), row_name) for row, row_name in rows_of(task, train)]
    assert len(test) == 12 * 6
    # e2 shows a mirror image of what it asks: that stays, as it is e2's own demonstration.
    assert {(held_out[key], name) for key, name in keys if key in held_out} == {("e2", "e2")}
    trained_names = {name for _, name in keys}
    assert names <= trained_names  # t0 is still learned from its demonstrations
    assert {puzzle.name for puzzle in task.parts.evaluation} <= trained_names


def rows_of(task: ARC, examples: Examples) -> list[tuple[Pair, str]]:
    """The pairs of a split, with the names of their tasks."""
    assert examples.puzzle_ids is not None
    found = []
    for asked, answer, n in zip(examples.inputs, examples.targets, examples.puzzle_ids, strict=True):
        asked_grid = from_canvas(asked)
        assert asked_grid is not None
        found.append((Pair(asked_grid, from_canvas(answer)), task.ids.names[n]))
    return found


def test_validation_holds_out_test_pairs_of_some_training_tasks(task: ARC) -> None:
    asked = {p.input.tobytes() for puzzle in task.parts.training for p in puzzle.test}
    names = set()
    for row, name in rows_of(task, task.split("validation"))[:3]:
        assert row.input.tobytes() in asked
        names.add(name)
    assert all(name.startswith("t") for name in names)
    held = {name for _, name in rows_of(task, task.split("validation"))}
    assert len(held) <= 3  # a quarter of twelve


def test_without_training_tasks_demonstrations_are_held_out(folder: Path) -> None:
    task = ARC(evaluation=folder / "evaluation_challenges.json", augmentations=0, validation_share=0.5)
    assert [len(task.split(name)) for name in SPLITS] == [20, 4, 12]


def test_rows_are_taken_like_those_of_an_array(task: ARC) -> None:
    train = task.split("train")
    whole = np.asarray(train.inputs)
    assert whole.shape == train.inputs.shape == (len(train), LENGTH)
    assert whole.dtype == np.int64
    numbers, mask = np.array([5, 0, 5]), np.arange(len(train)) % 7 == 0
    for key in (3, slice(2, 9), numbers, mask, -1):
        assert np.array_equal(train.inputs[key], whole[key])
    assert np.array_equal(train.distinct(4)[0], whole[:4])
    targets = train.targets[:50]
    assert set(np.unique(targets)) <= {IGNORE, *range(1, 12)}
    assert (targets == IGNORE).any()


def test_the_hash_is_stable_and_follows_the_settings(task: ARC, folder: Path) -> None:
    assert task.split_hash() == files(folder).split_hash()
    assert task.split_hash() == files(folder, translated_share=0.0).split_hash()  # `augment` is no part of the data
    for options in ({"seed": 1}, {"augmentations": 4}, {"validation_share": 0.5}):
        assert files(folder, **options).split_hash() != task.split_hash()


def test_augment_moves_both_grids_alike(task: ARC) -> None:
    train = task.split("train")
    rows = np.arange(0, len(train), 3)
    inputs, targets = train.inputs[rows], train.targets[rows]
    moved = task.augment(inputs, targets, np.random.default_rng(0))
    places = np.stack(grids.top_left(moved[0]))
    assert 0.6 < (places.any(axis=0)).mean() < 0.9  # three quarters, and few that drew the corner
    assert places.max() > 20
    for n, (row, column) in enumerate(places.T.tolist()):
        for before, after, pad in zip((inputs[n], targets[n]), (moved[0][n], moved[1][n]), (0, IGNORE), strict=True):
            grid = from_canvas(before)
            assert grid is not None
            expected = to_canvas(grid, row, column).astype(np.int64)
            assert np.array_equal(after, np.where(expected == 0, pad, expected))
    assert task.verify(*moved).valid.all()


def test_augment_can_be_switched_off_and_leaves_full_grids_in_place(folder: Path) -> None:
    still = files(folder, translated_share=0.0)
    assert not still.augments
    train = still.split("train")
    inputs, targets = still.augment(train.inputs[:9], train.targets[:9], np.random.default_rng(0))
    assert np.array_equal(inputs, train.inputs[:9])
    assert np.array_equal(targets, train.targets[:9])
    full = to_canvas(np.ones((SIDE, SIDE), dtype=np.uint8))[None].astype(np.int64)
    always = files(folder, translated_share=1.0)
    assert always.augments
    assert np.array_equal(always.augment(full, full, np.random.default_rng(0))[0], full)


# --- the verdict ------------------------------------------------------------------------------------------------------


def test_targets_are_valid_and_anything_else_is_not(task: ARC) -> None:
    for name in SPLITS:
        examples = task.split(name)
        inputs, targets = np.asarray(examples.inputs), np.asarray(examples.targets)
        verdict = task.verify(inputs, targets)
        assert verdict.valid.all()
        assert not verdict.conflicts.any()
        wrong = targets.copy()
        wrong[:, 0] = np.where(wrong[:, 0] == 2, 3, 2)  # one cell of another colour
        verdict = task.verify(inputs, wrong)
        assert not verdict.valid.any()
        alone = np.array([len(known) == 1 for known in map(task.solutions, inputs[:40]) if known is not None])
        assert alone.mean() > 0.8  # the others share their input with another task
        assert (verdict.conflicts[:40][alone] == 1).all()
        assert not task.verify(inputs, np.zeros_like(targets)).valid.any()
        assert not task.verify(inputs[:1], targets[:1, ::-1]).valid.any()


def test_what_lies_outside_the_end_markers_does_not_matter(task: ARC) -> None:
    test = task.split("test")
    inputs, targets = test.inputs[:], test.targets[:]
    noise = np.random.default_rng(0).integers(0, 12, targets.shape)
    assert task.verify(inputs, np.where(targets == IGNORE, noise, targets)).valid.all()
    clean = task.canonical(np.where(targets == IGNORE, noise, targets))
    assert np.array_equal(clean, np.where(targets == IGNORE, 0, targets))
    nothing = np.ones((1, LENGTH), dtype=np.int64)
    assert np.array_equal(task.canonical(nothing), nothing)


def test_nothing_is_valid_for_an_unknown_input(task: ARC) -> None:
    unknown = to_canvas(np.full((9, 9), 7, dtype=np.uint8))[None].astype(np.int64)
    verdict = task.verify(unknown, unknown)
    assert (verdict.valid[0], verdict.conflicts[0]) == (False, 1)
    assert task.solutions(unknown[0]) is None


def test_an_input_of_two_tasks_has_two_answers(task: ARC) -> None:
    training, evaluation = ({puzzle.name: puzzle for puzzle in part} for part in task.parts)
    question = to_canvas(evaluation["e1"].test[0].input).astype(np.int64)
    answers = [training["t1"].train[0].output, evaluation["e1"].test[0].output]
    rows = np.stack([to_canvas(answer).astype(np.int64) for answer in answers if answer is not None])
    solutions = task.solutions(question)
    assert solutions is not None
    assert {row.tobytes() for row in solutions} >= {row.tobytes() for row in rows}
    assert task.verify(np.stack([question, question]), rows).valid.all()


def test_unknown_answers_leave_targets_unlabelled(tmp_path: Path) -> None:
    path = write(tmp_path, "hidden", random_tasks(3, "h", 5), answers=False)
    task = ARC(evaluation=path, augmentations=1)
    test = task.split("test")
    assert (test.targets[:] == IGNORE).all()
    assert not task.verify(test.inputs[:], test.inputs[:]).valid.any()
    train = task.split("train")
    assert task.verify(train.inputs[:], train.targets[:]).valid.all()
