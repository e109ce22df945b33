"""Tasks with several solutions: the paper's table of N-Queens and graph colouring, and how baselines were chosen."""

from gram.evaluation.tune import Tuning
from gram.experiments.entry import Column, Entry, Run

METHODS = {
    "Direct, 8 layers": "direct-8",
    "Direct, 32 layers": "direct-32",
    "Looped TF": "looped",
    "HRM": "hrm",
    "TRM": "trm",
    "AR": "ar",
    "MDLM": "mdlm",
    "GRAM": "gram",
}
"""Rows of the table, and the recipes that make them."""
TASKS = ("nqueens-8", "nqueens-10", "colouring-8", "colouring-10")
QUEENS, GRAPHS = TASKS[:2], TASKS[2:]
MINUTES = {"nqueens-8": 17.0, "nqueens-10": 60.0, "colouring-8": 27.0, "colouring-10": 45.0}
"""CPU minutes that each task's trainings are planned to take, the same for all methods."""
INPUTS = {"nqueens-10": 600}
"""Test inputs, where all of them would take hours: the first ones, in the split's random order."""
CURVES = ("train.eval_every=200",)
"""Changes that give GRAM's 8-queens training enough points for its ELBO curve."""

# Of the first and of the last step. Falling ones cover more, as results/tuning shows.
_ON_BOARDS = ((1.0, 1.0), (1.15, 1.15), (1.3, 1.3), (1.6, 0.6))
_ON_GRAPHS = ((0.8, 0.8), (1.0, 1.0), (1.4, 0.4), (1.8, 0.3))


def tuning_of(task: str, recipe: str) -> Tuning | None:
    """Return what is chosen on the validation split: depth, and for guided models temperature; nothing for others."""
    if recipe not in ("gram", "trm", "hrm", "structured"):
        return None  # direct prediction and the looped Transformer have one depth; AR and MDLM are sampled as published
    depths, temperatures = ((8, 16), _ON_BOARDS) if task in QUEENS else ((8, 16, 32), _ON_GRAPHS)
    limit = 200 if task == "nqueens-10" else None
    return Tuning(depths, temperatures if recipe in ("gram", "structured") else ((1.0, 1.0),), limit)


def run_of(task: str, row: str, recipe: str, seeds: tuple[int, ...] = (0,)) -> Run:
    """Return a run of our size; every entry that names the same task and recipe shares its training."""
    return Run(
        group=task,
        row=row,
        recipe=f"{task}/{recipe}",
        overrides=CURVES if (task, recipe) == ("nqueens-8", "gram") else (),
        seeds=seeds,
        measuring={"limit": INPUTS.get(task)},
        tuning=tuning_of(task, recipe),
        minutes=MINUTES[task],
    )


def _seeds(task: str, recipe: str) -> tuple[int, ...]:
    return (0, 1, 2) if recipe == "gram" or task == "nqueens-8" else (0,)


# Columns: N-Queens 8 and 10 accuracy, coverage; colouring 8 and 10 conflicting edges, coverage.
_PAPER = {
    "Direct, 8 layers": (40.4, 13.7, 13.6, 1.6, 179.3, 19.9, 198.7, 6.7),
    "Direct, 32 layers": (40.2, 13.6, 13.1, 1.6, 174.0, 19.1, 227.7, 6.5),
    "Looped TF": (68.4, 23.6, 50.0, 6.2, 136.0, 20.5, 157.3, 7.2),
    "HRM": (78.7, 26.7, 37.4, 4.7, 109.7, 21.8, 164.3, 8.9),
    "TRM": (66.8, 36.1, 17.5, 2.0, 109.3, 22.3, 170.7, 6.8),
    "AR": (96.3, 84.8, 90.0, 53.2, 19.0, 83.0, 61.3, 40.0),
    "MDLM": (96.1, 87.2, 74.3, 47.4, 2.7, 84.5, 12.0, 48.2),
    "GRAM": (99.7, 90.3, 89.7, 57.5, 2.7, 85.8, 3.3, 51.3),
}
PUBLISHED = {
    task: {
        row: {"accuracy" if task in QUEENS else "conflicts": values[2 * place], "coverage": values[2 * place + 1]}
        for row, values in _PAPER.items()
    }
    for place, task in enumerate(TASKS)
}

STRUCTURED = Run(
    "nqueens-8",
    "GRAM, structured network",
    "nqueens-8/structured",
    tuning=tuning_of("nqueens-8", "structured"),
    minutes=MINUTES["nqueens-8"],
    apart=True,
)

MULTI_SOLUTION = Entry(
    name="multi-solution",
    title="Table: N-Queens and graph colouring, accuracy or conflicts, and coverage",
    cpu=(
        *(run_of(task, row, recipe, _seeds(task, recipe)) for task in TASKS for row, recipe in METHODS.items()),
        STRUCTURED,
    ),
    paper=tuple(
        Run(task, row, f"{task}/{recipe}-paper", seeds=(0, 1, 2)) for task in TASKS for row, recipe in METHODS.items()
    ),
    columns=(
        Column("accuracy", "accuracy"),
        Column("conflicting edges", "conflicts", "number", GRAPHS, digits=0),
        Column("coverage", "coverage"),
        Column("all inputs: accuracy", "all_inputs.accuracy"),
        Column("all inputs: coverage", "all_inputs.coverage"),
    ),
    published=PUBLISHED,
    figure="accuracy_and_coverage",
)

ENTRIES = (MULTI_SOLUTION,)
