"""Accuracy and coverage of sampled trajectories, for tasks whose solutions can be listed.

Headline weighting: the mean over test ROWS (one per input and target) whose input has at least two solutions. An input
with k solutions then counts k times. The other weightings are reported as well, with the coverage
of ideal models in each.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gram.errors import GramError
from gram.evaluation.bootstrap import mean_interval, weighted_interval
from gram.evaluation.weighting import Floats, Weighting, exactly, headline_text, ideal_coverage, weightings
from gram.inference.judge import judge
from gram.inference.sample import Trajectories
from gram.inference.select import RULES, Rule, selected_are_valid
from gram.tasks.base import IGNORE, Task, Tokens

SELECTION = "selection"


@dataclass(frozen=True)
class PerInput:
    """Metrics of every distinct input; all arrays are [inputs]."""

    solutions: Tokens
    """how many solutions the input has"""
    first_valid: Floats
    """1 if the first trajectory's output is valid"""
    valid_share: Floats
    """fraction of the trajectories whose output is valid"""
    coverage: Floats
    """solutions found / all solutions"""
    any_valid: Floats
    """1 if any trajectory's output is valid"""
    conflicts: Tokens
    """how many rules the first trajectory's output breaks"""
    selected: dict[Rule, Floats]
    """1 if the answer that a rule chooses among all trajectories is valid"""


def measure(
    task: Task,
    inputs: Tokens,
    trajectories: Trajectories,
    rules: Sequence[Rule] = RULES,
    solutions: Sequence[Tokens] | None = None,
) -> PerInput:
    """Verify the outputs for inputs [inputs, length] and compare them with all solutions, listed here if not given."""
    judged = judge(task, inputs, trajectories.outputs)
    outputs, valid = judged.outputs, judged.valid
    solutions = solutions or [list_solutions(task, row) for row in inputs]
    covered = [coverage_of(some, outputs[i][valid[i]]) for i, some in enumerate(solutions)]
    totals = np.array([len(some) for some in solutions])
    rated = (outputs, trajectories.values, trajectories.confidence, valid)
    selected = {rule: selected_are_valid(*rated, rule).astype(np.float64) for rule in rules}
    return PerInput(
        solutions=totals,
        first_valid=valid[:, 0].astype(np.float64),
        valid_share=valid.mean(axis=1),
        coverage=np.array(covered),
        any_valid=np.asarray(valid.any(axis=1), dtype=np.float64),
        conflicts=judged.conflicts[:, 0],
        selected=selected,
    )


def list_solutions(task: Task, tokens: Tokens) -> Tokens:
    """Return all solutions [count, length] of an input [length]; raise `GramError` where they cannot be listed."""
    solutions = task.solutions(tokens)
    if solutions is None or len(solutions) == 0:
        raise GramError(
            f"Task {task.name} lists no solutions, so coverage is not defined: its method `solutions` must return "
            "all solutions of an input."
        )
    return task.canonical(solutions)


def coverage_of(solutions: Tokens, outputs: Tokens) -> float:
    """Return the fraction of solutions [solutions, length] that outputs [outputs, length] contain, where labelled."""
    outputs = np.unique(outputs, axis=0)
    hit = np.zeros(len(solutions), dtype=np.bool_)
    for output in outputs:
        hit |= ((solutions == output) | (solutions == IGNORE)).all(axis=1)
    return float(hit.mean())


def summarise(per_input: PerInput, rows_per_input: Tokens, steps: NDArray[np.int64]) -> dict[str, object]:
    """Return all metrics of an evaluation, in every weighting and by number of solutions.

    rows_per_input [inputs] is the number of test rows of each input, steps [inputs, width] those of each trajectory.
    """
    draws, solutions = steps.shape[1], per_input.solutions
    weights = weightings(solutions, rows_per_input)
    headline = weights.pop("headline")
    means = _means(per_input, headline, draws)
    low, high = mean_interval(per_input.conflicts.astype(np.float64))
    means["intervals"] |= {"conflicts": [low * len(solutions), high * len(solutions)]}
    return {
        **means,
        "headline": headline_text(headline),
        "headline_rows": headline.count,
        **{name: {**_means(per_input, each, draws), each.unit: each.count} for name, each in weights.items()},
        "by_solutions": [
            {"solutions": int(k), **_means(per_input, alike, draws), alike.unit: alike.count}
            for k in np.unique(solutions)
            for alike in [exactly(solutions, int(k))]
        ],
        "conflicts": int(per_input.conflicts.sum()),
        "mean_steps": float(steps.mean()),
    }


def _means(per_input: PerInput, weighting: Weighting, draws: int) -> dict[str, Any]:
    """Return the metrics in one weighting with 95% intervals, and the coverage of ideal models with as many samples."""
    each = metrics_of(per_input)
    weights = weights_of(weighting, each)
    columns, factors = np.stack(list(each.values()), axis=1), np.stack(list(weights.values()), axis=1)
    means = {name: float(np.average(values, weights=weights[name])) for name, values in each.items()}
    bounds = dict(zip(each, weighted_interval(columns, factors).tolist(), strict=True))
    return {**_nested(means), **ideal_coverage(per_input.solutions, weighting, draws), "intervals": _nested(bounds)}


def metrics_of(per_input: PerInput) -> dict[str, Floats]:
    """Return every metric of each input [inputs] by name; `selection.RULE` is for the answer that a rule chooses."""
    return {
        "accuracy": per_input.first_valid,
        "accuracy_all_samples": per_input.valid_share,
        "coverage": per_input.coverage,
        "any_valid": per_input.any_valid,
        **{f"{SELECTION}.{rule}": values for rule, values in per_input.selected.items()},
    }


def weights_of(weighting: Weighting, names: Iterable[str]) -> dict[str, Floats]:
    """Return how much each input counts [inputs] in each of these metrics."""
    return {name: weighting.coverage if name == "coverage" else weighting.accuracy for name in names}


def _nested(flat: dict[str, Any]) -> dict[str, Any]:
    """{"accuracy": 1, "selection.vote": 2} -> {"accuracy": 1, "selection": {"vote": 2}}."""
    chosen = {name.removeprefix(f"{SELECTION}."): value for name, value in flat.items() if name.startswith(SELECTION)}
    return {**{name: value for name, value in flat.items() if not name.startswith(SELECTION)}, SELECTION: chosen}
