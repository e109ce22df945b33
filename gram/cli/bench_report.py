"""What `gram bench` prints."""

import json
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from gram.errors import GramError

LINES = {
    "supervision steps per second": ("supervision_steps_per_second", "{:,.0f}"),
    "optimiser steps per second": ("steps_per_second", "{:.2f}"),
    "examples per second": ("examples_per_second", "{:,.1f}"),
    "GFLOP per optimiser step": ("gflop_per_step", "{:.2f}"),
    "GFLOP/s": ("gflop_per_second", "{:.1f}"),
    "matrix-multiply peak, GFLOP/s": ("matmul_peak_gflop_per_second", "{:.1f}"),
    "share of the peak": ("share_of_peak", "{:.1%}"),
    "peak memory, MB": ("peak_memory_megabytes", "{:,.0f}"),
    "inference: puzzles per second": ("inference.puzzles_per_second", "{:.2f}"),
    "inference: share of the peak": ("inference.share_of_peak", "{:.1%}"),
}
"""What is printed: a title, the key, and the form of the number."""


def bench_all(
    console: Console, sources: list[Path], overrides: list[str], *, steps: int, puzzles: int
) -> dict[str, dict[str, Any]]:
    """Results by name of recipes (measured now) and of JSON files (measured before)."""
    results = {}
    for source in sources:
        name = str(source) if str(source) not in results else f"{source} (again)"
        if source.suffix == ".json":
            results[name] = _read(source)
            continue
        from gram.cli.bench import bench
        from gram.config import load_recipe

        recipe = load_recipe(source, overrides)
        with console.status(f"measuring {source}"):
            results[name] = bench(recipe, steps=steps, puzzles=puzzles)
    return results


def _read(path: Path) -> dict[str, Any]:
    try:
        content = json.loads(path.read_text())
        for key, _ in LINES.values():
            figure(content, key)
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise GramError(f"{path} is not a result of `gram bench --json` ({error}).") from error
    return content  # type: ignore[no-any-return]


def figure(result: dict[str, Any], key: str) -> float:
    """The figure under a dotted key."""
    value: Any = result
    for part in key.split("."):
        value = value[part]
    return float(value)


def show_bench(console: Console, results: dict[str, dict[str, Any]]) -> None:
    """One column per result."""
    table = Table("", *results)
    for title, (key, form) in LINES.items():
        table.add_row(title, *(form.format(figure(result, key)) for result in results.values()))
    table.add_section()
    for part in next(iter(results.values()))["time_shares"]:
        table.add_row(f"time: {part}", *(f"{result['time_shares'][part]:.1%}" for result in results.values()))
    console.print(table)
    first = next(iter(results.values()))
    console.print(
        f"{first['recipe_task']} on {first['device']}, {first['threads']} thread(s), {first['slots']} slots; "
        f"inference at depth {first['inference']['depth']} x width {first['inference']['width']}"
    )


def show_ratios(console: Console, first: dict[str, Any], second: dict[str, Any]) -> None:
    """Second / first."""
    table = Table("second / first", "ratio")
    for title, (key, _) in LINES.items():
        table.add_row(title, f"{figure(second, key) / figure(first, key):.2f}")
    console.print(table)
