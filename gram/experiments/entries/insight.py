"""Figures that look inside: the ELBO beside its surrogate, and latent trajectories over the loss."""

from dataclasses import replace

from gram.experiments.entries.ablations import sudoku_run
from gram.experiments.entries.multi_solution import run_of
from gram.experiments.entry import Entry, Run

ENTRIES = (
    Entry(
        name="elbo",
        title="Figure: the full ELBO beside the surrogate in the course of training",
        cpu=(
            replace(sudoku_run("GRAM", "gram"), measuring={}),
            replace(run_of("nqueens-8", "GRAM", "gram"), measuring={}),
        ),
        paper=(Run("sudoku-extreme", "GRAM", "sudoku-extreme/gram-paper"),),
        measure="elbo",
        figure="elbo",
    ),
    Entry(
        name="trajectories",
        title="Figure: latent trajectories of TRM and GRAM on one input",
        cpu=tuple(
            replace(run_of("nqueens-8", row, recipe), measuring={})
            for row, recipe in {"TRM": "trm", "GRAM": "gram"}.items()
        ),
        paper=tuple(
            Run("sudoku-extreme", row, f"sudoku-extreme/{recipe}-paper")
            for row, recipe in {"TRM": "trm", "GRAM": "gram"}.items()
        ),
        measure="latent",
        measuring={"width": 50, "depth": 16},
        figure="trajectories",
    ),
)
