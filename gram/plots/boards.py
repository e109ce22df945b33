"""Figures of boards: an answer, its trajectories over the steps, and examples of a task with their solution counts."""

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from matplotlib import pyplot as plt
from matplotlib.figure import Figure

from gram.plots.style import changing_steps, log_axis, save_figure, step_titles
from gram.tasks.base import Examples, Task, Tokens

if TYPE_CHECKING:
    from gram.result import Result

MOST_BOARDS = 6
"""Distinct solutions in a figure."""
MOST_TRAJECTORIES, MOST_STEPS = 4, 7
"""Rows and columns of a figure of trajectories."""


def result_figure(result: "Result", path: Path | None) -> Figure:
    """Draw the boards over the steps if the result has kept them, else its distinct solutions (or its best guess)."""
    if result.trajectories.step_outputs is not None:
        return trajectories_figure(result, path)
    solutions = result.distinct[:MOST_BOARDS]
    boards = [("input", result.given), *((f"solution {n + 1}", board) for n, board in enumerate(solutions))]
    if not result.verified:
        boards.append(("not a solution", result.best))
    figure, (row,) = plt.subplots(
        1, len(boards), figsize=(max(1.7 * len(boards), 5), 2.4), squeeze=False, layout="constrained"
    )
    for axes, (title, board) in zip(row, boards, strict=True):
        result.task.draw(axes, board, result.given)
        axes.set_title(title, fontsize=9)
    return save_figure(figure, path, _summary(result))


def trajectories_figure(result: "Result", path: Path | None) -> Figure:
    """Draw the decoded boards over the supervision steps, one row per trajectory, with different ends if possible.

    Steps at which no board changes are left out.
    """
    history = result.trajectories.history[0]
    chosen = _different_ends(result, MOST_TRAJECTORIES)
    shown = changing_steps(history[0, chosen], MOST_STEPS)
    size = (max(1.7 * (len(shown) + 1), 6), 1.9 * len(chosen) + 0.4)
    figure, grid = plt.subplots(len(chosen), len(shown) + 1, figsize=size, squeeze=False, layout="constrained")
    for row, trajectory in zip(grid, chosen, strict=True):
        result.task.draw(row[0], result.given, result.given)
        row[0].set_ylabel(f"trajectory {trajectory + 1}", fontsize=9)
        for axes, step in zip(row[1:], shown, strict=True):
            result.task.draw(axes, history[0, trajectory, step], result.given)
        for axes, title in zip(row, ["input", *step_titles(shown, history.shape[2])], strict=True):
            axes.set_title(title, fontsize=9)
        unverified = "not a solution" if result.task.has_rules else "not checked"
        row[-1].set_xlabel("verified" if result.valid[trajectory] else unverified, fontsize=9)
    return save_figure(figure, path, _summary(result))


def _summary(result: "Result") -> str:
    count = len(result.distinct)
    return (
        f"{result.task.name}: one input, {count} distinct verified solution{'s' * (count != 1)} in "
        f"{result.options.width} trajectories of {result.options.depth} steps (seed {result.options.seed})"
    )


def _different_ends(result: "Result", count: int) -> list[int]:
    """Trajectories that end in different verified solutions first, then others."""
    valid = np.flatnonzero(result.valid)
    _, first = np.unique(result.trajectories.outputs[0][valid], axis=0, return_index=True)
    fresh = valid[np.sort(first)]
    others = np.setdiff1d(np.arange(len(result.valid)), fresh)
    return [*fresh.tolist(), *others.tolist()][:count]


def data_figure(task: Task, examples: Examples, shown: int, counts: Tokens | None, path: Path) -> None:
    """Draw `shown` inputs above their targets, and beside them how many solutions inputs have [inputs], if known."""
    figure = plt.figure(figsize=(2 * shown + (4.5 if counts is not None else 0), 4.3), layout="constrained")
    widths = [2 * shown, 4.5] if counts is not None else [1]
    parts = figure.subfigures(1, len(widths), width_ratios=widths, squeeze=False)[0]
    grid = parts[0].subplots(2, shown, squeeze=False)
    for row, column in enumerate(grid.T):
        given = examples.inputs[row]
        for axes, tokens, title in zip(column, (given, examples.targets[row]), ("input", "target"), strict=True):
            task.draw(axes, tokens, given)
            axes.set_title(title, fontsize=9)
    if counts is not None:
        axes = parts[1].subplots()
        values, frequency = np.unique(counts, return_counts=True)
        axes.bar(values, frequency, width=0.9, color="#3366aa")
        axes.set(xlabel="number of solutions", ylabel="distinct inputs", title=f"{len(counts):,} inputs")
        log_axis(axes, "y")
    save_figure(figure, path, task.name)
