"""Common style of all figures: no screen, titles that fit, and plain numbers."""

import textwrap
from pathlib import Path

import matplotlib
import numpy as np
from matplotlib import pyplot as plt
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import StrMethodFormatter

from gram.tasks.base import Tokens

PLAIN_NUMBERS = StrMethodFormatter("{x:,g}")
"""Ticks of a logarithmic axis: 100 instead of 10^2."""
STYLES = ("-", "--", ":", "-.")
"""Of lines that must be told apart without colours."""
TITLE_SIZE = 11
"""Points."""


def save_figure(figure: Figure, path: Path | None, title: str) -> Figure:
    """Give the figure a title that fits its width, write it to `path` if there is one, and close it."""
    put_title(figure, title)
    if path is not None:
        figure.savefig(path, dpi=110)
    plt.close(figure)
    return figure


def put_title(figure: Figure, title: str) -> None:
    """Put a title above everything else, broken into lines that fit the figure."""
    figure.suptitle("\n".join(title_lines(title, figure.get_figwidth())), fontsize=TITLE_SIZE, wrap=False)


def title_lines(title: str, width: float) -> list[str]:
    """Break a title into lines that fit `width` inches."""
    return textwrap.wrap(title, max(20, int(72 * width / (0.58 * TITLE_SIZE))))


def log_axis(axes: Axes, which: str, base: int = 10) -> None:
    """Make an axis logarithmic with plain numbers."""
    set_scale, axis = (axes.set_xscale, axes.xaxis) if which == "x" else (axes.set_yscale, axes.yaxis)
    set_scale("log", base=base)
    axis.set_major_formatter(PLAIN_NUMBERS)


def changing_steps(history: Tokens, most: int) -> list[int]:
    """Return at most `most` steps at which a board of history [trajectories, steps, length] changes, and the first."""
    changed = 1 + np.flatnonzero((history[:, 1:] != history[:, :-1]).any(axis=(0, 2)))
    steps = np.concatenate([[0], changed])
    places = np.unique(np.linspace(0, len(steps) - 1, most).round().astype(int))
    return [int(step) for step in steps[places]]


def step_titles(shown: list[int], steps: int) -> list[str]:
    """Return the titles of the columns of these steps; nothing changes from the last of them to the end."""
    last = [f"steps {shown[-1] + 1} to {steps}"] if shown[-1] + 1 < steps else [f"step {steps}"]
    return [f"step {step + 1}" for step in shown[:-1]] + last


def without_screen() -> None:
    """Draw to files only; a notebook keeps the backend that it has chosen."""
    if not matplotlib.get_backend().lower().startswith("module://"):
        matplotlib.use("Agg")


without_screen()
