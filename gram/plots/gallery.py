"""Figures of generated samples: a sheet of them, and how they are generated step by step."""

import math
from pathlib import Path
from typing import Any

from matplotlib import pyplot as plt
from matplotlib.animation import FuncAnimation, PillowWriter
from matplotlib.figure import Figure
from numpy.typing import NDArray

from gram.inference.sample import Trajectories
from gram.plots.style import TITLE_SIZE, changing_steps, put_title, save_figure, step_titles, title_lines
from gram.tasks.base import Task, Tokens

MOST_COLUMNS = 10
LAST_FRAMES = 6
"""How often the finished samples are shown before the animation begins anew."""
NARROWEST = 4.0
"""Inches that a title needs, however few the samples are."""
LABEL = 1.6
"""Inches to the left of rows that have labels."""


def sheet_figure(task: Task, samples: Tokens, title: str, path: Path) -> None:
    """Draw samples [count, length] beside and below each other."""
    columns = min(MOST_COLUMNS, math.ceil(math.sqrt(len(samples))))
    figure, axes = _grid(math.ceil(len(samples) / columns), columns, len(samples), title)
    for place, tokens in zip(axes.flat, samples, strict=False):
        task.draw(place, tokens)
    save_figure(figure, path, title)


def rows_figure(task: Task, rows: list[tuple[str, Tokens]], title: str, path: Path) -> None:
    """Draw samples [count, length] of several models, a row for each, under their labels."""
    columns = max(len(samples) for _, samples in rows)
    figure, axes = _grid(len(rows), columns, len(rows) * columns, title, left=LABEL)
    for line, (label, samples) in zip(axes, rows, strict=True):
        for place, tokens in zip(line, samples, strict=False):
            task.draw(place, tokens)
        line[0].set_ylabel(label, rotation=0, ha="right", va="center", fontsize=9)
    save_figure(figure, path, title)


def process_figure(task: Task, trajectories: Trajectories, title: str, path: Path) -> None:
    """Draw how a few samples are generated: a row per sample, a column per step that changes one (at most ten).

    The trajectories of one input must have kept their steps.
    """
    outputs: Tokens = trajectories.history[0][0]  # [samples, steps, length]
    steps = changing_steps(outputs, MOST_COLUMNS)
    figure, axes = _grid(len(outputs), len(steps), outputs.size, title)
    for row, boards in zip(axes, outputs, strict=True):
        for place, step in zip(row, steps, strict=True):
            task.draw(place, boards[step])
    for place, text in zip(axes[0], step_titles(steps, outputs.shape[1]), strict=True):
        place.set_title(text, fontsize=9)
    save_figure(figure, path, title)


def process_animation(task: Task, trajectories: Trajectories, title: str, path: Path) -> None:
    """Write a GIF in which all samples are generated together, one frame per step."""
    outputs: Tokens = trajectories.history[0][0]  # [samples, steps, length]
    columns = min(MOST_COLUMNS, math.ceil(math.sqrt(len(outputs))))
    figure, axes = _grid(math.ceil(len(outputs) / columns), columns, len(outputs), f"{title}: step 00 of 00")
    steps = outputs.shape[1]

    def draw(frame: int) -> list[object]:
        step = min(frame, steps - 1)
        for place, boards in zip(axes.flat, outputs, strict=False):
            place.clear()
            task.draw(place, boards[step])
        put_title(figure, f"{title}: step {step + 1} of {steps}")
        return []

    moving = FuncAnimation(figure, draw, frames=steps + LAST_FRAMES, init_func=lambda: [])  # type: ignore[arg-type]
    moving.save(path, writer=PillowWriter(fps=4), dpi=160)
    plt.close(figure)


def _grid(rows: int, columns: int, used: int, title: str, *, left: float = 0.0) -> tuple[Figure, NDArray[Any]]:
    """Square places in rows and columns under a title, with room (inches) to the left; empty places are not seen."""
    width = max(1.3 * columns + left, NARROWEST)
    above = 0.25 + 1.2 * TITLE_SIZE / 72 * len(title_lines(title, width))
    height = 1.3 * rows + above
    figure, axes = plt.subplots(rows, columns, figsize=(width, height), squeeze=False)
    margin = (width - left - 1.3 * columns) / 2 / width + 0.02
    figure.subplots_adjust(left / width + margin, 0.02, 1 - margin, 1 - above / height, wspace=0.08, hspace=0.08)
    for place in axes.flat[used:]:
        place.axis("off")
    return figure, axes
