"""What more depth and width bring, and how accuracy and coverage depend on the number of solutions."""

from dataclasses import replace
from itertools import product

from gram.experiments.entries.ablations import sudoku_run
from gram.experiments.entries.multi_solution import QUEENS, run_of
from gram.experiments.entries.puzzles import STRUCTURED
from gram.experiments.entry import Entry, Run

DETERMINISTIC = {"Looped TF": "looped", "HRM": "hrm", "TRM": "trm"}


def _plain(run: Run) -> Run:
    """Return the run with the entry's own inputs."""
    return replace(run, measuring={}, sampling={})


_CELLS = tuple(product(QUEENS, {**DETERMINISTIC, "GRAM": "gram"}.items()))
_SUDOKU = tuple(_plain(run) for run in (sudoku_run("TRM", "trm"), sudoku_run("GRAM", "gram"), STRUCTURED))

_ACCURACY = Entry(
    name="solutions-accuracy",
    title="Figure: accuracy against the number of solutions",
    cpu=tuple(_plain(run_of(task, row, recipe)) for task, (row, recipe) in _CELLS),
    paper=tuple(Run(task, row, f"{task}/{recipe}-paper") for task, (row, recipe) in _CELLS),
    measure="scaling",
    measuring={"depths": (16,), "widths": (1, 5, 10, 20), "limit": 600},
    figure="solutions_accuracy",
)

ENTRIES = (
    Entry(
        name="depth-width",
        title="Figure: accuracy over depth for every width, on Sudoku-Extreme and 8-queens",
        cpu=(*_SUDOKU, *(run for run in _ACCURACY.cpu if run.group == "nqueens-8" and run.row in ("TRM", "GRAM"))),
        paper=tuple(
            Run(group, row, f"{group}/{recipe}-paper")
            for group in ("sudoku-extreme", "nqueens-8")
            for row, recipe in {"TRM": "trm", "GRAM": "gram"}.items()
        ),
        measure="scaling",
        measuring={"depths": (1, 2, 4, 8, 16, 32, 64), "widths": (1, 5, 10, 20), "limit": 100},
        figure="depth_width",
    ),
    _ACCURACY,
    replace(
        _ACCURACY,
        name="solutions-coverage",
        title="Figure: coverage against the number of solutions, a line for every width",
        source=_ACCURACY.name,
        figure="solutions_coverage",
    ),
)
