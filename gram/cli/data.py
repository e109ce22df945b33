"""The command `gram data`: prepare the data of a task, and show what is in it."""

from pathlib import Path
from typing import Annotated

import numpy as np
import typer
from rich.console import Console
from rich.table import Table

from gram.checkpoints.card import percent
from gram.cli.common import console, say
from gram.cli.report import show_boards
from gram.cli.targets import check_targets
from gram.config import parse_options
from gram.evaluation.weighting import DRAWS, headline_text, ideal_coverage, weightings
from gram.plots.boards import data_figure
from gram.tasks import make_task
from gram.tasks.base import SPLITS, Examples, Task, Tokens

COUNTED: dict[str, int] = {"train": 2_000, "validation": 2_000, "test": 10_000}
"""Of so many inputs of each split the solutions are counted; all of some tasks would take minutes."""
DRAWN = 4
"""Examples in the figure."""


def data(
    task: Annotated[
        str, typer.Argument(help="A task: nqueens-8, colouring-8, sudoku-hard, arc-1, mnist, tokens, mytask.py:Class.")
    ],
    options: Annotated[
        list[str] | None, typer.Argument(help="Options of the task, such as seed=1 path=mine.jsonl.")
    ] = None,
    show: Annotated[int, typer.Option(min=0, help="Number of examples to print.")] = 0,
    figure: Annotated[
        Path | None, typer.Option(help="Draw examples and the distribution of solution counts into this file.")
    ] = None,
) -> None:
    """Prepare the data of a task; print its splits, their hash, solution counts and examples."""
    check_targets([], figure=figure)
    report_data(console, make_task(task, **parse_options(options or [])), show, figure)


def report_data(console: Console, task: Task, show: int, figure: Path | None) -> None:
    """Build the splits; print their sizes, hash and solution counts, and `show` examples; draw the figure."""
    splits: dict[str, Examples] = {name: task.split(name) for name in SPLITS}
    with console.status("hashing the splits"):
        title = f"{task.name}, split hash {task.split_hash()}"
    with console.status("counting solutions"):
        asked = {name: part.distinct(COUNTED[name]) for name, part in splits.items()}
        counts = {name: _count(task, some.inputs) for name, some in asked.items()}
    table = Table("split", "pairs", "distinct inputs", "solutions per input", title=title)
    for name, part in splits.items():
        mean = f"{counts[name].mean():.2f}" if len(counts[name]) else "-"
        table.add_row(name, f"{len(part):,}", f"{len(np.unique(part.groups)):,}", mean)
    console.print(table)
    every = np.concatenate(list(counts.values()))
    if len(every):
        _print_counts(console, every)
    if (counts["test"] > 1).any():
        _print_ideal(console, counts["test"], asked["test"].rows)
    examples = splits["test"] if len(splits["test"]) else splits["train"]
    for row in range(min(show, len(examples))):
        _print_example(console, task, examples, row)
    if figure is not None:
        data_figure(task, examples, min(DRAWN, len(examples)), every if len(every) else None, figure)
        say(f"Examples and solution counts: {figure}")


def _count(task: Task, inputs: Tokens) -> Tokens:
    """Return how many solutions each input has [inputs]; empty where they cannot be listed."""
    counts = task.solution_counts(inputs) if task.scoring == "solutions" else None
    return np.asarray([] if counts is None else counts, dtype=np.int64)


def _print_counts(console: Console, counts: Tokens) -> None:
    """Print the distribution of solution counts [inputs] in one line."""
    quarters = np.percentile(counts, [25, 50, 75], method="nearest").astype(int)
    console.print(
        f"Solutions per input (first {len(counts):,} inputs): mean {counts.mean():.1f}, one for "
        f"{(counts == 1).mean():.0%}, quartiles {', '.join(map(str, quarters))}, at most {counts.max():,}"
    )


def _print_ideal(console: Console, solutions: Tokens, rows: Tokens) -> None:
    """Print the coverage of ideal models on test inputs with these numbers of solutions and rows [inputs]."""
    found = weightings(solutions, rows)
    title = f"coverage of ideal models on {len(solutions):,} test inputs"
    caption = f"headline: {headline_text(found['headline'])}"
    table = Table("", "count", f"uniform sampler, {DRAWS} draws", "one answer", title=title, caption=caption)
    for name, weighting in found.items():
        covered = ideal_coverage(solutions, weighting, DRAWS)
        table.add_row(name.replace("_", " "), f"{weighting.count:,}", *map(percent, covered.values()))
    console.print(table)


def _print_example(console: Console, task: Task, examples: Examples, row: int) -> None:
    given, target = examples.inputs[row], examples.targets[row]
    solutions = task.solutions(given) if task.scoring == "solutions" else None
    count = "" if solutions is None else f": {len(solutions)} solution{'s' * (len(solutions) != 1)}"
    console.print(f"\nExample {row + 1}{count}")
    show_boards(console, [("input", task.render(given, given)), ("target", task.render(target, given))])
