"""Figures: boards over the steps of several trajectories, and how many solutions the inputs of a task have."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

import matplotlib

matplotlib.use("Agg")  # draws to files: no screen is needed

import numpy as np
from matplotlib import pyplot as plt

from gram.tasks.base import Examples, Task, Tokens

if TYPE_CHECKING:
    from gram.solver import Result


def trajectories_figure(result: "Result", path: Path, *, trajectories: int = 4, columns: int = 7) -> None:
    """Draw the decoded boards over the supervision steps, one row per trajectory, with different ends if possible."""
    history = result.trajectories.step_outputs
    if history is None:
        raise ValueError("solve with keep_steps=True to draw the steps")
    chosen = _different_ends(result, trajectories)
    shown = np.unique(np.linspace(0, history.shape[2] - 1, columns).round().astype(int))
    figure, grid = plt.subplots(
        len(chosen),
        len(shown) + 1,
        figsize=(1.7 * (len(shown) + 1), 1.9 * len(chosen)),
        squeeze=False,
        layout="constrained",
    )
    for row, trajectory in zip(grid, chosen, strict=True):
        result.task.draw(row[0], result.given, result.given)
        row[0].set_ylabel(f"trajectory {trajectory + 1}", fontsize=9)
        for axes, step in zip(row[1:], shown, strict=True):
            result.task.draw(axes, history[0, trajectory, step], result.given)
            axes.set_title(f"step {step + 1}", fontsize=9)
        row[0].set_title("input", fontsize=9)
        unverified = "not a solution" if result.task.has_rules else "not checked"
        row[-1].set_xlabel("verified" if result.valid[trajectory] else unverified, fontsize=9)
    figure.suptitle(
        f"{result.task.name}: one input, {len(result.distinct)} distinct verified solutions in "
        f"{result.options.width} trajectories of {result.options.depth} steps (seed {result.options.seed})"
    )
    figure.savefig(path, dpi=110)
    plt.close(figure)


def _different_ends(result: "Result", count: int) -> list[int]:
    """Trajectories that end in different verified solutions first, then others."""
    outputs = result.trajectories.outputs[0]
    seen: set[bytes] = set()
    fresh = []
    for i in np.flatnonzero(result.valid).tolist():
        if outputs[i].tobytes() not in seen:
            seen.add(outputs[i].tobytes())
            fresh.append(i)
    others = [i for i in range(len(outputs)) if i not in fresh]
    return (fresh + others)[:count]


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
        axes.set(yscale="log", xlabel="number of solutions", ylabel="distinct inputs", title=f"{len(counts):,} inputs")
    figure.suptitle(task.name)
    figure.savefig(path, dpi=110)
    plt.close(figure)


def run_figure(lines: list[dict[str, Any]], title: str, path: Path) -> None:
    """The curves of a run from the lines of its metrics: losses, accuracies, and the ELBO beside the surrogate."""
    panels = {
        "loss per labelled token": ["reconstruction", *sorted(k for k in lines[0] if k.startswith("kl_"))],
        "share right": ["posterior_accuracy", "rollout_accuracy", *_validation_shares(lines)],
        "negative ELBO, validation": ["validation_negative_elbo", "validation_surrogate"],
    }
    figure, grid = plt.subplots(1, len(panels), figsize=(15, 4), layout="constrained")
    for axes, (label, names) in zip(grid, panels.items(), strict=True):
        for name in names:
            points = [(line["step"], line[name]) for line in lines if line.get(name) is not None]
            if points:
                axes.plot(*zip(*points, strict=True), label=name, marker="." if len(points) < 20 else "")
        axes.set(xlabel="optimiser step", ylabel=label)
        if axes.lines:
            axes.legend(fontsize=8)
    grid[0].set_yscale("log")
    figure.suptitle(title)
    figure.savefig(path, dpi=110)
    plt.close(figure)


def _validation_shares(lines: list[dict[str, Any]]) -> list[str]:
    names = dict.fromkeys(name for line in lines for name in line if name.startswith("validation_"))
    return [name for name in names if name not in ("validation_negative_elbo", "validation_surrogate")]


def calibration_figure(found: dict[str, Any], title: str, path: Path) -> None:
    """Draw what each head said against what was true, and its AUC after every step."""
    figure, (curve, auc) = plt.subplots(1, 2, figsize=(10, 4.4), layout="constrained")
    curve.plot([0, 1], [0, 1], color="grey", linewidth=0.8, label="perfect")
    for head, figures in found.items():
        points = figures["curve"]
        label = f"{head}: {figures['of']}"
        curve.plot([p["said"] for p in points], [p["true"] for p in points], marker="o", label=label)
        steps = [(step + 1, value) for step, value in enumerate(figures["auc_by_step"]) if value is not None]
        if steps:
            auc.plot(*zip(*steps, strict=True), marker=".", label=head)
    curve.set(xlabel="probability that the head gives", ylabel="share that is valid")
    auc.set(xlabel="supervision step", ylabel="AUC")
    for axes in (curve, auc):
        axes.legend(fontsize=8)
    figure.suptitle(title)
    figure.savefig(path, dpi=110)
    plt.close(figure)
