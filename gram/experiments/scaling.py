"""Accuracy over depth x width for every selection rule, each smaller setting from the trajectories of a larger one."""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from rich.console import Console

from gram.errors import GramError
from gram.evaluation.evaluate import score
from gram.evaluation.metrics import list_solutions, measure
from gram.inference.sample import Trajectories, sample_depths, sharing_depths
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
