"""The paper's two ablation tables, on 8-queens and Sudoku-Extreme, with five samples."""

from dataclasses import replace

from gram.experiments.entries.multi_solution import run_of
from gram.experiments.entry import Column, Entry, Run

SUDOKU = "sudoku-extreme"
SUDOKU_MINUTES = 60.0
FIVE = {"width": 5}
SUDOKU_INPUTS = {"limit": 1000}
"""Test puzzles, of 422,786."""

ARCHITECTURES = {
    "Looped TF": "looped",
    "+ DS + HR (HRM)": "hrm",
    "+ DS + HR (TRM)": "trm",
    "+ SG": "flat-gram-final",
    "+ DS + SG": "flat-gram",
    "+ DS + HR + SG (GRAM)": "gram",
}
"""DS: deep supervision, HR: hierarchical recursion, SG: stochastic guidance."""
MECHANISMS = {
    "GRAM": "gram",
    "without stochastic guidance": "without-guidance",
    "stochasticity only": "stochasticity-only",
    "guide only": "guide-only",
    "direct prediction of h": "direct-sampling",
}
NAIVE = {"TRM, stochastic decoder": {"decode": "sample"}, "TRM, random z_0": {"initial": "random"}}
"""TRM with another way of sampling."""


def sudoku_run(row: str, recipe: str) -> Run:
    """Return a run on Sudoku-Extreme at our size."""
    return Run(SUDOKU, row, f"{SUDOKU}/{recipe}", measuring=SUDOKU_INPUTS, minutes=SUDOKU_MINUTES)


def _both(row: str, recipe: str) -> tuple[Run, Run]:
    return tuple(  # type: ignore[return-value]
        replace(run, sampling=FIVE) for run in (sudoku_run(row, recipe), run_of("nqueens-8", row, recipe))
    )


def _naive(row: str, sampling: dict[str, str]) -> tuple[Run, ...]:
    variant = "-".join(sampling.values())
    return tuple(replace(run, sampling={**FIVE, **sampling}, variant=variant) for run in _both(row, "trm"))


def _published(values: dict[str, tuple[float, float]]) -> dict[str, dict[str, dict[str, float]]]:
    return {
        group: {row: {"selection.value": pair[place]} for row, pair in values.items()}
        for place, group in enumerate((SUDOKU, "nqueens-8"))
    }


_LARGE = {
    "+ SG": ("looped-paper", ("model.guidance=gaussian",), "guided"),
    "+ DS + SG": ("gram-paper", ("model.state=flat",), "flat"),
    "without stochastic guidance": ("gram-paper", ("model.guidance=none",), "without-guidance"),
    "stochasticity only": ("gram-paper", ("model.guidance=stochasticity_only",), "stochasticity-only"),
    "guide only": ("gram-paper", ("model.guidance=guide_only",), "guide-only"),
    "direct prediction of h": ("gram-paper", ("model.guidance=direct",), "direct-sampling"),
}
"""At the paper's size the variants are changes to its recipes."""


def _large(rows: dict[str, str]) -> tuple[Run, ...]:
    runs = []
    for group in (SUDOKU, "nqueens-8"):
        for row, recipe in rows.items():
            name, overrides, label = _LARGE.get(row, (f"{recipe}-paper", (), ""))
            measuring = SUDOKU_INPUTS if group == SUDOKU else {}
            runs.append(Run(group, row, f"{group}/{name}", overrides, label, sampling=FIVE, measuring=measuring))
    return tuple(runs)


COLUMNS = (
    Column("first sample", "accuracy"),
    Column("best of 5 by value", "selection.value"),
    Column("best of 5 by vote", "selection.vote"),
    Column("coverage", "coverage", groups=("nqueens-8",)),
)

ENTRIES = (
    Entry(
        name="ablation-architecture",
        title="Table: architecture ablation on Sudoku-Extreme and 8-queens",
        cpu=tuple(run for row, recipe in ARCHITECTURES.items() for run in _both(row, recipe)),
        paper=_large(ARCHITECTURES),
        columns=COLUMNS,
        published=_published(
            {
                "Looped TF": (61.25, 71.30),
                "+ DS + HR (HRM)": (55.00, 80.70),
                "+ DS + HR (TRM)": (87.40, 72.90),
                "+ SG": (65.64, 86.30),
                "+ DS + SG": (73.90, 100.00),
                "+ DS + HR + SG (GRAM)": (93.96, 99.69),
            }
        ),
        figure="ablation_bars",
    ),
    Entry(
        name="ablation-mechanism",
        title="Table: mechanism ablation on Sudoku-Extreme and 8-queens",
        cpu=(
            *(run for row, recipe in MECHANISMS.items() for run in _both(row, recipe)),
            *(run for row, sampling in NAIVE.items() for run in _naive(row, sampling)),
        ),
        paper=_large(MECHANISMS),
        columns=COLUMNS,
        published=_published(
            {
                "GRAM": (93.96, 99.69),
                "without stochastic guidance": (82.87, 72.91),
                "stochasticity only": (94.88, 50.27),
                "guide only": (0.00, 0.00),
                "direct prediction of h": (63.43, 61.44),
                "TRM, stochastic decoder": (82.87, 71.66),
                "TRM, random z_0": (78.53, 71.82),
            }
        ),
        figure="ablation_bars",
    ),
)
