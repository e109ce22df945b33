"""Evaluate a model on a split: sample, judge, and report every figure with its settings."""

from dataclasses import asdict
from typing import Any

from gram.errors import GramError
from gram.evaluation.metrics import measure, summarise
from gram.inference.rollout import Progress, SampleOptions, sample
from gram.nn.reasoner import Reasoner
from gram.tasks.base import Examples, SplitName, Task


def evaluate(
    model: Reasoner,
    task: Task,
    split: SplitName,
    options: SampleOptions,
    *,
    limit: int | None = None,
    progress: Progress | None = None,
    examples: Examples | None = None,
) -> dict[str, Any]:
    """Accuracy, coverage and steps on a split (its first `limit` distinct inputs), as a JSON-ready dictionary."""
    examples = task.split(split) if examples is None else examples
    if not len(examples):
        raise GramError(f"The {split} split of {task.name} is empty: there is nothing to evaluate.")
    inputs, rows_per_input = examples.distinct(limit)
    trajectories = sample(model, inputs, options, progress=progress)
    result = summarise(measure(task, inputs, trajectories), rows_per_input, trajectories.steps)
    settings = {key: value for key, value in asdict(options).items() if key != "keep_steps"}
    return {
        **result,
        **settings,
        "task": task.name,
        "split": split,
        "split_hash": task.split_hash(),
        "parameters": model.parameter_count,
    }
