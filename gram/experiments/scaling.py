"""Accuracy over depth x width for every selection rule, each smaller setting from the trajectories of a larger one."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib import pyplot as plt
from matplotlib.figure import SubFigure
from matplotlib.ticker import MaxNLocator
from rich.console import Console

from gram.errors import GramError
from gram.evaluation.evaluate import score
from gram.evaluation.metrics import list_solutions, measure
from gram.inference.sample import Trajectories, sample_depths, sharing_depths
from gram.inference.select import RULES
from gram.plots.style import STYLES, log_axis, save_figure
from gram.progress import bar
from gram.solver import Solver
from gram.tasks.base import Distinct, Task, Tokens


def scaling_study(
    solver: Solver,
    depths: Sequence[int],
    widths: Sequence[int],
    console: Console,
    *,
    limit: int | None,
    split: Any = "test",
    seed: int = 0,
) -> dict[str, Any]:
    """Evaluate every depth and width on the trajectories of the largest ones.

    A depth has trajectories of its own where the temperature changes over the depth.
    """
    task = solver.task
    if task.scoring != "solutions":
        raise GramError(f"Task {task.name} has no accuracy and coverage to measure.")
    asked, model = task.split(split).distinct(limit), solver.reasoner
    options = replace(solver.options, width=max(widths), seed=seed)
    total = len(asked.rows) * options.width * len(sharing_depths(model, options, depths))
    with bar(console, "sampling", total) as advance:
        drawn = dict(sample_depths(model, asked.inputs, options, depths, puzzle_ids=asked.puzzle_ids, progress=advance))
    deepest = drawn[max(depths)]
    return {
        "task": task.name,
        "split": split,
        "split_hash": task.split_hash(),
        "inputs": len(asked.inputs),
        "seed": seed,
        "temperature": options.temperature,
        "temperature_final": options.temperature_final,
        "parameters": solver.model.parameter_count,
        "records": study(task, asked.inputs, drawn.items(), widths),
        "by_solutions": score(task, asked, deepest)["by_solutions"],
        "by_width": {width: _by_number(task, asked, deepest.select(np.s_[:, :width])) for width in widths},
    }


def study(
    task: Task, inputs: Tokens, drawn: Iterable[tuple[int, Trajectories]], widths: Sequence[int]
) -> list[dict[str, float | int | str]]:
    """Return one record per depth x width, given each depth's trajectories: accuracy by every rule, coverage."""
    solutions = [list_solutions(task, row) for row in inputs]
    records: list[dict[str, float | int | str]] = []
    for depth, found in drawn:
        for width in widths:
            here = measure(task, inputs, found.select(np.s_[:, :width]), solutions=solutions)
            accuracy: dict[str, float] = {rule: float(valid.mean()) for rule, valid in here.selected.items()}
            records.append({"depth": depth, "width": width, "coverage": float(here.coverage.mean()), **accuracy})
    return records


def _by_number(task: Task, asked: Distinct, found: Trajectories) -> list[dict[str, Any]]:
    """Accuracy and coverage, with intervals, by the number of solutions."""
    names = ("accuracy", "accuracy_all_samples", "coverage")
    return [
        {
            "solutions": line["solutions"],
            "inputs": line["inputs"],
            **{name: line[name] for name in (*names, "uniform_coverage")},
            "intervals": {name: line["intervals"][name] for name in names},
        }
        for line in score(task, asked, found)["by_solutions"]
    ]


def scaling_figure(studies: dict[str, dict[str, Any]], path: Path) -> None:
    """Above, one panel per rule: accuracy over depth, a line per model and width; below, coverage."""
    figure = plt.figure(figsize=(4 * len(RULES), 7.5), layout="constrained")
    above, below = figure.subfigures(2, 1, squeeze=False)[:, 0]
    rules = above.subplots(1, len(RULES), sharey=True)
    for axes, rule in zip(rules, RULES, strict=True):
        for number, (name, result) in enumerate(studies.items()):
            widths = sorted({record["width"] for record in result["records"]})
            shown = widths if rule != "first" and _width_matters(result) else widths[:1]
            for shade, width in enumerate(shown):
                line = [record for record in result["records"] if record["width"] == width]
                axes.plot(
                    [record["depth"] for record in line],
                    [100 * record[rule] for record in line],
                    STYLES[number % len(STYLES)],
                    color=plt.get_cmap("viridis")(0.9 * shade / max(1, len(widths) - 1)),
                    label=f"{Path(name).name}, width {width}" if len(shown) > 1 else Path(name).name,
                )
        log_axis(axes, "x", 2)
        axes.set(xlabel="supervision steps", ylabel="valid, %", title=f"selected by: {rule}")
        axes.label_outer()
    rules[0].set_ylim(top=101)
    rules[0].legend(fontsize=7)
    rules[-1].legend(fontsize=7)
    _coverage_panels(below, studies)
    first = next(iter(studies.values()))
    title = f"{first['task']}, {first['inputs']} inputs of the {first['split']} split, seed {first['seed']}"
    save_figure(figure, path, title)


def _width_matters(result: dict[str, Any]) -> bool:
    """Return whether the metrics depend on the width, which they do not for a deterministic model."""
    by_depth: dict[int, set[float]] = {}
    for record in result["records"]:
        by_depth.setdefault(record["depth"], set()).add(record["verified"])
    return any(len(figures) > 1 for figures in by_depth.values())


def _coverage_panels(part: SubFigure, studies: dict[str, dict[str, Any]]) -> None:
    panels: dict[str, Callable[[dict[str, Any]], tuple[list[Any], list[Any]]]] = {
        "coverage over width, at full depth": _coverage_over_width,
        "coverage by number of solutions": lambda result: _by_solutions(result, "coverage"),
        "accuracy by number of solutions": lambda result: _by_solutions(result, "accuracy_all_samples"),
    }
    for axes, (title, line) in zip(part.subplots(1, len(panels)), panels.items(), strict=True):
        for number, (name, result) in enumerate(studies.items()):
            x, y = line(result)
            axes.plot(x, y, STYLES[number % len(STYLES)], marker=".", label=Path(name).name)
        label = "width" if "width" in title else "solutions of the input"
        axes.set(title=title, ylabel="%", xlabel=label)
        axes.set_ylim(top=101)
        axes.xaxis.set_major_locator(MaxNLocator(integer=True))
        axes.legend(fontsize=8)


def _coverage_over_width(result: dict[str, Any]) -> tuple[list[Any], list[Any]]:
    deepest = max(record["depth"] for record in result["records"])
    line = [record for record in result["records"] if record["depth"] == deepest]
    return [record["width"] for record in line], [100 * record["coverage"] for record in line]


def _by_solutions(result: dict[str, Any], key: str) -> tuple[list[Any], list[Any]]:
    return [line["solutions"] for line in result["by_solutions"]], [100 * line[key] for line in result["by_solutions"]]
