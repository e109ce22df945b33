"""The command `gram demo`: the shipped models at work on puzzles that they were never trained on."""

import shutil
import sys
import time
from pathlib import Path

from gram.cli.common import console, say
from gram.cli.options import Figure, Seed
from gram.cli.report import show_answers
from gram.cli.targets import check_targets
from gram.inference.stream import blank_input
from gram.plots.boards import trajectories_figure
from gram.solver import load
from gram.tasks.base import Task, Tokens, multimodal_input
from gram.tasks.sudoku.board import SudokuBoard

WANTED_SOLUTIONS = 4
"""The demo shows an input with at least this many solutions: enough to see that one input has many answers."""
HARD_SUDOKU = "8..........36......7..9.2...5...7.......457.....1...3...1....68..85...1..9....4.."
"""Arto Inkala's puzzle of 2012, known from newspapers as the hardest."""

MODELS = {"nqueens-8": 20, "nqueens-10": 20, "colouring-8": 20, "sudoku-extreme": 20, "sudoku-generation": 2}
"""What is shown, and with how many trajectories."""


def demo(figure: Figure = Path("gram-demo.png"), seed: Seed = 0) -> None:
    """Solve held-out puzzles with the shipped models, print boards, and draw the trajectories."""
    check_targets([], figure=figure)
    for name, width in MODELS.items():
        solver = load(name)
        started = time.perf_counter()
        result = solver.solve(_puzzle(solver.task), width=width, seed=seed, keep_steps=True)
        console.rule(f"{name}: {solver.model.parameter_count:,} parameters, {time.perf_counter() - started:.1f} s")
        show_answers(console, result, most=4)
        if name == next(iter(MODELS)):
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


def _puzzle(task: Task) -> Tokens:
    """Return a puzzle that is not in the training split."""
    if task.scoring == "generation":
        blank: Tokens = blank_input(task)[0]
        return blank
    # Sudoku's held-out puzzles would have to be downloaded or generated first.
    return task.parse(HARD_SUDOKU) if isinstance(task, SudokuBoard) else multimodal_input(task, WANTED_SOLUTIONS)
