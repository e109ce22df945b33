"""Loading a model or a run executes no code that its folder names; a plugin runs if the user names it, and may fail."""

import io
import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from rich.console import Console

import gram
from gram.config import Recipe
from gram.errors import GramError
from gram.tasks.tokens.plugin import Plugin
from gram.tasks.tokens.task import TokenFile
from gram.training.loop import resume, train

QUIET = Console(file=io.StringIO())
SPY = """
from pathlib import Path

Path({marker!r}).write_text("it ran")


def verify(inputs, outputs):
    return outputs[:, 0] >= 0


def render(tokens):
    return "drawn by the plugin"
"""


@pytest.fixture(scope="module")
def work(tmp_path_factory: pytest.TempPathFactory, queens_recipe: Callable[..., Recipe]) -> Path:
    """A folder with data, a plugin that leaves a mark wherever it runs, and a run that was trained with both."""
    folder = tmp_path_factory.mktemp("plugin")
    rows = [{"input": [a, b, 3], "target": [b, a, 3]} for a in range(1, 9) for b in range(1, 9)]
    (folder / "data.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    (folder / "spy.py").write_text(SPY.format(marker=str(folder / "marker")))
    options = {"path": str(folder / "data.jsonl"), "plugin": str(folder / "spy.py"), "shape": [1, 3]}
    recipe = queens_recipe(task={"name": "tokens", "options": options}, train={"threads": 1})
    train(recipe, folder / "run", QUIET)
    return folder


@pytest.fixture
def marker(work: Path) -> Path:
    path = work / "marker"
    path.unlink(missing_ok=True)
    return path


def test_loading_a_model_runs_nothing(work: Path, marker: Path) -> None:
    solver = gram.load(work / "run")
    assert solver.task.render(np.array([1, 2, 3])) == "1 2 3"
    solver.check_data()
    assert not marker.exists()


def test_a_plugin_that_the_user_names_runs(work: Path, marker: Path) -> None:
    solver = gram.load(work / "run", plugin=str(work / "spy.py"))
    assert marker.exists()
    assert "drawn by the plugin" in str(solver.solve([1, 2, 3], width=2))


def test_a_model_loads_without_its_data_and_verifies_nothing(work: Path, marker: Path) -> None:
    data = work / "data.jsonl"
    data.rename(work / "away.jsonl")
    try:
        solver = gram.load(work / "run")
        result = solver.solve([1, 2, 3], width=2)
        assert (solver.task.vocab_size, solver.task.length, solver.task.shape) == (9, 3, (1, 3))  # type: ignore[attr-defined]
        assert not result.verified
        assert not result.valid.any()
        with pytest.raises(GramError, match="is missing"):
            solver.check_data()
        assert gram.load(work / "run", plugin=str(work / "spy.py")).solve([1, 2, 3], width=2).verified
    finally:
        (work / "away.jsonl").rename(data)


def test_resuming_runs_nothing_unless_it_is_named(work: Path, marker: Path) -> None:
    with pytest.raises(GramError, match="which is code: if you trust it, resume with --plugin"):
        resume(work / "run", QUIET)
    assert not marker.exists()
    assert resume(work / "run", QUIET, plugin=str(work / "spy.py"))["train_steps"] == 4
    assert marker.exists()


def test_data_that_changed_is_noticed_by_the_model(work: Path) -> None:
    data = work / "data.jsonl"
    whole = data.read_text()
    try:
        data.write_text(whole + json.dumps({"input": [3, 3, 8], "target": [3, 3, 8]}) + "\n")
        with pytest.raises(GramError, match="not what the model was trained on"):
            gram.load(work / "run").check_data()
    finally:
        data.write_text(whole)


@pytest.mark.parametrize("how", ["raise ValueError('no')", "raise SystemExit(0)", "1 / 0", "import nosuchmodule"])
def test_a_plugin_that_fails_is_one_sentence(tmp_path: Path, work: Path, how: str) -> None:
    path = tmp_path / "bad.py"
    path.write_text(how)
    with pytest.raises(GramError, match="cannot be loaded"):
        Plugin(str(path))
    path.write_text(f"def verify(inputs, outputs):\n    {how}\n\n\ndef parse(text):\n    {how}\n")
    task = TokenFile(path=str(work / "data.jsonl"), plugin=str(path))
    rows = task.split("test")
    with pytest.raises(GramError, match=r"Function verify of the plugin .* has failed"):
        task.verify(rows.inputs, rows.targets)
    with pytest.raises(GramError, match=r"Function parse of the plugin .* has failed"):
        task.parse("1 2 3")
