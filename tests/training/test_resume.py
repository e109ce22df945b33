"""A run that is stopped while it evaluates, whose folder is in use, or whose data has changed: nothing is lost."""

import io
import json
import os
import random
import shutil
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from rich.console import Console
from safetensors.torch import load_file

from gram.checkpoints.folder import change_eval_settings
from gram.config import Recipe
from gram.errors import GramError, Interrupted
from gram.files import locked, read_json
from gram.training import loop, validation
from gram.training.loop import resume, train
from gram.training.run_checkpoint import CHECKPOINTS, begin_run, checkpoints_of, load_checkpoint
from gram.training.step import Trainer

RecipeBuilder = Callable[..., Recipe]
QUIET = Console(file=io.StringIO())


@pytest.fixture(scope="module")
def recipe(queens_recipe: RecipeBuilder) -> Recipe:
    settings = {"steps": 6, "log_every": 2, "eval_every": 4, "save_every": 100, "threads": 1}
    return queens_recipe(train=settings)


@pytest.fixture(scope="module")
def finished(recipe: Recipe, tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("finished") / "run"
    train(recipe, out, QUIET)
    return out


def copy_of(folder: Path, target: Path) -> Path:
    shutil.copytree(folder, target)
    return target


def stop_in(monkeypatch: pytest.MonkeyPatch, split: str) -> None:
    """Let SIGTERM come as soon as a split is evaluated."""
    evaluate = loop.evaluate

    def interrupted(model: Any, task: Any, name: str, *more: Any, **options: Any) -> dict[str, Any]:
        if name == split:
            os.kill(os.getpid(), signal.SIGTERM)
        return evaluate(model, task, name, *more, **options)

    for module in (loop, validation):
        monkeypatch.setattr(module, "evaluate", interrupted)


def no_step(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(_: Trainer) -> dict[str, Any]:
        raise AssertionError("a finished training must not be trained again")

    monkeypatch.setattr(Trainer, "step", refuse)


def lines_of(folder: Path) -> list[dict[str, Any]]:
    lines = (folder / "metrics.jsonl").read_text().splitlines()
    return [{**json.loads(line), "seconds": None} for line in lines]


def result_of(folder: Path) -> dict[str, Any]:
    return {**read_json(folder / "test.json"), "train_minutes": None}


@pytest.mark.parametrize(
    ("split", "said"), [("validation", "during the validation after step 4"), ("test", "evaluate it")]
)
def test_a_run_that_is_stopped_while_it_evaluates_loses_nothing(
    recipe: Recipe, finished: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, split: str, said: str
) -> None:
    run = tmp_path / "run"
    with monkeypatch.context() as patch:
        stop_in(patch, split)
        with pytest.raises(Interrupted, match=said) as raised:
            train(recipe, run, QUIET)
    assert raised.value.exit_code == 128 + signal.SIGTERM
    with monkeypatch.context() as patch:
        if split == "test":
            no_step(patch)
        resume(run, QUIET)
    assert lines_of(run) == lines_of(finished)
    assert result_of(run) == result_of(finished)


def test_a_finished_run_is_only_evaluated_and_keeps_what_tune_chose(
    finished: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = copy_of(finished, tmp_path / "run")
    change_eval_settings(run, depth=3, temperature=0.5)
    no_step(monkeypatch)
    result = resume(run, QUIET)
    assert (result["depth"], result["temperature"], result["width"]) == (3, 0.5, 3)
    assert (result_of(run)["depth"], result_of(run)["temperature"]) == (3, 0.5)
    stored = read_json(run / "config.json")["recipe"]["eval"]
    assert (stored["depth"], stored["temperature"]) == (3, 0.5)
    assert lines_of(run) == lines_of(finished)


def test_a_folder_that_was_only_just_made_begins_the_run(recipe: Recipe, tmp_path: Path) -> None:
    run = tmp_path / "run"
    run.mkdir()
    (run / ".run.json.0123abcd").write_text("{")  # of a write that was killed
    with pytest.raises(GramError, match="is empty: give the recipe"):
        resume(run, QUIET)
    assert resume(run, QUIET, recipe)["train_steps"] == 6
    assert not list(run.glob(".*"))


def test_missing_checkpoints_are_named(finished: Path, recipe: Recipe, tmp_path: Path) -> None:
    run = copy_of(finished, tmp_path / "run")
    shutil.rmtree(run / CHECKPOINTS)
    with pytest.raises(GramError, match=r"checkpoints of .* are missing"):
        resume(run, QUIET)
    fresh = tmp_path / "fresh"
    begin_run(fresh, recipe)
    said = io.StringIO()
    resume(fresh, Console(file=said))
    assert "starting at step 0" in said.getvalue()


def test_two_processes_do_not_work_in_one_folder(finished: Path, recipe: Recipe, tmp_path: Path) -> None:
    run = copy_of(finished, tmp_path / "run")
    with locked(run):
        with pytest.raises(GramError, match="Another process is working"):
            resume(run, QUIET)
        (tmp_path / "new").mkdir()
    with locked(tmp_path / "new"), pytest.raises(GramError, match="Another process is working"):
        train(recipe, tmp_path / "new", QUIET)
    assert not list((tmp_path / "new").iterdir())


@pytest.mark.parametrize("part", ["header", "all"])
def test_no_flipped_bit_of_a_checkpoint_goes_unnoticed(finished: Path, tmp_path: Path, part: str) -> None:
    run = copy_of(finished, tmp_path / "run")
    last, before = checkpoints_of(run)
    whole = last.read_bytes()
    chance, seen = random.Random(part), 0
    size = 8 + int.from_bytes(whole[:8], "little") if part == "header" else len(whole)
    expected, earlier = load_checkpoint(run), load_file(before)
    assert expected is not None
    for _ in range(150):
        content = bytearray(whole)
        content[chance.randrange(size)] ^= 1 << chance.randrange(8)
        last.write_bytes(content)
        found = load_checkpoint(run)
        assert found is not None
        tensors, other, problems = found
        if problems:
            seen += 1
            assert other["step"] == 4
            assert tensors.keys() == earlier.keys()
        else:  # a blank of the header's padding
            assert other == expected[1]
            assert all(torch.equal(tensors[name], expected[0][name]) for name in expected[0])
    assert seen > 140


def test_metrics_that_are_damaged_are_said_and_the_rest_is_kept(finished: Path, tmp_path: Path) -> None:
    run = copy_of(finished, tmp_path / "run")
    path = run / "metrics.jsonl"
    content = path.read_bytes()
    path.write_bytes(content.replace(b'"step": 2,', b'"step": \xff,', 1))
    said = io.StringIO()
    resume(run, Console(file=said, width=200))
    assert "metrics.jsonl is damaged: 1 of its" in said.getvalue()
    assert [line["step"] for line in lines_of(run)] == [4, 4, 6, 6]
    path.write_bytes(content.replace(b'"loss": 1.', b'"loss": 2.', 1) if b'"loss": 1.' in content else content[::-1])
    resume(run, Console(file=said, width=200))
    assert said.getvalue().count("metrics.jsonl is damaged") == 2


def rows(count: int, answer: int) -> str:
    """`count` inputs of four tokens, each with one target."""
    inputs = [[1 + (i >> 6) % 4, 1 + (i >> 4) % 4, 1 + (i >> 2) % 4, 1 + i % 4] for i in range(count)]
    return "".join(json.dumps({"input": row, "target": [answer, *row[1:]]}) + "\n" for row in inputs)


def test_data_that_has_changed_is_refused(queens_recipe: RecipeBuilder, tmp_path: Path) -> None:
    data, run = tmp_path / "data.jsonl", tmp_path / "run"
    data.write_text(rows(80, 1))
    recipe = queens_recipe(task={"name": "tokens", "options": {"path": str(data)}}, train={"threads": 1})
    train(recipe, run, QUIET)
    assert read_json(run / "config.json")["split_hash"] == read_json(run / "run.json")["split_hash"]
    data.write_text(rows(80, 2))
    with pytest.raises(GramError, match=r"data has changed since .* --allow-other-data"):
        resume(run, QUIET)
    assert resume(run, QUIET, allow_other_data=True)["train_steps"] == 4
    data.write_text(rows(81, 1))
    with pytest.raises(GramError, match=r"there are \d+ now: start a new run"):
        resume(run, QUIET, allow_other_data=True)
