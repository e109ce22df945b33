"""Tasks outside the package: a file in a recipe, an installed entry point, and models that never run what they name."""

import io
from collections.abc import Callable
from importlib import metadata
from pathlib import Path

import pytest
from rich.console import Console

import gram
from gram.config import Recipe
from gram.errors import GramError
from gram.tasks import make_task
from gram.training.loop import resume, train

TASK = """
from pathlib import Path

from gram.tasks.nqueens import NQueens

Path("was-run").touch()


class Mine(NQueens):
    name = "mine"

    def __init__(self, size: int = 5) -> None:
        super().__init__(size=size)
        self.name = f"mine-{size}"


class Half:
    pass
"""


@pytest.fixture
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mytask.py").write_text(TASK)


@pytest.mark.usefixtures("_here")
def test_a_class_in_a_file_is_a_task() -> None:
    assert make_task("mytask.py:Mine", size=6).length == 36
    with pytest.raises(GramError, match=r"no option 'sise'\. Its options: size"):
        make_task("mytask.py:Mine", sise=6)


@pytest.mark.usefixtures("_here")
def test_what_is_no_task_is_one_clear_error(tmp_path: Path) -> None:
    (tmp_path / "broken.py").write_text("1 / 0")
    (tmp_path / "quits.py").write_text("raise SystemExit(3)")
    for name, message in (
        ("mytask.py:Half", "derives from gram.tasks.base.Task"),
        ("mytask.py:None_", "derives from"),
        ("nowhere.py:Mine", "There is no file"),
        ("broken.py:Mine", "ZeroDivisionError"),
        ("quits.py:Mine", "SystemExit"),
        ("mytask.py", "There is no task"),
    ):
        with pytest.raises(GramError, match=message):
            make_task(name)


def test_an_installed_task_is_found_by_name(monkeypatch: pytest.MonkeyPatch) -> None:
    entry = metadata.EntryPoint("queens", "gram.tasks.nqueens:NQueens", "gram.tasks")
    monkeypatch.setattr(metadata, "entry_points", lambda **_: metadata.EntryPoints([entry]))
    assert make_task("queens", size=6).name == "nqueens-6"


@pytest.mark.usefixtures("_here")
def test_a_model_never_runs_the_file_that_it_names(queens_recipe: Callable[..., Recipe], tmp_path: Path) -> None:
    recipe = queens_recipe(task={"name": "mytask.py:Mine", "options": {"size": 5}})
    train(recipe, tmp_path / "run", Console(file=io.StringIO()))
    proof = tmp_path / "was-run"
    proof.unlink()
    solver = gram.load(tmp_path / "run")
    result = solver.solve([1] * 25, width=2)
    assert not result.verified
    assert not proof.exists()
    with pytest.raises(GramError, match="outside the package"):
        resume(tmp_path / "run", Console(file=io.StringIO()))
    assert not proof.exists()

    own = gram.load(tmp_path / "run", task="mytask.py:Mine")
    assert proof.exists()
    assert own.task.name == "mine-5"
    assert own.evaluate("test", limit=2)["inputs"] == 2
    resume(tmp_path / "run", Console(file=io.StringIO()), recipe)  # the user's own recipe names it
