"""Figures of boards, images and latent states, made of result files."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from matplotlib import pyplot as plt

from gram.config import load_recipe
from gram.experiments.entry import Entry, Run
from gram.experiments.results import Result
from gram.plots.latent import Paths, draw_paths
from gram.plots.paper import COLUMN, STYLE, paper_figure, write_figure
from gram.tasks import make_task

CELL = 0.72
"""Inches of one board or image."""
NAME = 0.95
"""Inches for the name of a model."""


def generation_process(entry: Entry, runs: Sequence[Run], results: Sequence[Result], path: Path, digest: str) -> None:
    """A row for every sample of every model, a column for each of some steps, from t = 0 to the last."""
    rows = [(result, sample) for result in results for sample in range(len(result.metrics["frames"][0]["tokens"]))]
    columns = max(len(result.metrics["frames"]) for result in results)
    with plt.rc_context(STYLE):
        figure, grid = plt.subplots(
            len(rows),
            columns,
            figsize=(CELL * columns + NAME, 0.9 * CELL * len(rows) + 0.3),
            squeeze=False,
            layout="constrained",
        )
        for line, (result, sample) in zip(grid, rows, strict=True):
            recipe = load_recipe(result.run.recipe)
            task = make_task(recipe.task.name, **recipe.task.options)
            frames = result.metrics["frames"]
            for axes in line:
                axes.set_axis_off()
            for axes, frame in zip(line[columns - len(frames) :], frames, strict=True):
                axes.set_axis_on()
                task.draw(axes, np.array(frame["tokens"][sample]))
                if sample == 0:
                    axes.set_title(f"t = {frame['step']}", fontsize=6, pad=2)
            if sample == 0:
                line[0].set_axis_on()
                line[0].set_ylabel(f"{result.run.row}\n{result.run.group}", rotation=0, ha="right", va="center")
                for side in line[0].spines.values():
                    side.set_visible(len(frames) == columns)
                line[0].set(xticks=[], yticks=[])
        write_figure(figure, path, digest)


def trajectories(entry: Entry, runs: Sequence[Run], results: Sequence[Result], path: Path, digest: str) -> None:
    """Latent states of every supervision step over the loss between them, a panel for every model."""
    with paper_figure(path, digest, panels=len(results), height=0.85 * COLUMN) as panels:
        for axes, result in zip(panels, results, strict=True):
            metrics = result.metrics
            paths = Paths(
                np.array(metrics["points"]),
                np.array(metrics["losses"]),
                np.array(metrics["valid"]),
                np.array(metrics["explained"]),
            )
            draw_paths(axes, paths)
            axes.set_title(f"{result.run.row}: {metrics['width']} x {metrics['depth']} steps", loc="left")
