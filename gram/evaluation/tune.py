"""Choose depth and temperature on the validation split, by a rule that is stated before the test split is looked at."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from gram.evaluation.evaluate import evaluate
from gram.solver import Solver


def try_settings(
    solver: Solver,
    grid: list[tuple[int, float]],
    *,
    width: int,
    seed: int,
    limit: int | None,
    progress: Callable[[int], None],
) -> list[dict[str, Any]]:
    """Evaluate every (depth, temperature) on the validation split."""
    examples = solver.task.split("validation")
    results = []
    for depth, temperature in grid:
        options = replace(solver.options, depth=depth, temperature=temperature, width=width, seed=seed)
        results.append(evaluate(solver.model, solver.task, "validation", options, limit=limit, examples=examples))
        progress(1)
    return results


def choose_setting(tried: list[dict[str, Any]], accuracy: float) -> dict[str, Any]:
    """The highest coverage among the settings that reach `accuracy` (over all samples); else the highest accuracy."""
    good = [item for item in tried if item["accuracy_all_samples"] >= accuracy]
    if good:
        return max(good, key=lambda item: item["coverage"])
    return max(tried, key=lambda item: item["accuracy_all_samples"])
