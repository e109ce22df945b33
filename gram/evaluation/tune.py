"""Choose depth and temperature on the validation split, by a rule that is stated before the test split is looked at."""

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
        raise GramError(f"Task {trained.task.name} has no accuracy and coverage to choose depth and temperature by.")
    examples = trained.task.split("validation")
    if not len(examples):
        raise GramError(f"The validation split of {trained.task.name} is empty: there is nothing to choose by.")
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
    """The highest coverage among the settings that reach `accuracy` (over all samples); else the highest accuracy."""
    good = [item for item in tried if item["accuracy_all_samples"] >= accuracy]
    if good:
        return max(good, key=lambda item: item["coverage"])
    return max(tried, key=lambda item: item["accuracy_all_samples"])
