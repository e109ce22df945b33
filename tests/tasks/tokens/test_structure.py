"""Constraints and symbols that a plugin declares, for networks that build them in."""

import io
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from rich.console import Console

import gram
from gram.config import Recipe
from gram.errors import GramError
from gram.tasks.base import Structure
from gram.tasks.tokens.plugin import Plugin
from gram.tasks.tokens.task import TokenFile
from gram.training.loop import train

BUILT_IN = {"mixing": "constraints", "symbols": True, "positions": "none"}
ROWS = [[0, 0, 0, 1, 1, 1, 2, 2, 2], [0, 1, 2, 0, 1, 2, 0, 1, 2]]


def test_the_plugin_of_the_documentation_declares_its_structure(latin_folder: Path) -> None:
    path = str(latin_folder / "latin.jsonl")
    task = TokenFile(path=path, plugin=str(latin_folder / "latin.py"))
    assert task.structure == Structure({"row": ROWS[0], "column": ROWS[1]}, [2, 3, 4])
    assert TokenFile(path=path).structure == Structure({}, [])


@pytest.mark.parametrize(
    ("declaration", "message"),
    [
        ("constraints = [[0, 0, 1]]", "constraints must map each kind of sets to a list of numbers"),
        ("constraints = {'row': [0, 1]}", r"constraints\['row'\] must be 3 numbers from 0"),
        ("constraints = {'row': [0, 1, -1]}", r"constraints\['row'\] must be 3 numbers from 0"),
        ("constraints = {'row': [0, 1, 0.5]}", r"constraints\['row'\] must be an array of whole numbers, not float64"),
        ("constraints = {'row': None}", r"constraints\['row'\] must be an array of whole numbers, not object"),
        ("symbols = [3, 29]", r"symbols must be two or more different tokens from 0 to 28, not \[3, 29\]"),
        ("symbols = [3, 3]", "symbols must be two or more different tokens"),
        ("symbols = 3", "symbols must be two or more different tokens"),
        ("symbols = 'abc'", "symbols must be an array of whole numbers"),
    ],
)
def test_a_wrong_declaration_is_one_sentence(counted: str, tmp_path: Path, declaration: str, message: str) -> None:
    (tmp_path / "wrong.py").write_text(declaration)
    with pytest.raises(GramError, match=rf"^The plugin \S+wrong.py has a wrong declaration: {message}.*\.$"):
        TokenFile(path=counted, plugin=str(tmp_path / "wrong.py"))


def test_a_plugin_may_declare_one_thing_only(tmp_path: Path) -> None:
    (tmp_path / "one.py").write_text("import numpy\nsymbols = numpy.array([2, 3])")
    plugin = Plugin(str(tmp_path / "one.py"))
    assert plugin.structure(length=5, vocab_size=4) == Structure({}, [2, 3])
    assert not plugin.has("verify")


def test_a_model_keeps_the_structure_and_loads_without_the_plugin(
    latin_folder: Path, queens_recipe: Callable[..., Recipe], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    data, marker = str(latin_folder / "latin.jsonl"), tmp_path / "marker"
    spy = f"\nfrom pathlib import Path\nPath({str(marker)!r}).touch()\n"
    (tmp_path / "spy.py").write_text((latin_folder / "latin.py").read_text() + spy)
    options = {"path": data, "plugin": "spy.py"}
    model = {**BUILT_IN, "guidance": "none"}
    recipe = queens_recipe(
        task={"name": "tokens", "options": options}, model=model, objective={"prior_share": 0.0}, train={"threads": 1}
    )
    train(recipe, tmp_path / "run", Console(file=io.StringIO()))
    assert marker.exists()
    marker.unlink()

    solver = gram.load("run")
    puzzle, renamed = np.array([1, 2, 1, 1, 1, 3, 1, 1, 1]), np.array([0, 1, 3, 4, 2])
    answers = [solver.solve(some, width=1).trajectories.outputs for some in (puzzle, renamed[puzzle])]
    assert np.array_equal(renamed[answers[0]], answers[1])  # what a network without symbols would not do
    assert not marker.exists()
    assert dict(solver.model.structure.constraints) == {"row": ROWS[0], "column": ROWS[1]}
    assert list(solver.model.structure.symbols) == [2, 3, 4]

    (tmp_path / "spy.py").unlink()
    solved = gram.load("run", plugin=str(latin_folder / "latin.py")).solve(puzzle, width=1)
    assert np.array_equal(solved.trajectories.outputs, answers[0])
