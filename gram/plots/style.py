"""What all figures share: they are drawn without a screen, their titles fit, and their numbers are plain."""

import textwrap
from pathlib import Path

import matplotlib
from matplotlib import pyplot as plt
from matplotlib.figure import Figure
from matplotlib.ticker import StrMethodFormatter

PLAIN_NUMBERS = StrMethodFormatter("{x:,g}")
"""Ticks of a logarithmic axis: 100 instead of 10^2."""
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


def without_screen() -> None:
    """Draw to files only; a notebook keeps the backend that it has chosen."""
    if not matplotlib.get_backend().lower().startswith("module://"):
        matplotlib.use("Agg")


without_screen()
