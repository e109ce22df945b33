"""What is measured on the validation split while a model trains."""

import numpy as np
import torch
from lightning_fabric import Fabric

from gram.config import Recipe
from gram.evaluation.evaluate import evaluate, headlines
from gram.inference.sample import Progress
from gram.models.baselines.model import Generative
from gram.models.build import Model
from gram.models.losses import trajectory_elbo
from gram.options import SampleOptions
from gram.tasks.base import Examples, Task


def validation_options(recipe: Recipe, task: Task) -> SampleOptions:
    """Return how the validation samples."""
    # Where there is but one input, the samples that would go to all go to it.
    width = recipe.train.eval_width * (recipe.train.eval_inputs if task.scoring == "generation" else 1)
    depth, temperature = recipe.model.supervision_steps, recipe.eval.temperature
    return SampleOptions(width=width, depth=depth, temperature=temperature, top_p=recipe.eval.top_p)


def validation_figures(
    model: Model,
    task: Task,
    examples: Examples,
    recipe: Recipe,
    fabric: Fabric,
    *,
    progress: Progress | None = None,
) -> dict[str, float]:
    """Return metrics of prior rollouts on a fixed part of the validation split, and the ELBO beside the surrogate."""
    config = recipe.train
    result = evaluate(
        model,
        task,
        "validation",
        validation_options(recipe, task),
        limit=config.eval_inputs,
        examples=examples,
        fabric=fabric,
        progress=progress,
    )
    figures = {f"validation_{key}": result[key] for key in headlines(task)}
    device = fabric.device
    inputs, targets = (
        torch.from_numpy(np.array(part[: config.eval_inputs])).to(device)
        for part in (examples.inputs, examples.targets)
    )
    generator = torch.Generator(device=device).manual_seed(config.seed)
    if isinstance(model, Generative):
        nats = model.law.log_likelihood_bound(inputs, targets, generator=generator)
        return figures | {"validation_nats": -float(nats.mean())}
    if model.is_random and model.guidance is not None:  # at variance 0 the KL is not finite; fixed noise has none
        ids = None
        if model.config.puzzles and examples.puzzle_ids is not None:
            ids = torch.from_numpy(examples.puzzle_ids[: config.eval_inputs]).to(device)
        elbo, surrogate = trajectory_elbo(
            model, inputs, targets, puzzle_ids=ids, kind=recipe.objective.cross_entropy, generator=generator
        )
        figures |= {"validation_negative_elbo": float(elbo.mean()), "validation_surrogate": float(surrogate.mean())}
    return figures
