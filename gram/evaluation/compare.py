"""Compare two models on the same inputs: paired, so that hard and easy inputs weigh alike on both sides."""

from dataclasses import asdict
from typing import Any

from gram.config import SampleOptions
from gram.errors import GramError
from gram.evaluation.bootstrap import paired_difference
from gram.evaluation.metrics import PerInput, measure, metrics_of, weights_of
from gram.evaluation.weighting import headline_text, ideal_coverage, weightings
from gram.inference.sample import Progress, sample
from gram.inference.select import BY_HEADS, RULES
from gram.models.base import Trained
from gram.tasks.base import Distinct, Tokens


def outcomes(trained: Trained, asked: Distinct, options: SampleOptions, progress: Progress | None = None) -> PerInput:
    """Sample a model on the inputs that are asked, and judge every one of them."""
    model, task = trained.model, trained.task
    if task.scoring != "solutions":
        raise GramError(f"Task {task.name} has no inputs that two models could be compared on one by one.")
    found = sample(model, asked.inputs, options, puzzle_ids=asked.puzzle_ids, progress=progress)
    rules = [rule for rule in RULES if model.recursive or rule not in BY_HEADS]
    return measure(task, asked.inputs, found, rules)


def compare_outcomes(a: PerInput, b: PerInput, rows: Tokens, widths: tuple[int, int]) -> dict[str, Any]:
    """Return the differences of all metrics that both have, for inputs that stand for rows [inputs] each; JSON-ready.

    `headline` and `all_inputs` are weightings (docs/tasks.md). `ideal` has the coverage of ideal models in each of
    them, with as many samples as A and B have (`widths`).
    """
    every = weightings(a.solutions, rows)
    first, second = metrics_of(a), metrics_of(b)
    shared = [name for name in first if name in second]
    found: dict[str, Any] = {"inputs": len(rows), "headline_text": headline_text(every["headline"])}
    for name in ("headline", "all_inputs"):
        weights = weights_of(every[name], shared)
        differences = {key: paired_difference(first[key], second[key], weights[key]) for key in shared}
        found[name] = {
            key: {**asdict(each), "interval": list(each.interval), "clear": each.clear}
            for key, each in differences.items()
        }
    found["ideal"] = {
        name: {
            label: ideal_coverage(a.solutions, every[name], width) for label, width in zip("ab", widths, strict=True)
        }
        for name in ("headline", "all_inputs")
    }
    return found
