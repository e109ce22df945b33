"""docs/paper-settings.md and the recipes at the paper's size say the same, value by value."""

import re
from pathlib import Path
from typing import Any

import pytest
import torch
import yaml
from omegaconf import OmegaConf

from gram.config import Recipe, SampleOptions, load_recipe
from gram.models.reasoner import Reasoner
from gram.tasks import make_task

ROOT = Path(__file__).parents[1]
RECIPES = ROOT / "gram" / "recipes"
Table = list[dict[str, str]]


def read_tables(text: str) -> list[Table]:
    """Every table of a Markdown text, as rows by column; backticks are left out, and `\\|` is no border."""
    tables: list[Table] = []
    columns: list[str] = []
    for line in text.splitlines():
        if not line.startswith("|"):
            columns = []
            continue
        cells = [cell.strip(" `") for cell in re.split(r"(?<!\\)\|", line)[1:-1]]
        if not columns:
            columns = cells
            tables.append([])
        elif set(line) - set("|-"):
            tables[-1].append(dict(zip(columns, cells, strict=True)))
    return tables


SHARED, BY_TASK, TASK_ROWS, BASELINES, BASELINE_ROWS = read_tables((ROOT / "docs" / "paper-settings.md").read_text())
TASKS = {row["recipe"]: row for row in BY_TASK}
PAIRS = [(row["base"], task) for row in BASELINES for task in row["tasks"].split(", ")]


def value_of(cell: str) -> Any:
    """What a recipe would read: `1.0e-4` is a number, `[0.9, 0.95]` a list."""
    return yaml.safe_load(cell)


def number(cell: str) -> float:
    return float(cell.replace(",", "").rstrip("M"))


def setting_of(recipe: Recipe, key: str) -> Any:
    """The value of a dotted key of a recipe."""
    found: Any = recipe.model_dump(mode="json")
    for part in key.split("."):
        found = found[part]
    return found


def given_settings(recipe: Recipe) -> set[str]:
    """Dotted keys that the recipe's files set, rather than leave to a default."""
    sections = {name: getattr(recipe, name) for name in ("model", "objective", "train")}
    keys = {f"{name}.{key}" for name, section in sections.items() for key in section.model_fields_set}
    keys |= {f"eval.{key}" for key, value in vars(SampleOptions()).items() if getattr(recipe.eval, key) != value}
    return keys | {f"task.options.{key}" for key in recipe.task.options}


def documented(task: str) -> dict[str, Any]:
    """All settings of a task's gram-paper.yaml that the page names."""
    settings = {row["setting"]: value_of(row["ours"]) for row in SHARED}
    settings |= {key: value_of(cell) for key, cell in TASKS[task].items() if "." in key}
    return settings | {row["setting"]: value_of(row["ours"]) for row in TASK_ROWS if row["recipe"] == task}


def parameters(recipe: Recipe) -> float:
    task = make_task(recipe.task.name, **recipe.task.options)
    with torch.device("meta"):
        return Reasoner(recipe.model, vocab_size=task.vocab_size, length=task.length).parameter_count


def test_every_task_of_the_paper_has_a_recipe_and_a_row() -> None:
    assert {path.parent.name for path in RECIPES.glob("*/gram-paper.yaml")} == set(TASKS)
    assert {row["recipe"] for row in TASK_ROWS} <= set(TASKS)


@pytest.mark.parametrize("task", TASKS)
def test_a_recipe_has_the_values_of_the_page_and_no_others(task: str) -> None:
    recipe, settings = load_recipe(RECIPES / task / "gram-paper.yaml"), documented(task)
    assert {key: setting_of(recipe, key) for key in settings} == settings
    assert given_settings(recipe) <= settings.keys()  # what is set is explained


@pytest.mark.parametrize("task", TASKS)
def test_steps_are_epochs_of_the_examples_and_betas_are_in_the_stated_units(task: str) -> None:
    row, recipe = TASKS[task], load_recipe(RECIPES / task / "gram-paper.yaml")
    assert recipe.train.steps == round(number(row["epochs"]) * number(row["examples"]) / recipe.train.slots)
    if row["labelled tokens"] != "varies":
        expected = recipe.objective.beta * number(row["labelled tokens"])
        assert number(row["beta per labelled token"]) == pytest.approx(expected, abs=0.005)


@pytest.mark.parametrize("task", ["nqueens-8", "nqueens-10"])
def test_the_examples_are_the_whole_training_split(task: str) -> None:
    recipe = load_recipe(RECIPES / task / "gram-paper.yaml")
    made = make_task(recipe.task.name, **recipe.task.options)
    assert len(made.split("train")) == number(TASKS[task]["examples"])
    assert made.length == number(TASKS[task]["labelled tokens"])
    assert not len(made.split("validation"))


@pytest.mark.parametrize("task", [task for task in TASKS if not task.startswith(("sudoku", "mnist"))])
def test_gram_with_attention_has_the_papers_size(task: str) -> None:
    assert parameters(load_recipe(RECIPES / task / "gram-paper.yaml")) == pytest.approx(10e6, rel=0.01)


def test_every_cell_of_the_papers_tables_has_a_recipe() -> None:
    bases = {row["base"] for row in BASELINES}
    found = {(path.stem.removesuffix("-paper"), path.parent.name) for path in RECIPES.glob("*/*-paper.yaml")}
    assert {(name, task) for name, task in found if name in bases} == set(PAIRS)
    assert bases == {row["base"] for row in BASELINE_ROWS}


@pytest.mark.parametrize("base", [row["base"] for row in BASELINES])
def test_a_baseline_differs_in_what_the_page_says(base: str) -> None:
    content = OmegaConf.to_container(OmegaConf.load(RECIPES / "paper" / f"{base}.yaml"))
    assert isinstance(content, dict)
    content.pop("base", None)
    changes = {f"{section}.{key}": value for section, part in content.items() for key, value in part.items()}
    assert changes == {row["setting"]: value_of(row["ours"]) for row in BASELINE_ROWS if row["base"] == base}


@pytest.mark.parametrize(("base", "task"), PAIRS)
def test_a_baseline_is_the_tasks_recipe_at_the_size_of_the_page(base: str, task: str) -> None:
    recipe, gram = (load_recipe(RECIPES / task / f"{name}-paper.yaml") for name in (base, "gram"))
    assert recipe.task == gram.task
    assert recipe.model.guidance == "none"
    steps = 260_417 if (base, task) == ("looped", "sudoku-extreme") else gram.train.steps
    changed = {"steps": steps, "halt_in_training": recipe.train.halt_in_training}
    assert recipe.train == gram.train.model_copy(update=changed)
    size = next(number(row["ours"]) for row in BASELINES if row["base"] == base)
    size = {("trm", "sudoku-extreme"): 5.0, ("trm", "mnist"): 9.0}.get((base, task), size)
    assert parameters(recipe) / 1e6 == pytest.approx(size, abs=0.06)
    if base == "looped":
        assert recipe.model.low_steps == gram.model.low_steps + 1


def test_generative_baselines_are_trained_like_the_others() -> None:
    paths = [
        path
        for name in ("ar-paper", "mdlm-paper", "d3pm-*-big", "d3pm-*-small")
        for path in RECIPES.glob(f"*/{name}.yaml")
    ]
    assert len(paths) == 2 * 4 + 2 * 2
    for path in paths:
        recipe, gram = load_recipe(path), load_recipe(path.parent / "gram-paper.yaml")
        assert recipe.model.kind == path.stem.partition("-")[0]
        assert (recipe.train.weight_decay, recipe.train.lr_final) == (1.0, 1.0)
        assert (recipe.task, recipe.train) == (gram.task, gram.train)
