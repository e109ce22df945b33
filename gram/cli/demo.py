"""The command `gram demo`: the shipped models at work on puzzles they were never trained on."""

import shutil
import sys
import time
from pathlib import Path

import numpy as np

from gram.checkpoints.find import shipped_models
from gram.cli.options import Figure, Seed, console, say
from gram.cli.report import show_answers
from gram.cli.targets import FIGURES, check_target
from gram.plots.boards import trajectories_figure
from gram.solver import load
from gram.tasks.base import Task, Tokens

WANTED_SOLUTIONS = 4
"""The demo shows an input with at least this many solutions: enough to see that one input has many answers."""


def demo(figure: Figure = Path("gram-demo.png"), seed: Seed = 0) -> None:
    """Solve held-out puzzles with the shipped models, print boards, and draw the trajectories."""
    check_target(figure, FIGURES)
    # The held-out puzzles of the others would have to be generated first, which takes minutes.
    for number, name in enumerate(name for name in shipped_models() if name.startswith("nqueens")):
        solver = load(name)
        started = time.perf_counter()
        given = _input_with_several_solutions(solver.task)
        result = solver.solve(given, seed=seed, keep_steps=True)
        console.rule(f"{name}: {solver.model.parameter_count:,} parameters, {time.perf_counter() - started:.1f} s")
        show_answers(console, result, most=4)
        if number == 0:
            trajectories_figure(result, figure)
    say(f"\nThe boards over the steps of the first model's trajectories: {figure}")
    board = "/".join(["Q......."] + ["........"] * 7)
    say(f'Your own: {command()} solve nqueens-8 "{board}"')


def command() -> str:
    """Return how to call `gram` from this folder: by name if the shell finds it, else by its path."""
    installed = Path(sys.executable).with_name("gram")
    if shutil.which("gram") or not installed.exists():
        return "gram"
    here = Path.cwd()
    return str(installed.relative_to(here) if installed.is_relative_to(here) else installed)


def _input_with_several_solutions(task: Task) -> Tokens:
    """Return the first test input with at least `WANTED_SOLUTIONS` solutions (or the one with most)."""
    inputs = task.split("test").distinct(200)[0]
    counts = np.array([len(solutions) if (solutions := task.solutions(row)) is not None else 1 for row in inputs])
    enough = np.flatnonzero(counts >= WANTED_SOLUTIONS)
    chosen: Tokens = inputs[enough[0] if len(enough) else counts.argmax()]
    return chosen
