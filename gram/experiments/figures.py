"""Figures made of result files, by the name that entries use."""

import hashlib
import json
import math
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from matplotlib import pyplot as plt
from matplotlib.axes import Axes

from gram.experiments.entry import Entry, Run
from gram.experiments.pictures import Shown, generation_process, trajectories
from gram.experiments.results import Result
from gram.inference.select import RULES
from gram.plots.paper import COLOURS, COLUMN, MARKERS, STYLE, Bar, Line, draw_bars, draw_lines, paper_figure, shade
from gram.plots.style import STYLES, log_axis, save_figure

Draw = Callable[[Shown], None]
BAR_HEIGHT = 0.19
"""Inches of one bar."""
HEIGHT = 2.4
"""Inches of a panel of lines."""
NAMED = 8
"""Cells of the objective's grid that have a name in its figure."""


def figure_digest(entry: Entry, runs: Sequence[Run], results: Sequence[Result]) -> str:
    """Return a digest of everything that a figure shows."""
    data = [[result.run.name, result.seed, result.metrics] for result in results]
    labels = [[run.group, run.row, run.name, run.apart] for run in runs]
    published = json.dumps([entry.figure, labels, entry.published, data], sort_keys=True)
    return hashlib.sha256(published.encode()).hexdigest()[:16]


def draw_entry(entry: Entry, runs: Sequence[Run], results: Sequence[Result], path: Path) -> bool:
    """Draw the figure of an entry to `path` (.png, and .pdf beside it); False if it has none, or nothing to show."""
    if not entry.figure or not results:
        return False
    FIGURES[entry.figure](Shown(entry, runs, results, path, figure_digest(entry, runs, results)))
    return True


def _mean(results: Sequence[Result], key: str) -> float | None:
    values = [value for result in results if (value := result.value(key)) is not None]
    return sum(values) / len(values) if values else None


def _bars(shown: Shown, group: str, key: str) -> list[Bar]:
    """Return a bar for each run: the mean over its seeds, with the interval over inputs where there is one seed."""
    bars = []
    for run in (run for run in shown.runs if run.group == group):
        mine = [result for result in shown.results if result.run == run]
        value = _mean(mine, key)
        bounds = mine[0].interval(key) if len(mine) == 1 else None
        interval = None if bounds is None else (100 * bounds[0], 100 * bounds[1])
        paper = shown.entry.published.get(group, {}).get(run.row, {}).get(key)
        bars.append(Bar(run.row, None if value is None else 100 * value, interval, paper, run.apart))
    return bars


def _bar_panels(keys: dict[str, tuple[str, str]]) -> Draw:
    """Return a figure of bars, a panel for every group; keys: group -> metric and axis label ("" for all others)."""

    def draw(shown: Shown) -> None:
        rows = max(sum(run.group == group for run in shown.runs) for group in shown.groups)
        for axes, group, _ in shown.panels(height=0.75 + BAR_HEIGHT * rows):
            key, label = keys.get(group, keys[""])
            draw_bars(axes, _bars(shown, group, key), title=group, label=label)

    return draw


def accuracy_and_coverage(shown: Shown) -> None:
    """Coverage against accuracy, a panel for every task, a marker for every method; a uniform sampler as a line."""
    methods = list(reversed(dict.fromkeys(run.row for run in shown.runs)))  # GRAM, the last row, has the first colours
    width, count = 2.2 * len(shown.groups) + 1.1, len(shown.groups)
    with paper_figure(shown.path, shown.digest, panels=count, width=width, height=2.3) as panels:
        for axes, (group, here) in zip(panels, shown.groups.items(), strict=True):
            for result in here:
                number = methods.index(result.run.row)
                point = ([100 * (result.value(key) or 0.0)] for key in ("accuracy", "coverage"))
                style = {"color": COLOURS[number % len(COLOURS)], "marker": MARKERS[number % len(MARKERS)]}
                axes.plot(*point, linestyle="none", label=result.run.row, **style)
            uniform = _mean(here, "uniform_coverage")
            if uniform is not None:
                axes.axhline(100 * uniform, color="#707070", linewidth=0.8, linestyle=":", label="uniform sampler")
            axes.set(xlim=(-3, 103), ylim=(-3, 103), xlabel="accuracy, %", ylabel="coverage, %")
            axes.set_title(group, loc="left")
        pairs = [pair for axes in panels for pair in zip(*axes.get_legend_handles_labels(), strict=True)]
        handles = {label: handle for handle, label in pairs}
        panels[-1].legend(handles.values(), handles.keys(), loc="center left", bbox_to_anchor=(1.02, 0.5))


def depth_width(shown: Shown) -> None:
    """Accuracy (selected by value) over depth, a line for every width; deterministic models have one line."""
    for axes, group, here in shown.panels(HEIGHT):
        _depth_panel(axes, here, "value", title=group)


def scaling_figure(studies: dict[str, dict[str, Any]], path: Path) -> None:
    """Draw studies of models by name: accuracy by every rule over depth and width, coverage, and both by solutions."""
    first = next(iter(studies.values()))
    results = [
        Result(Run(study["task"], Path(name).name, ""), study["seed"], {"metrics": study})
        for name, study in studies.items()
    ]
    with plt.rc_context(STYLE):
        columns = math.ceil((len(RULES) + 3) / 2)
        figure, panels = plt.subplots(2, columns, figsize=(COLUMN * columns, 2.5 * HEIGHT), layout="constrained")
        *rules, width, coverage, accuracy = panels.flat
        for axes, rule in zip(rules, RULES, strict=True):
            _depth_panel(axes, results, rule, title=f"selected by: {rule}")
        lines = [_coverage_line(result, number) for number, result in enumerate(results)]
        draw_lines(width, lines, title="at full depth", x="width", y="coverage, %")
        width.set(ylim=(None, 101))
        _solutions_panel(coverage, results, "coverage", title="at full depth and width")
        _solutions_panel(accuracy, results, "accuracy_all_samples", title="at full depth and width")
        title = f"{first['task']}, {first['inputs']} inputs of the {first['split']} split, seed {first['seed']}"
        save_figure(figure, path, title)


def _coverage_line(result: Result, number: int) -> Line:
    """Return the coverage over the width at the largest depth."""
    records = result.metrics["records"]
    deepest = max(record["depth"] for record in records)
    line = [record for record in records if record["depth"] == deepest]
    points = [record["width"] for record in line], [100 * record["coverage"] for record in line]
    return Line(result.run.row, *points, colour=number, style=number)


def _depth_panel(axes: Axes, results: Sequence[Result], rule: str, *, title: str) -> None:
    for number, result in enumerate(results):
        _width_lines(axes, result, number, rule)
    axes.set(xlabel="supervision steps", ylabel="solved, %", ylim=(None, 101))
    axes.set_title(title, loc="left")
    log_axis(axes, "x", 2)
    axes.legend(ncols=2)


def _width_lines(axes: Axes, result: Result, number: int, rule: str) -> None:
    records = result.metrics["records"]
    widths = sorted({record["width"] for record in records})
    same = all(
        len({record[rule] for record in records if record["depth"] == depth}) == 1
        for depth in {record["depth"] for record in records}
    )
    for place, width in enumerate(widths[:1] if same else widths):
        line = [record for record in records if record["width"] == width]
        axes.plot(
            [record["depth"] for record in line],
            [100 * record[rule] for record in line],
            STYLES[number % len(STYLES)],
            color="#000000" if same else shade(place, len(widths)),
            marker="." if not same else "x",
            label=result.run.row if same else f"{result.run.row}, N = {width}",
        )


def _by_solutions(key: str, per_width: bool) -> Draw:
    """Return a figure of a metric against the number of solutions, a panel for every task."""

    def draw(shown: Shown) -> None:
        for axes, group, here in shown.panels(HEIGHT):
            _solutions_panel(axes, here, key, per_width=per_width, title=group)

    return draw


def _solutions_panel(
    axes: Axes, results: Sequence[Result], key: str, *, per_width: bool = False, title: str = ""
) -> None:
    label = "accuracy, %" if key == "accuracy_all_samples" else "coverage, %"
    each = [_solution_lines(result, number, key, per_width) for number, result in enumerate(results)]
    lines = [line for some in each for line in some]
    draw_lines(axes, lines, title=title, x="number of solutions", y=label)
    axes.set(ylim=(-3, 103))
    if max(max(line.x) for line in lines) > 20:
        log_axis(axes, "x")


def _solution_lines(result: Result, number: int, key: str, per_width: bool) -> list[Line]:
    by_width = {int(width): lines for width, lines in result.metrics["by_width"].items()}
    widths = sorted(by_width)
    deterministic = by_width[widths[0]] == [
        {**line, "uniform_coverage": other["uniform_coverage"]}
        for line, other in zip(by_width[widths[-1]], by_width[widths[0]], strict=True)
    ]
    shown = widths if per_width and not deterministic else widths[-1:]
    lines = []
    for place, width in enumerate(shown):
        label = result.run.row if len(shown) == 1 else f"{result.run.row}, N = {width}"
        lines.append(_line(label, by_width[width], "solutions", key, colour=number + place, style=place))
    return lines


def _line(label: str, records: Sequence[dict[str, Any]], x: str, y: str, *, colour: int, style: int) -> Line:
    """Return a line of percentages with their intervals."""
    low, high = ([100 * record["intervals"][y][end] for record in records] for end in (0, 1))
    values = [record[x] for record in records], [100 * record[y] for record in records]
    return Line(label, *values, low, high, colour=colour, style=style)


def elbo(shown: Shown) -> None:
    """The negative ELBO and the surrogate on the validation split over the optimiser steps, on a log axis."""
    for axes, group, here in shown.panels(height=2.2):
        lines = []
        for result in here:
            curve = result.metrics["curve"]
            steps = [point["step"] for point in curve]
            lines.append(Line("full negative ELBO", steps, [point["negative_elbo"] for point in curve], colour=0))
            lines.append(Line("surrogate", steps, [point["surrogate"] for point in curve], colour=1, style=1))
        draw_lines(axes, lines, title=group, x="optimiser step", y="nats per token, validation")
        log_axis(axes, "y")


def arc_samples(shown: Shown) -> None:
    """pass@2 over the number of samples, a line for every model and number of augmentations."""
    with paper_figure(shown.path, shown.digest) as (axes,):
        lines = []
        for number, result in enumerate(shown.results):
            records = result.metrics["records"]
            for place, most in enumerate(sorted({record["augmentations"] for record in records})):
                line = [record for record in records if record["augmentations"] == most]
                label = result.run.row + (f", {most} augmentations" if most else "")
                lines.append(_line(label, line, "width", "pass@2", colour=number + place, style=number))
        draw_lines(axes, lines, title="ARC-AGI-1", x="samples", y="pass@2, %")
        log_axis(axes, "x")


def image_scores(shown: Shown) -> None:
    """Inception Score and FID over the steps; a model with one number of steps is a point."""
    with paper_figure(shown.path, shown.digest, panels=2) as panels:
        for axes, key, label in zip(panels, ("inception_score", "fid"), ("Inception Score", "FID"), strict=True):
            lines = []
            for number, result in enumerate(shown.results):
                records = [record for record in result.metrics["records"] if record[key] is not None]
                steps = [record["steps"] for record in records]
                lines.append(Line(result.run.row, steps, [record[key] for record in records], colour=number))
            draw_lines(axes, lines, title=label, x="steps", y=label)
            log_axis(axes, "x")


def objective(shown: Shown) -> None:
    """Coverage against accuracy, a line over the temperatures for every cell and depth; the best cells have names."""
    with paper_figure(shown.path, shown.digest, width=5.8, height=3.2) as (axes,):
        ranked = sorted(shown.results, key=lambda result: -_best(result))
        for number, result in enumerate(ranked):
            depths = sorted({record["depth"] for record in result.metrics["records"]})
            for depth in depths:
                deepest = depth == depths[-1]
                axes.plot(
                    *zip(*_points(result, depth), strict=True),
                    "-" if deepest else ":",
                    marker=MARKERS[number] if number < NAMED else ".",
                    color=COLOURS[number] if number < NAMED else "#C8C8C8",
                    markerfacecolor=None if deepest else "white",
                    label=result.run.row if deepest and number < NAMED else None,
                    zorder=3 if number < NAMED else 1,
                )
        axes.set(xlabel="accuracy over all samples, %", ylabel="coverage, %")
        axes.plot([], [], "k:", marker="o", markerfacecolor="white", label="at half the depth")
        axes.legend(loc="center left", bbox_to_anchor=(1.02, 0.5), title="KL scope, beta, learning")


def _best(result: Result) -> float:
    return max(float(record["accuracy_all_samples"] + record["coverage"]) for record in result.metrics["records"])


def _points(result: Result, depth: int) -> list[tuple[float, float]]:
    """Accuracy and coverage over the temperatures at one depth."""
    records = [record for record in result.metrics["records"] if record["depth"] == depth]
    records.sort(key=lambda record: float(record["temperature"]))
    return [(100 * record["accuracy_all_samples"], 100 * record["coverage"]) for record in records]


FIGURES: dict[str, Draw] = {
    "accuracy_and_coverage": accuracy_and_coverage,
    "ablation_bars": _bar_panels({"": ("selection.value", "best of 5 by value, %")}),
    "puzzle_bars": _bar_panels({"": ("pass@2", "pass@2, %"), "sudoku-extreme": ("selection.value", "solved, %")}),
    "validity_bars": _bar_panels({"": ("validity", "valid boards, %")}),
    "depth_width": depth_width,
    "solutions_accuracy": _by_solutions("accuracy_all_samples", per_width=False),
    "solutions_coverage": _by_solutions("coverage", per_width=True),
    "elbo": elbo,
    "arc_samples": arc_samples,
    "image_scores": image_scores,
    "objective": objective,
    "generation_process": generation_process,
    "trajectories": trajectories,
}
