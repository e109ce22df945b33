"""What a figure is made of, and the figures of boards, images and latent states."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from matplotlib import pyplot as plt
from matplotlib.axes import Axes

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


@dataclass(frozen=True)
class Shown:
    """What a figure shows, and where it is written."""

    entry: Entry
    runs: Sequence[Run]
    results: Sequence[Result]
    path: Path
    digest: str
    """of everything that it shows"""

    @property
    def groups(self) -> dict[str, list[Result]]:
        """The results of every group that has some, in the order of the runs."""
        groups = dict.fromkeys(run.group for run in self.runs)
        every = {group: [result for result in self.results if result.run.group == group] for group in groups}
        return {group: results for group, results in every.items() if results}

    def panels(self, height: float) -> Iterator[tuple[Axes, str, list[Result]]]:
        """Yield a panel for every group, its name and its results; the figure is written after the last one."""
        with paper_figure(self.path, self.digest, panels=len(self.groups), height=height) as panels:
            for axes, (group, results) in zip(panels, self.groups.items(), strict=True):
                yield axes, group, results


def generation_process(shown: Shown) -> None:
    """A row for every sample of every model, a column for each of some steps, from t = 0 to the last."""
    results = shown.results
    rows = [(result, sample) for result in results for sample in range(len(result.metrics["frames"][0]["tokens"]))]
    columns = max(len(result.metrics["frames"]) for result in results)
    with plt.rc_context(STYLE):
        size = (CELL * columns + NAME, 0.9 * CELL * len(rows) + 0.3)
        figure, grid = plt.subplots(len(rows), columns, figsize=size, squeeze=False, layout="constrained")
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
        write_figure(figure, shown.path, shown.digest)


def trajectories(shown: Shown) -> None:
    """Latent states of every supervision step over the loss between them, a panel for every model."""
    with paper_figure(shown.path, shown.digest, panels=len(shown.results), height=0.85 * COLUMN) as panels:
        for axes, result in zip(panels, shown.results, strict=True):
            metrics = result.metrics
            draw_paths(axes, Paths(*(np.array(metrics[key]) for key in ("points", "losses", "valid", "explained"))))
            axes.set_title(f"{result.run.row}: {metrics['width']} x {metrics['depth']} steps", loc="left")
