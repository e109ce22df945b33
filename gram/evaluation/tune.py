"""Choose depth, temperature and halting on the validation split, by rules that do not use the test split."""

from dataclasses import dataclass
from typing import Any

from rich.console import Console

from gram.config import SampleOptions
from gram.errors import GramError
from gram.evaluation.evaluate import score
from gram.inference.sample import Trajectories, sample_depths, sharing_depths
from gram.models.base import Trained
from gram.progress import bar

Temperatures = tuple[float, float]
"""Those of the first and of the last step; in between the temperature changes linearly."""
HALT_AT = (0.5, 0.8, 0.85, 0.9, 0.93, 0.95, 0.98, 0.99, 0.995, 0.998, 0.999)
"""Thresholds of halting that are tried, by the halt head and by the decoder's probability of its output."""
WIDTH = 20
"""Trajectories per input."""
HALTING_LOSS = 0.002
"""Accuracy over all samples that halting may cost."""


@dataclass(frozen=True)
class Tuning:
    """The settings among which `gram tune` chooses on the validation split."""

    depths: tuple[int, ...] = (8, 16)
    temperatures: tuple[Temperatures, ...] = ((1.0, 1.0),)
    limit: int | None = None
    """validation inputs, the first ones"""
    accuracy: float = 0.99
    """smallest acceptable accuracy over all samples"""


@dataclass(frozen=True)
class Tuned:
    """What was tried and chosen; every item has its settings and all metrics of the validation split."""

    tried: list[dict[str, Any]]
    """every depth and temperature, without halting"""
    chosen: dict[str, Any]
    halting: list[dict[str, Any]]
    """every `halt_by` and `halt_at` at the chosen depth and temperature; empty for a model without thresholds"""
    halt: dict[str, Any] | None
    """the chosen one; None if none is safe and saves steps"""

    @property
    def settings(self) -> dict[str, Any]:
        """Return the chosen sampling options, as they are written into a model's."""
        return {name: self.chosen[name] for name in ("depth", "temperature", "temperature_final")}

    @property
    def halting_settings(self) -> dict[str, Any]:
        """Return the options that switch halting on or off; empty for a model that has no threshold."""
        if not self.halting:
            return {}
        if self.halt is None:
            return {"halt": False}
        return {"halt": True, **{name: self.halt[name] for name in ("halt_by", "halt_at")}}


def tune_settings(trained: Trained, tuning: Tuning, console: Console, *, width: int = WIDTH, seed: int = 0) -> Tuned:
    """Evaluate every depth and temperature on the validation split, choose among them, and choose where to halt.

    All depths and thresholds are read off the same trajectories, where the temperature does not depend on the depth.
    """
    if trained.task.scoring != "solutions":
        raise GramError(
            f"Task {trained.task.name} has no accuracy and coverage, by which depth and temperature are chosen."
        )
    examples = trained.task.split("validation")
    if not len(examples):
        raise GramError(f"The validation split of {trained.task.name} is empty, so settings cannot be compared.")
    asked = examples.distinct(tuning.limit)
    tried: list[dict[str, Any]] = []
    best: Trajectories | None = None
    model, ids = trained.model, asked.puzzle_ids
    plain = [SampleOptions(width, seed=seed, **temperature_settings(each)) for each in tuning.temperatures]
    draws = sum(len(sharing_depths(model, options, tuning.depths)) for options in plain)
    with bar(console, "sampling", len(asked.rows) * width * draws) as advance:
        for options in plain:
            setting = options.only(frozenset(("temperature", "temperature_final")))
            drawn = sample_depths(model, asked.inputs, options, tuning.depths, puzzle_ids=ids, progress=advance)
            for depth, found in drawn:
                tried.append({"depth": depth, **setting, **score(trained.task, asked, found)})
                if choose_setting(tried, tuning.accuracy) is tried[-1]:  # ties stay with an earlier one
                    best = found
    assert best is not None, "there is at least one temperature"
    chosen = choose_setting(tried, tuning.accuracy)
    halting = []
    if "halt_at" in model.supported:
        tried_halting: list[dict[str, Any]] = [
            {"halt_by": by, "halt_at": at} for by in ("head", "output") for at in HALT_AT
        ]
        halting = [{**how, **score(trained.task, asked, best.halting(**how))} for how in tried_halting]
    return Tuned(tried, chosen, halting, choose_halting(halting, chosen))


def temperature_settings(temperatures: Temperatures) -> dict[str, Any]:
    """Return the sampling options for the temperatures of the first and of the last step."""
    first, final = temperatures
    return {"temperature": first, "temperature_final": None if final == first else final}


def choose_setting(tried: list[dict[str, Any]], accuracy: float) -> dict[str, Any]:
    """Return the setting with the highest coverage among those that reach `accuracy`, or else the most accurate one."""
    good = [item for item in tried if item["accuracy_all_samples"] >= accuracy]
    if good:
        return max(good, key=lambda item: item["coverage"])
    return max(tried, key=lambda item: item["accuracy_all_samples"])


def choose_halting(tried: list[dict[str, Any]], full_depth: dict[str, Any]) -> dict[str, Any] | None:
    """Return the item with the fewest steps that costs at most `HALTING_LOSS` of the accuracy at full depth.

    Return None if no such item saves steps.
    """
    least, steps = full_depth["accuracy_all_samples"] - HALTING_LOSS, full_depth["mean_steps"]
    safe = [item for item in tried if item["accuracy_all_samples"] >= least and item["mean_steps"] < steps]
    return min(safe, key=lambda item: item["mean_steps"], default=None)
