"""Plugins: rules, renderings and inputs of somebody else's task."""

from importlib import metadata
from pathlib import Path

import numpy as np
import pytest

from gram.config import load_recipe
from gram.errors import GramError
from gram.tasks.tokens.task import TokenFile
from tests.tasks.tokens.helpers import SPLITS

ROOT = Path(__file__).parents[3]
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
        ("verify = 5", "defines none of verify, render, parse, constraints, symbols"),
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
