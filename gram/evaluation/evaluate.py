"""Evaluate a model on a split: sample, score as the task is scored, and report every metric with its settings."""

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from gram.config import SampleOptions
from gram.errors import GramError
from gram.evaluation.generation import score_samples
from gram.evaluation.metrics import measure, summarise
from gram.inference.resampling import Resampling, search
from gram.inference.sample import Progress, Trajectories, sample
from gram.inference.select import BY_HEADS, RULES
from gram.models.base import Model
from gram.models.registry import as_reasoner
from gram.tasks.base import Distinct, Examples, SplitName, Task

if TYPE_CHECKING:
    from lightning_fabric import Fabric

    from gram.tasks.arc.task import ARC

HEADLINES = {
    "solutions": ("accuracy_all_samples", "coverage"),
    "generation": ("validity", "uniqueness"),
    "votes": ("pass@1", "pass@2"),
}
"""The two metrics that are reported during a run, for each kind of scoring."""


def headlines(task: Task) -> tuple[str, ...]:
    """Return the names of the metrics that a model of this task is reported by."""
    return tuple(name for name in HEADLINES[task.scoring] if task.has_rules or name != "validity")


def evaluate(
    model: Model,
    task: Task,
    split: SplitName,
    options: SampleOptions,
    *,
    limit: int | None = None,
    progress: Progress | None = None,
    examples: Examples | None = None,
    submission: Path | None = None,
    fabric: "Fabric | None" = None,
    resampling: Resampling | None = None,
    full_depth: bool = False,
) -> dict[str, Any]:
    """Return all metrics on a split (its first `limit` distinct inputs) as a JSON-ready dictionary.

    With `fabric`, all its processes must call this function, and they share the sampling. With `resampling`,
    trajectories are resampled between steps. With options that keep the steps, the calibration of the heads is
    measured as well. With `full_depth`, options that halt are evaluated without halting too: `full_depth` of the result
    holds the headline metrics and the mean steps.

    For a task that is scored by votes, `submission` is a file for the two best answers to every question.
    """
    examples = task.split(split) if examples is None else examples
    if not len(examples):
        raise GramError(f"The {split} split of {task.name} is empty: there is nothing to evaluate.")
    asked = examples.distinct(limit)
    more: dict[str, Any] = {"puzzle_ids": asked.puzzle_ids, "progress": progress}
    if resampling is not None:
        reasoner = as_reasoner(model, "Only trajectories of a recursive model can be resampled.")
        trajectories = search(reasoner, asked.inputs, options, resampling, **more)
    elif fabric is None:
        trajectories = sample(model, asked.inputs, options, **more)
    else:
        from gram.inference.sharded import sample_together

        trajectories = sample_together(fabric, model, asked.inputs, options, **more)
    settings = options.only(model.supported - {"keep_steps", "keep_states"})
    extra: dict[str, Any] = {}
    if full_depth:
        endless = replace(options, halt=False)
        other = evaluate(model, task, split, endless, limit=limit, progress=progress, examples=examples, fabric=fabric)
        extra["full_depth"] = {name: other[name] for name in (*headlines(task), "mean_steps")}
    if resampling is not None:
        sizes = {str(step): float(np.mean(some)) for step, some in resampling.sample_sizes.items()}
        extra["resampling"] = {"power": resampling.power, "effective_sample_size": sizes}
    if options.keep_steps:
        from gram.evaluation.calibration import calibration

        extra["calibration"] = calibration(task, asked.inputs, trajectories)
    return {
        **score(task, asked, trajectories, submission, heads=model.recursive),
        **extra,
        **settings,
        "task": task.name,
        "scoring": task.scoring,
        "split": split,
        "split_hash": task.split_hash(),
        "inputs": len(asked.rows),
        "inputs_in_split": len(examples.distinct().rows),
        "parameters": model.parameter_count,
    }


def score(
    task: Task, asked: Distinct, trajectories: Trajectories, submission: Path | None = None, *, heads: bool = True
) -> dict[str, Any]:
    """Return the metrics of trajectories [inputs, width]; `heads` if the model has halt and value heads."""
    if task.scoring == "generation":
        return {**score_samples(task, trajectories.outputs[0]), "mean_steps": float(trajectories.steps.mean())}
    if task.scoring == "votes":
        from gram.evaluation.votes import score_votes

        return score_votes(cast("ARC", task), asked, trajectories, submission)
    rules = [rule for rule in RULES if heads or rule not in BY_HEADS]
    return summarise(measure(task, asked.inputs, trajectories, rules), asked.rows, trajectories.steps)
