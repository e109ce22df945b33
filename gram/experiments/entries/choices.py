"""How the baselines were chosen: learning rates and mixing at a fifth of the steps, on the validation split."""

from gram.config import load_recipe
from gram.experiments.entries.multi_solution import METHODS, MINUTES, TASKS
from gram.experiments.entry import Column, Entry, Run

RATES = ("5e-4", "1e-3", "2e-3", "4e-3")
FIFTH = 5
OTHER_MIXING = {
    "tokens": ("model.mixing=attention", "model.positions=rope"),
    "attention": ("model.mixing=tokens", "model.positions=learned"),
}


def _choices(task: str, row: str, recipe: str) -> list[Run]:
    """Return a run for every learning rate, and one with the other mixing for models that have a choice of it."""
    plain = load_recipe(f"{task}/{recipe}")
    steps = plain.train.steps // FIFTH
    short = (f"train.steps={steps}", f"train.warmup={plain.train.warmup // FIFTH}", f"train.eval_every={steps}")
    variants: dict[str, tuple[str, ...]] = {f"lr {rate}": (f"train.lr={rate}",) for rate in RATES}
    mixing = getattr(plain.model, "mixing", None)
    if mixing in OTHER_MIXING:
        other = OTHER_MIXING[mixing]
        variants[other[0].removeprefix("model.mixing=")] = other
    return [
        Run(
            task,
            f"{row}, {name}",
            f"{task}/{recipe}",
            overrides=(*short, *changes),
            label=f"fifth-{name.replace(' ', '')}",
            minutes=MINUTES[task] / FIFTH,
        )
        for name, changes in variants.items()
    ]


ENTRIES = (
    Entry(
        name="choices",
        title="Beyond the paper: the baselines' learning rates and mixing at a fifth of the steps, validation split",
        cpu=tuple(
            run
            for task in TASKS
            for row, recipe in METHODS.items()
            if recipe not in ("gram", "direct-32")  # with 32 layers as with 8
            for run in _choices(task, row, recipe)
        ),
        measuring={"split": "validation", "limit": 150},
        columns=(Column("accuracy", "accuracy"), Column("coverage", "coverage")),
    ),
)
