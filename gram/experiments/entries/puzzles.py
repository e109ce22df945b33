"""Puzzles with one solution: Sudoku-Extreme and ARC-AGI, with the figures of ARC's samples and augmentations."""

from dataclasses import replace

from gram.experiments.entries.ablations import SUDOKU, SUDOKU_INPUTS, sudoku_run
from gram.experiments.entry import Column, Entry, Run

ARC = ("arc-1", "arc-2")
METHODS = {"Direct, 8 layers": "direct-8", "Looped TF": "looped", "HRM": "hrm", "TRM": "trm", "GRAM": "gram"}
ARC_METHODS = [row for row in METHODS if row != "Looped TF"]
NO_ARC = "ARC needs GPUs: the paper trains for days on eight of them. Its runs are not part of the CPU scale's plan."
STRUCTURED = Run(
    SUDOKU, "GRAM, structured network", f"{SUDOKU}/structured", measuring=SUDOKU_INPUTS, minutes=130.0, apart=True
)

_LARGE = (
    *(Run(SUDOKU, row, f"{SUDOKU}/{recipe}-paper", measuring=SUDOKU_INPUTS) for row, recipe in METHODS.items()),
    *(Run(group, row, f"{group}/{METHODS[row]}-paper") for group in ARC for row in ARC_METHODS),
)
_ARC_SMALL = Run("arc-1", "GRAM", "arc-1/gram")
_ARC_LARGE = tuple(Run("arc-1", row, f"arc-1/{METHODS[row]}-paper") for row in ("TRM", "GRAM"))

ENTRIES = (
    Entry(
        name="puzzles",
        title="Table and bars: Sudoku-Extreme, ARC-AGI-1 and ARC-AGI-2",
        cpu=(
            *(sudoku_run(row, recipe) for row, recipe in METHODS.items()),
            STRUCTURED,
            *(Run(group, "GRAM", f"{group}/gram") for group in ARC),
        ),
        paper=_LARGE,
        columns=(
            Column("first sample", "accuracy", groups=(SUDOKU,)),
            Column("best of 20 by value", "selection.value", groups=(SUDOKU,)),
            Column("best of 20 by vote", "selection.vote", groups=(SUDOKU,)),
            Column("pass@1", "pass@1", groups=ARC),
            Column("pass@2", "pass@2", groups=ARC),
        ),
        published={
            SUDOKU: {
                row: {"selection.value": value}
                for row, value in zip(METHODS, (0.0, 61.3, 55.0, 87.4, 97.0), strict=True)
            },
            **{
                group: {row: {"pass@2": value} for row, value in zip(ARC_METHODS, values, strict=True)}
                for group, values in {"arc-1": (21.0, 40.3, 44.6, 52.0), "arc-2": (0.0, 5.0, 7.8, 11.1)}.items()
            },
        },
        figure="puzzle_bars",
        missing=NO_ARC,
    ),
    Entry(
        name="arc-samples",
        title="Figure: ARC-AGI-1 without augmentation, against the number of samples",
        cpu=(_ARC_SMALL,),
        paper=_ARC_LARGE,
        measure="votes",
        measuring={"widths": (1, 2, 5, 10, 20, 50), "augmentations": (0,)},
        figure="arc_samples",
        missing=NO_ARC,
    ),
    Entry(
        name="arc-augmentation",
        title="Figure: ARC-AGI-1 against samples x augmentations",
        cpu=(replace(_ARC_SMALL, measuring={"augmentations": (0, 5, 15)}),),
        paper=_ARC_LARGE,
        measure="votes",
        measuring={"widths": (1, 2, 5, 10, 20, 50), "augmentations": (0, 5, 10, 20, 50)},
        figure="arc_samples",
        missing=NO_ARC,
    ),
)
