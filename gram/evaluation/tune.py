"""Choose depth and temperature on the validation split, by a rule that does not depend on the test split."""

from collections.abc import Callable
from typing import Any

from gram.config import SampleOptions
from gram.errors import GramError
from gram.evaluation.evaluate import score
from gram.inference.sample import sample
from gram.models.base import Trained


def try_settings(
    trained: Trained,
    depths: list[int],
    temperatures: list[float],
    *,
    width: int,
    seed: int,
    limit: int | None,
    progress: Callable[[int], None],
) -> list[dict[str, Any]]:
    """Evaluate every depth and temperature on the validation split; all depths are read off the same trajectories."""
    if trained.task.scoring != "solutions":
        raise GramError(
            f"Task {trained.task.name} has no accuracy and coverage, by which depth and temperature are chosen."
        )
    examples = trained.task.split("validation")
    if not len(examples):
        raise GramError(f"The validation split of {trained.task.name} is empty, so settings cannot be compared.")
    asked = examples.distinct(limit)
    results = []
    for temperature in temperatures:
        # No halting, so that every depth of every trajectory is there to be read off.
        options = SampleOptions(width=width, depth=max(depths), temperature=temperature, seed=seed, keep_steps=True)
        drawn = sample(trained.model, asked.inputs, options, puzzle_ids=asked.puzzle_ids, progress=progress)
        for depth in depths:
            cut = score(trained.task, asked, drawn.at_depth(depth))
            results.append({"depth": depth, "temperature": temperature, **cut})
    return results


def choose_setting(tried: list[dict[str, Any]], accuracy: float) -> dict[str, Any]:
    """Return the setting with the highest coverage among those that reach `accuracy`, or else the most accurate one."""
    good = [item for item in tried if item["accuracy_all_samples"] >= accuracy]
    if good:
        return max(good, key=lambda item: item["coverage"])
    return max(tried, key=lambda item: item["accuracy_all_samples"])
