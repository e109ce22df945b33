"""Measure the shipped models again on a seeded tenth of their test splits, and compare with the result files."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from rich.console import Console

from gram.errors import GramError
from gram.evaluation.evaluate import evaluate
from gram.experiments.entry import Run
from gram.experiments.measures import MEASURES, Measured
from gram.experiments.registry import find_entry
from gram.experiments.results import Result, load_results, state_of
from gram.files import look_up
from gram.progress import bar
from gram.solver import load
from gram.tasks.base import Examples

PART = 0.1
SEED = 0
KEYS = ("accuracy", "accuracy_all_samples", "coverage", "validity")
"""Metrics that are compared; images are compared by FID, which needs all of them."""
LARGEST_SHIFT = 0.1
"""Relative difference of FID that another version of a library may make."""


@dataclass(frozen=True)
class Compared:
    """One metric of one model, now and in its result file."""

    model: str
    metric: str
    expected: float
    found: float
    allowed: float
    """largest difference that the two intervals explain"""
    count: int
    """inputs or samples that were measured now"""

    @property
    def agrees(self) -> bool:
        """Whether the difference is within what is allowed."""
        return abs(self.found - self.expected) <= self.allowed


def tenth(examples: Examples, seed: int = SEED) -> Examples:
    """Return a seeded tenth of a split's distinct inputs, with all of their rows."""
    groups = np.unique(examples.groups)
    count = max(1, round(PART * len(groups)))
    chosen = np.sort(np.random.default_rng(seed).choice(groups, count, replace=False))
    rows = np.flatnonzero(np.isin(examples.groups, chosen))
    ids = None if examples.puzzle_ids is None else examples.puzzle_ids[rows]
    return Examples(examples.inputs[rows], examples.targets[rows], examples.groups[rows], ids)


def check_shipped(console: Console) -> tuple[list[Compared], dict[str, str]]:
    """Return the comparisons of all shipped models, and why others could not be compared."""
    entry = find_entry("shipped")
    found: list[Compared] = []
    skipped: dict[str, str] = {}
    results = {result.run.name: result for result in load_results(entry, entry.cpu)}
    for run in entry.cpu:
        if run.name not in results:
            skipped[run.name] = "there is no result file yet, which `gram reproduce shipped` makes"
            continue
        if state_of(entry, run, results[run.name].seed) == "outdated":
            skipped[run.name] = (
                "its result file is outdated (other weights or other sampling than what ships): "
                f"`gram reproduce shipped --only {run.name}` measures it again"
            )
            continue
        try:
            found += _compare(run, results[run.name], console)
        except GramError as error:  # its data is not here, for one
            skipped[run.name] = str(error)
    return found, skipped


def _compare(run: Run, result: Result, console: Console) -> list[Compared]:
    solver = load(run.shipped)
    solver.check_data()
    if run.measure == "images":
        now = MEASURES["images"](Measured(solver, None, dict(run.sampling), console), **run.measuring)
        expected, fid = result.metrics["records"][0]["fid"], now["records"][0]["fid"]
        return [Compared(run.name, "fid", expected, fid, LARGEST_SHIFT * expected, now["samples"])]
    if run.measure == "generation":
        count = max(1, round(PART * run.measuring["count"]))
        metrics = MEASURES["generation"](Measured(solver, None, {"seed": SEED + 1}, console), count=count)
        return _within(run, result, metrics, count)
    options = solver.with_options(**run.sampling)
    part = tenth(solver.task.split("test"))
    count = len(part.distinct().rows)
    with bar(console, f"measuring {run.name}", count * options.width) as advance:
        metrics = evaluate(solver.model, solver.task, "test", options, examples=part, progress=advance)
    return _within(run, result, metrics, count)


def _within(run: Run, result: Result, metrics: dict[str, Any], count: int) -> list[Compared]:
    """Compare what both have; with few inputs that all agree, up to 3 / count more may be wrong (the rule of three)."""
    found = []
    for key in KEYS:
        expected, now = result.value(key), look_up(metrics, key)
        before, bounds = result.interval(key), look_up(metrics.get("intervals", {}), key)
        if expected is None or now is None or before is None or bounds is None:
            continue
        allowed = (before[1] - before[0]) / 2 + (bounds[1] - bounds[0]) / 2 + 3 / count
        found.append(Compared(run.name, key, expected, now, allowed, count))
    return found
