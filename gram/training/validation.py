"""Validation during training."""

from dataclasses import replace

from lightning_fabric import Fabric

from gram.config import Recipe, SampleOptions
from gram.evaluation.evaluate import evaluate, headlines
from gram.evaluation.likelihood import tensors_of
from gram.inference.sample import Progress
from gram.models.base import Model
from gram.tasks.base import Examples, Task


def validation_options(model: Model, recipe: Recipe, task: Task) -> SampleOptions:
    """Return the sampling options of the validation."""
    # With a single input, the samples of all inputs are drawn for it.
    width = recipe.train.eval_width * (recipe.train.eval_inputs if task.scoring == "generation" else 1)
    return replace(recipe.eval, width=width, depth=model.trained_depth, halt=False, seed=0)


def validate(
    model: Model, task: Task, examples: Examples, recipe: Recipe, fabric: Fabric, *, progress: Progress | None = None
) -> dict[str, float]:
    """Return the metrics of prior rollouts on a fixed part of the validation split, and the model's own metrics."""
    config = recipe.train
    options, limit = validation_options(model, recipe, task), config.eval_inputs
    result = evaluate(
        model, task, "validation", options, limit=limit, examples=examples, fabric=fabric, progress=progress
    )
    metrics = {f"validation_{key}": result[key] for key in headlines(task)}
    inputs, targets, ids = tensors_of(model, examples, slice(config.eval_inputs))
    own = model.validation_metrics(inputs, targets, puzzle_ids=ids, seed=config.seed)
    return metrics | {f"validation_{name}": value for name, value in own.items()}
