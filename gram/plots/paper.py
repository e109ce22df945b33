"""Figures for a paper: readable at column width, in colours that colour-blind readers tell apart, PDF beside PNG."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib import pyplot as plt
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator
from numpy.typing import NDArray
from PIL import Image

from gram.plots.style import STYLES, without_screen

COLUMN = 3.4
"""Inches of one column of a paper with two."""
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000", "#8A8A8A")
"""Okabe and Ito's palette, without its yellow, which is too light for lines."""
MARKERS = ("o", "s", "^", "D", "v", "P", "X", "*")
STYLE: Any = {
    "font.size": 8,
    "axes.titlesize": 8,
    "axes.labelsize": 8,
    "xtick.labelsize": 7,
    "ytick.labelsize": 7,
    "legend.fontsize": 7,
    "legend.frameon": False,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.linewidth": 0.6,
    "lines.linewidth": 1.2,
    "lines.markersize": 3.5,
    "pdf.fonttype": 42,
}
DIGEST = "Description"
"""PNG's text that holds the digest of the data that a figure was drawn from."""


@dataclass(frozen=True)
class Bar:
    """One bar; the paper's own value is a line across its place."""

    label: str
    value: float | None
    interval: tuple[float, float] | None = None
    published: float | None = None
    apart: bool = False


@dataclass(frozen=True)
class Line:
    """One line of a plot, with a band where there is an interval."""

    label: str
    x: Sequence[float]
    y: Sequence[float]
    low: Sequence[float] | None = None
    high: Sequence[float] | None = None
    colour: int = 0
    style: int = 0


@contextmanager
def paper_figure(
    path: Path, digest: str, *, panels: int = 1, width: float | None = None, height: float = 2.2
) -> Iterator[NDArray[Any]]:
    """Yield the axes [panels] of a figure that is written to `path` (.png) and, as a vector, beside it (.pdf)."""
    without_screen()
    with plt.rc_context(STYLE):
        size = (width or COLUMN * panels, height)
        figure, row = plt.subplots(1, panels, figsize=size, squeeze=False, layout="constrained")
        yield row[0]
        write_figure(figure, path, digest)


def write_figure(figure: Figure, path: Path, digest: str) -> None:
    """Write .png and .pdf, without the date, so that the same data makes the same files."""
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path.with_suffix(".pdf"), metadata={"CreationDate": None, "Subject": digest})
    figure.savefig(path, dpi=200, metadata={DIGEST: digest, "Software": None})
    plt.close(figure)


def digest_of_figure(path: Path) -> str | None:
    """Return the digest of the data that a figure was drawn from; None if there is no such figure."""
    if not path.is_file() or not path.with_suffix(".pdf").is_file():
        return None
    with Image.open(path) as image:
        found = image.info.get(DIGEST)
    return None if found is None else str(found)


def draw_bars(axes: Axes, bars: Sequence[Bar], *, title: str, label: str) -> None:
    """Draw horizontal bars, so that long names fit, with intervals, values, and the paper's values as ticks."""
    places = np.arange(len(bars))[::-1]
    for place, bar in zip(places, bars, strict=True):
        colour = COLOURS[1] if bar.apart else COLOURS[0]
        if bar.value is not None:
            axes.barh(place, bar.value, height=0.62, color=colour, zorder=2)
            if bar.interval is not None:
                reach = [[max(0.0, bar.value - bar.interval[0])], [max(0.0, bar.interval[1] - bar.value)]]
                axes.errorbar(bar.value, place, xerr=reach, color="black", capsize=1.5, linewidth=0.7, zorder=3)
        text = " not run yet" if bar.value is None else f" {bar.value:.1f}"
        beyond = max(bar.value or 0.0, bar.published or 0.0, bar.interval[1] if bar.interval else 0.0)
        axes.text(beyond if bar.value is not None else 0, place, text, va="center", fontsize=6, color="#404040")
        if bar.published is not None:
            axes.plot([bar.published] * 2, [place - 0.42, place + 0.42], color="black", linewidth=1.6, zorder=4)
    if any(bar.published is not None for bar in bars):
        axes.plot([], [], color="black", linewidth=1.6, label="the paper")
        axes.legend(loc="lower right", bbox_to_anchor=(1.0, 1.0), borderaxespad=0.1)
    axes.set_yticks(places, [bar.label for bar in bars])
    axes.set(xlabel=label, xlim=(0, 100), ylim=(-0.6, len(bars) - 0.4))
    axes.set_title(title, loc="left")
    axes.tick_params(axis="y", length=0)


def draw_lines(axes: Axes, lines: Sequence[Line], *, title: str, x: str, y: str) -> None:
    """Draw lines with their bands; colour, line style and marker all tell them apart."""
    for line in lines:
        colour = COLOURS[line.colour % len(COLOURS)]
        marker = MARKERS[line.colour % len(MARKERS)]
        axes.plot(line.x, line.y, STYLES[line.style % len(STYLES)], color=colour, marker=marker, label=line.label)
        if line.low is not None and line.high is not None:
            axes.fill_between(line.x, line.low, line.high, color=colour, alpha=0.15, linewidth=0)
    axes.set(xlabel=x, ylabel=y)
    axes.set_title(title, loc="left")
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    if lines:
        axes.legend()


def shade(number: int, count: int) -> tuple[float, float, float, float]:
    """Return the colour of an ordered line, such as a width: dark for few, light for many, and even in grey."""
    red, green, blue, alpha = plt.get_cmap("viridis")(0.85 * number / max(1, count - 1))
    return float(red), float(green), float(blue), float(alpha)
