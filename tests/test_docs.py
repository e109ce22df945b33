"""The site names every page, its notebooks are complete, and the examples of the guides work."""

import json
import re
import sys
import textwrap
import tomllib
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml

import gram
from gram.cli.app import main
from gram.tasks import make_task

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
SITE = yaml.safe_load((ROOT / "mkdocs.yml").read_text())
NOTEBOOKS = sorted((DOCS / "notebooks").glob("*.ipynb"))
GENERATED = {"index", "recipes", "models", "commands", "contributing", "changelog", "security"}


def pages(nav: list[Any]) -> list[str]:
    """Every page that the navigation names."""
    entries = [next(iter(entry.values())) for entry in nav]
    return [page for entry in entries for page in (pages(entry) if isinstance(entry, list) else [entry])]


def test_the_navigation_names_every_page_once() -> None:
    named = pages(SITE["nav"])
    files = {path.relative_to(DOCS).as_posix() for kind in ("md", "ipynb") for path in DOCS.rglob(f"*.{kind}")}
    assert len(named) == len(set(named))
    assert set(named) == files | {f"{name}.md" for name in GENERATED}


@pytest.mark.parametrize("path", [*ROOT.glob("*.md"), *DOCS.rglob("*.md")], ids=lambda path: path.name)
def test_lists_are_written_as_the_site_needs_them(path: Path) -> None:
    text = re.sub(r"^( *)```.*?^\1```$", r"\1```", path.read_text(), flags=re.DOTALL | re.MULTILINE)
    item = r"(?:[*-]|\d+\.) "
    nested = re.findall(rf"^ {{1,3}}(?:{item}|```).*$", text, flags=re.MULTILINE)
    assert not nested, "what belongs to an item is indented by four spaces"
    joined = re.findall(rf"^(?!\s|{item}|$).*\n{item}.*$", text, flags=re.MULTILINE)
    assert not joined, "a list begins after an empty line"


def test_the_build_is_strict_and_runs_the_notebooks() -> None:
    (notebooks,) = [plugin["mkdocs-jupyter"] for plugin in SITE["plugins"] if "mkdocs-jupyter" in plugin]
    assert SITE["strict"]
    assert notebooks["execute"]
    assert not notebooks["allow_errors"]
    assert not notebooks["cache"]
    assert "make docs" in (ROOT / ".ci" / "run").read_text().splitlines()


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_is_small_and_was_run_from_top_to_bottom(path: Path) -> None:
    assert path.stat().st_size < 400_000
    cells = [cell for cell in json.loads(path.read_text())["cells"] if cell["cell_type"] == "code"]
    assert [cell["execution_count"] for cell in cells] == list(range(1, len(cells) + 1))
    outputs = [output for cell in cells for output in cell["outputs"]]
    assert not [output for output in outputs if output["output_type"] == "error" or output.get("name") == "stderr"]
    assert any("image/png" in output.get("data", {}) for output in outputs)
    assert not re.search(r"/(home|root|work|tmp|Users)/", json.dumps(outputs))


@pytest.fixture
def table_package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The model of docs/add-a-model.md as an installed package, and its recipe."""
    text = (DOCS / "add-a-model.md").read_text()
    (code,) = re.findall(r"```python\n(.*?)```", text, flags=re.DOTALL)
    (package,) = re.findall(r"```toml\n(.*?)```", text, flags=re.DOTALL)
    (recipe,) = re.findall(r"```yaml\n(task:.*?)```", text, flags=re.DOTALL)
    (tmp_path / "table.py").write_text(code)
    project = tomllib.loads(package)["project"]
    about = tmp_path / f"{project['name']}-{project['version']}.dist-info"
    about.mkdir()
    (about / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {project['name']}\nVersion: {project['version']}\n")
    points = [f"{name} = {target}" for name, target in project["entry-points"]["gram.models"].items()]
    (about / "entry_points.txt").write_text("\n".join(["[gram.models]", *points]))
    (tmp_path / "table.yaml").write_text(recipe)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "table", raising=False)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_the_model_of_the_guide_trains_and_samples(table_package: Path) -> None:
    solver = gram.train(
        "table.yaml",
        out="runs/table",
        overrides=["task.options.size=4", "train.steps=60", "train.lr=0.3", "train.warmup=0", "eval.width=4"],
        quiet=True,
    )
    lines = [json.loads(line) for line in Path("runs/table/metrics.jsonl").read_text().splitlines()]
    losses = [line["nats"] for line in lines if "nats" in line]
    assert losses[-1] < 0.9 * 16 * np.log(3)  # what a uniform guess at three tokens costs
    result = solver.solve(".Q.. / .... / .... / ....", width=4)
    assert result.trajectories.outputs.shape == (1, 4, 16)


def test_the_task_of_the_guide_is_prepared_trained_and_solved(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any
) -> None:
    monkeypatch.chdir(tmp_path)
    text = (DOCS / "add-a-task.md").read_text()
    (code,) = re.findall(r"^```python\n(.*?)^```", text, flags=re.DOTALL | re.MULTILINE)
    (recipe,) = re.findall(r"^    ```yaml\n(.*?)^    ```", text, flags=re.DOTALL | re.MULTILINE)
    Path("mytask.py").write_text(code)
    Path("mine.yaml").write_text(textwrap.dedent(recipe))
    task = make_task("mytask.py:Latin", size=3, puzzles=200)
    parts = [{row.tobytes() for row in task.split(name).inputs} for name in ("train", "validation", "test")]
    assert all(parts)
    assert sum(map(len, parts)) == len(set().union(*parts))
    rows = task.split("train")
    assert task.verify(rows.inputs, rows.targets).valid.all()
    broken = rows.targets.copy()
    broken[:, 0] = broken[:, 1]
    assert not task.verify(rows.inputs, broken).valid.any()
    assert task.render(task.parse("12./.../..3")) == "1 2 .\n. . .\n. . 3"
    sets = task.structure.constraints
    assert (sets["row"][5], sets["column"][5], list(task.structure.symbols)) == (1, 2, [2, 3, 4])
    short = ["task.options.size=3", "task.options.puzzles=200", "train.steps=2", "train.slots=8"]
    small = ["train.test_inputs=2", "train.eval_inputs=2", "eval.width=2", "eval.depth=2"]
    monkeypatch.setattr("sys.argv", ["gram", "train", "mine.yaml", *short, *small])
    with pytest.raises(SystemExit) as done:
        main()
    out = capsys.readouterr()
    assert done.value.code in (None, 0), out.err
    assert "gram solve runs/mine PUZZLE --task mytask.py:Latin" in " ".join((out.out + out.err).split())
    solver = gram.load("runs/mine", task="mytask.py:Latin")
    assert "solution" in str(solver.solve("12./.../..3", width=2))


def test_the_fine_tuning_guide_starts_from_a_shipped_model(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any
) -> None:
    monkeypatch.chdir(tmp_path)
    (recipe,) = re.findall(r"```yaml\n(.*?)```", (DOCS / "fine-tune.md").read_text(), flags=re.DOTALL)
    Path("mine.yaml").write_text(recipe)
    rows = gram.load("nqueens-8").task.split("train")
    with Path("boards.jsonl").open("w") as file:
        for given, target in zip(rows.inputs[:60].tolist(), rows.targets[:60].tolist(), strict=True):
            file.write(json.dumps({"input": given, "target": target}) + "\n")
    short = ["train.steps=1", "train.slots=8", "train.eval_inputs=2", "eval.width=2", "eval.depth=2"]
    monkeypatch.setattr("sys.argv", ["gram", "train", "mine.yaml", "--from", "nqueens-8", "--out", "runs/m", *short])
    with pytest.raises(SystemExit) as done:
        main()
    assert done.value.code in (None, 0), capsys.readouterr().err
    assert gram.load("runs/m").model.parameter_count == gram.load("nqueens-8").model.parameter_count
