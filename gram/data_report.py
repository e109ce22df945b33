"""`gram data`: prepare a task's data, and show what is in it."""

from pathlib import Path
from typing import get_args

import numpy as np
from rich.console import Console
from rich.table import Table

from gram.report import side_by_side
from gram.tasks.base import Examples, SplitName, Task, Tokens

COUNTED = 2000
"""Of so many inputs of each split the solutions are counted; all of some tasks would take minutes."""
DRAWN = 4
"""Examples in the figure."""


def report_data(console: Console, task: Task, show: int, figure: Path | None) -> None:
    """Build the splits; print their sizes, hash and solution counts, and `show` examples; draw the figure."""
    splits: dict[str, Examples] = {name: task.split(name) for name in get_args(SplitName)}
    with console.status("hashing the splits"):
        title = f"{task.name}, split hash {task.split_hash()}"
    table = Table("split", "pairs", "distinct inputs", title=title)
    for name, part in splits.items():
        table.add_row(name, f"{len(part):,}", f"{len(np.unique(part.groups)):,}")
    console.print(table)
    counts = None
    if task.scoring == "solutions":
        with console.status("counting solutions"):
            inputs = np.concatenate([part.distinct(COUNTED).inputs for part in splits.values()])
            counts = task.solution_counts(inputs)
    if counts is not None:
        _print_counts(console, counts)
    examples = splits["test"] if len(splits["test"]) else splits["train"]
    for row in range(min(show, len(examples))):
        _print_example(console, task, examples, row)
    if figure is not None:
        from gram.experiments.figures import data_figure

        data_figure(task, examples, min(DRAWN, len(examples)), counts, figure)
        console.print(f"Examples and solution counts: {figure}", markup=False, soft_wrap=True)


def _print_counts(console: Console, counts: Tokens) -> None:
    """The distribution of solution counts [inputs] in one line."""
    quarters = np.percentile(counts, [25, 50, 75], method="nearest").astype(int)
    console.print(
        f"Solutions per input (first {len(counts):,} inputs): mean {counts.mean():.1f}, one for "
        f"{(counts == 1).mean():.0%}, quartiles {', '.join(map(str, quarters))}, at most {counts.max():,}"
    )


def _print_example(console: Console, task: Task, examples: Examples, row: int) -> None:
    given, target = examples.inputs[row], examples.targets[row]
    solutions = task.solutions(given) if task.scoring == "solutions" else None
    count = "" if solutions is None else f": {len(solutions)} solution{'s' * (len(solutions) != 1)}"
    console.print(f"\nExample {row + 1}{count}")
    boards = [("input", task.render(given, given)), ("target", task.render(target, given))]
    console.print(side_by_side(boards), markup=False, highlight=False)
