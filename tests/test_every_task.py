"""Every task through the whole loop: a short training run, its loss falls, and what it wrote can be loaded and used."""

import io
import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from rich.console import Console

from gram.config import Recipe, SampleOptions, parse_recipe
from gram.errors import GramError
from gram.evaluation.evaluate import HEADLINES, evaluate
from gram.solver import load
from gram.tasks import TASKS, make_task
from gram.training.loop import train

ROOT = Path(__file__).parents[1]
SMALL_MODEL = {"dim": 16, "channel_hidden": 16, "token_hidden": 16, "guidance_hidden": 8, "supervision_steps": 2}
SHORT = {"steps": 40, "slots": 16, "lr": 0.01, "warmup": 5, "log_every": 10, "eval_every": 40, "eval_inputs": 3}
RUNS: dict[str, dict[str, Any]] = {
    "colouring": {"task": {"name": "colouring-5"}},
    "sudoku": {"task": {"name": "sudoku-4", "options": {"train_puzzles": 40, "test_puzzles": 10}}},
    "sudoku-generation": {
        "task": {
            "name": "sudoku-generation",
            "options": {"size": 4, "train_boards": 100, "validation_boards": 10, "test_boards": 10},
        }
    },
    "digits": {"task": {"name": "digits"}, "model": {"image": [8, 8], "puzzle_tokens": 2}},
    "tokens": {"task": {"name": "tokens", "options": {"path": "rows.jsonl"}}},
    "tokens with ids": {
        "task": {"name": "tokens", "options": {"path": "ids.jsonl"}},
        "model": {"puzzle_tokens": 2},
    },
    "arc": {
        "task": {"name": "arc", "options": {"evaluation": "arc.json", "augmentations": 2, "validation_share": 0.5}},
        "model": {"puzzle_tokens": 1},
    },
}


def recipe_of(changes: dict[str, Any], **train_changes: Any) -> Recipe:
    content = {
        "task": changes["task"],
        "model": SMALL_MODEL | changes.get("model", {}),
        "train": SHORT | train_changes,
        "eval": {"depth": 2, "width": 3},
        "objective": changes.get("objective", {}),
    }
    return parse_recipe(content, source="test")


def write_data() -> None:
    """Rows of tokens with and without ids, and ARC tasks that repaint one colour."""
    generator = np.random.default_rng(0)
    rows = [{"input": row, "target": row[::-1]} for row in generator.integers(1, 4, (60, 6)).tolist()]
    Path("rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    Path("ids.jsonl").write_text("".join(json.dumps(row | {"id": i % 5}) + "\n" for i, row in enumerate(rows)))
    tasks = {}
    for number in range(4):
        grids = generator.integers(0, 3, (4, 2, 2)).tolist()
        pairs = [{"input": grid, "output": [[(c + number + 1) % 3 for c in row] for row in grid]} for grid in grids]
        tasks[f"task{number}"] = {"train": pairs[:3], "test": pairs[3:]}
    Path("arc.json").write_text(json.dumps(tasks))


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """A folder with the data, where every task of `RUNS` has been trained; relative paths lead to it."""
    folder = tmp_path_factory.mktemp("tasks")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        patch.setenv("GRAM_CACHE", str(folder / "cache"))
        write_data()
        for name, changes in RUNS.items():
            train(recipe_of(changes), Path(name), Console(file=io.StringIO()))
        yield folder


@pytest.mark.parametrize("name", RUNS)
def test_a_short_run_learns_and_its_model_can_be_evaluated(runs: Path, name: str) -> None:
    lines = [json.loads(line) for line in (runs / name / "metrics.jsonl").read_text().splitlines()]
    losses = [line["reconstruction"] for line in lines if "reconstruction" in line]
    assert losses[-1] < 0.9 * losses[0]
    solver = load(runs / name)
    result = evaluate(solver.model, solver.task, "test", SampleOptions(width=2, depth=1), limit=4)
    assert json.loads((runs / name / "test.json").read_text())["scoring"] == result["scoring"] == solver.task.scoring
    judged = [name for name in HEADLINES[solver.task.scoring] if solver.task.has_rules or name != "validity"]
    assert ("validity" in result) == ("validity" in judged)
    for figure in judged:
        assert 0 <= result[figure] <= 1
        assert 0 <= lines[-1][f"validation_{figure}"] <= 1


def test_the_model_keeps_what_its_puzzle_ids_stand_for(runs: Path) -> None:
    stored = json.loads((runs / "arc" / "puzzles.json").read_text())
    solver = load(runs / "arc")
    assert solver.model.config.puzzles == solver.task.puzzles == len(stored["puzzles"])
    other = make_task("arc", evaluation="arc.json", augmentations=2, validation_share=0.5, seed=1)
    with pytest.raises(GramError, match="puzzle ids"):
        other.check_puzzle_table(stored)
    assert not (runs / "digits" / "puzzles.json").exists()


def test_only_rows_of_puzzles_that_were_used_move(runs: Path) -> None:
    table = load(runs / "tokens with ids").model.encoder.puzzles
    assert table is not None
    assert table.shape[0] == 5
    assert table.abs().sum(dim=1).gt(0).all()  # every id is in the training split
    arc = load(runs / "arc").model.encoder.puzzles
    assert arc is not None
    assert not arc[0].any()  # id 0 stands for no puzzle: nothing was ever learned for it


def test_a_puzzle_id_changes_the_answer_and_must_exist(runs: Path) -> None:
    solver = load(runs / "tokens with ids")
    values = [solver.solve([1, 2, 3, 1, 2, 3], puzzle_id=i, width=4).trajectories.values for i in (1, 2)]
    assert not np.array_equal(*values)
    with pytest.raises(GramError, match="no puzzle id 5"):
        solver.solve([1, 2, 3, 1, 2, 3], puzzle_id=5)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (RUNS["digits"] | {"model": {"image": [4, 4]}}, "does not fit digits"),
        (RUNS["digits"] | {"objective": {"reserve": 4}}, "objective.reserve is for images"),
        (RUNS["tokens"] | {"model": {"puzzle_tokens": 1, "puzzles": 2}}, "has 0 puzzle ids"),
        (RUNS["tokens with ids"] | {"model": {"puzzle_tokens": 1, "puzzles": 7}}, "5 puzzle ids"),
        (
            {
                "task": {"name": "colouring-5", "options": {"relabel": True}},
                "objective": {"learn_from_rollouts": True},
            },
            "augments inputs with several",
        ),
    ],
)
def test_a_recipe_that_does_not_fit_its_task_makes_no_folder(runs: Path, changes: dict[str, Any], message: str) -> None:
    with pytest.raises(GramError, match=message):
        train(recipe_of(changes), Path("refused"), Console(file=io.StringIO()))
    assert not Path("refused").exists()


def test_names_sizes_and_options() -> None:
    assert make_task("sudoku-4").name == make_task("sudoku", size=4).name
    assert make_task("arc-2").name == "arc-2"
    for name in TASKS:
        assert re.fullmatch(r"[a-z0-9-]+", name)
    for name, options in (("arc-1", {"version": 2}), ("nqueens-8", {"size": 6})):
        with pytest.raises(GramError, match="contradict"):
            make_task(name, **options)
    for name in ("digits-8", "sudoku-extreme-9", "sudoku-", "arc-3"):
        with pytest.raises(GramError, match="There is no task"):
            make_task(name)
    with pytest.raises(GramError, match="no option 'sise'"):
        make_task("digits", sise=3)
