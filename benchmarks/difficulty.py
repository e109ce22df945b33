"""How hard a Sudoku may be for a model: puzzles solved by their rating, and the time to a verified solution.

The puzzles are the model's validation split, so its task must have been given a validation_file with ratings, as in
the command of results/sudoku-extreme/deeper.json. Rules use no checker, except `any`: one of the samples is right.

python benchmarks/difficulty.py runs/deeper --limit 256 --width 20 --json deeper.json
"""

import argparse
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from rich.console import Console

from gram.errors import GramError
from gram.evaluation.metrics import PerInput, measure
from gram.files import write_json
from gram.inference.sample import sample
from gram.progress import bar
from gram.solver import Solver, load
from gram.tasks.base import Tokens
from gram.tasks.sudoku.extreme import SudokuExtreme
from gram.tasks.sudoku.files import ratings_of, read_puzzles, rows_of, user_file

BOUNDS = (1, 10, 30, 100)
"""Ratings at which a new group begins: guesses that the rating's solver needed."""

MOST_SECONDS = 60
"""A search for a verified solution is given up after so long."""


def ratings(task: SudokuExtreme, inputs: Tokens) -> Tokens:
    """Return the rating [inputs] of puzzles [inputs, cells] of the validation file."""
    if task.validation_file is None or task.validation_ratings is None:
        raise GramError("The model's task has no validation_file with validation_ratings.")
    lines = rows_of(user_file(task.validation_file))
    of_lines = ratings_of(user_file(task.validation_ratings), lines)
    puzzles = read_puzzles(user_file(task.validation_file), lines).puzzles
    known = {row.tobytes(): rating for row, rating in zip(puzzles, of_lines.tolist(), strict=True)}
    # Token 1 is a blank, 2 is the digit 1.
    return np.array([known[row.tobytes()] for row in (inputs - 1).astype(np.int8)])


def groups(rated: Tokens, clues: Tokens) -> Iterator[tuple[str, NDArray[np.bool_]]]:
    """Yield the name and the members [inputs] of every group of puzzles."""
    yield "all", np.ones(len(rated), dtype=np.bool_)
    yield "17 clues", clues == 17
    for low, high in zip((0, *BOUNDS), (*BOUNDS, None), strict=True):
        if high is None:
            yield f"rated {low} or more", rated >= low
        else:
            yield f"rated {low} to {high - 1}" if high - low > 1 else f"rated {low}", (rated >= low) & (rated < high)


def solved(found: PerInput, members: NDArray[np.bool_]) -> dict[str, Any]:
    """Return the fraction of a group's puzzles that each rule solves."""
    rules = {rule: float(found.selected[rule][members].mean()) for rule in ("first", "vote", "value")}
    return {
        "puzzles": int(members.sum()),
        "one sample": float(found.valid_share[members].mean()),
        **rules,
        "any": float(found.any_valid[members].mean()),
    }


def seconds_to_first(solver: Solver, inputs: Tokens, console: Console) -> dict[str, Any]:
    """Search for a verified solution of every puzzle [inputs, cells], one after the other, for a limited time."""
    taken, verified = [], 0
    with bar(console, "searching", len(inputs)) as advance:
        for given in inputs:
            started = time.perf_counter()
            search = solver.stream(given, until="first")
            for _ in search:
                if time.perf_counter() - started > MOST_SECONDS:
                    break
            taken.append(time.perf_counter() - started)
            verified += solver.result(search).verified
            advance(1)
    return {
        "puzzles": len(inputs),
        "most_seconds": MOST_SECONDS,
        "verified": verified / len(inputs),
        "median_seconds": float(np.median(taken)),
        "seconds_95": float(np.quantile(taken, 0.95)),
        "longest_seconds": max(taken),
    }


def main() -> None:
    """Print a table, and write everything to a file."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model")
    parser.add_argument("--depth", type=int, default=16)
    parser.add_argument("--width", type=int, default=20)
    parser.add_argument("--limit", type=int, default=256, help="puzzles, the first ones in a random order")
    parser.add_argument("--halt-at", type=float, default=None, help="halt above this confidence; default: never")
    parser.add_argument("--search", type=int, default=0, help="puzzles for which a verified solution is searched")
    parser.add_argument("--json", type=Path, default=None)
    arguments = parser.parse_args()
    console = Console(stderr=True)
    solver = load(arguments.model)
    if not isinstance(solver.task, SudokuExtreme):
        raise GramError(f"{arguments.model} does not solve files of Sudoku puzzles.")
    inputs = solver.task.split("validation").distinct(arguments.limit).inputs
    halting = {} if arguments.halt_at is None else {"halt": True, "halt_at": arguments.halt_at}
    options = solver.with_options(depth=arguments.depth, width=arguments.width, **halting)
    with bar(console, "sampling", len(inputs) * options.width) as advance:
        trajectories = sample(solver.model, inputs, options, progress=advance)
    found = measure(solver.task, inputs, trajectories)
    rated, clues = ratings(solver.task, inputs), (inputs > 1).sum(axis=1)
    report: dict[str, Any] = {
        "split_hash": solver.task.split_hash(),
        "depth": options.depth,
        "width": options.width,
        **halting,
        "mean_steps": float(trajectories.steps.mean()),
        "groups": {name: solved(found, some) for name, some in groups(rated, clues) if some.any()},
    }
    for name, values in report["groups"].items():
        shares = ", ".join(f"{rule} {100 * share:.1f}%" for rule, share in values.items() if rule != "puzzles")
        print(f"{name} ({values['puzzles']}): {shares}")
    print(f"{options.depth} x {options.width}, mean steps {report['mean_steps']:.2f}")
    if arguments.search:
        report["search"] = seconds_to_first(solver, inputs[: arguments.search], console)
        print(report["search"])
    if arguments.json is not None:
        write_json(arguments.json, report)


if __name__ == "__main__":
    try:
        main()
    except GramError as error:
        sys.exit(str(error))
