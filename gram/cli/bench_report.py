"""The command `gram bench`, and what it prints."""

import json
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

from gram.cli.bench import bench as measure
from gram.cli.common import console, refuse_ignored, write_json
from gram.cli.options import JsonFile
from gram.cli.targets import check_targets
from gram.config import load_recipe
from gram.errors import GramError
from gram.files import look_up

LINES = {
    "supervision steps per second": ("supervision_steps_per_second", "{:,.0f}"),
    "optimiser steps per second": ("steps_per_second", "{:.2f}"),
    "examples per second": ("examples_per_second", "{:,.1f}"),
    "GFLOP per optimiser step": ("gflop_per_step", "{:.2f}"),
    "GFLOP/s": ("gflop_per_second", "{:.1f}"),
    "matrix-multiply peak, GFLOP/s": ("matmul_peak_gflop_per_second", "{:.1f}"),
    "fraction of the peak": ("share_of_peak", "{:.1%}"),
    "peak memory, MB": ("peak_memory_megabytes", "{:,.0f}"),
    "inference: puzzles (or samples) per second": ("inference.puzzles_per_second", "{:.2f}"),
    "inference: fraction of the peak": ("inference.share_of_peak", "{:.1%}"),
}
"""What is printed: a title, the key, and the form of the number."""


def bench(
    arguments: Annotated[
        list[str],
        typer.Argument(
            help="A recipe (with --compare two, or JSON files of --json), and changes such as model.dim=128."
        ),
    ],
    steps: Annotated[int, typer.Option(min=1, help="Training steps to time.")] = 20,
    puzzles: Annotated[int, typer.Option(min=1, help="Test inputs to sample; without inputs, samples.")] = 16,
    compare: Annotated[bool, typer.Option("--compare", help="Print the ratios of the second to the first.")] = False,
    json_file: JsonFile = None,
) -> None:
    """Measure the speed of a recipe on this machine.

    Reports steps per second, FLOP/s, the fraction of the matrix-multiply peak, and where the time goes.
    """
    overrides = [argument for argument in arguments if "=" in argument]
    sources = [argument for argument in arguments if "=" not in argument]
    if len(sources) != (2 if compare else 1):
        raise GramError("Give one recipe, or two with --compare.")
    measured = any(source.endswith(".json") for source in sources)
    refuse_ignored((bool(overrides) and measured, "A result that was measured before cannot be changed: no overrides."))
    check_targets([source for source in sources if Path(source).is_file()], json=json_file)
    results: dict[str, dict[str, Any]] = {}
    for source in sources:
        name = source if source not in results else f"{source} (again)"
        if source.endswith(".json"):
            results[name] = _read(Path(source))
        else:
            recipe = load_recipe(source, overrides)
            with console.status(f"measuring {source}"):
                results[name] = measure(recipe, steps=steps, puzzles=puzzles)
    show_bench(console, results)
    if compare:
        show_ratios(console, *results.values())
    write_json(json_file, results if compare else next(iter(results.values())))


def _read(path: Path) -> dict[str, Any]:
    try:
        content = json.loads(path.read_text())
        for key, _ in LINES.values():
            float(look_up(content, key))
    except (OSError, ValueError, TypeError) as error:
        raise GramError(f"{path} is not a result of `gram bench --json` ({error}).") from error
    return content  # type: ignore[no-any-return]


def show_bench(console: Console, results: dict[str, dict[str, Any]]) -> None:
    """Print a table with one column per result."""
    table = Table("", *results)
    for title, (key, form) in LINES.items():
        table.add_row(title, *(form.format(look_up(result, key)) for result in results.values()))
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
    """Print the ratios of the second result to the first."""
    table = Table("second / first", "ratio")
    for title, (key, _) in LINES.items():
        table.add_row(title, f"{look_up(second, key) / look_up(first, key):.2f}")
    console.print(table)
