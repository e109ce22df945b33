"""Checks that a recipe and its task fit together, before any long work."""

import math

import numpy as np

from gram.config import ImageSection, ModelConfig, ObjectiveConfig, Recipe, VaeConfig
from gram.errors import GramError
from gram.evaluation.metrics import list_solutions
from gram.tasks.base import Examples, Task, Tokens


def resolve_recipe(recipe: Recipe, task: Task) -> Recipe:
    """Set the number of puzzles to that of the task; without puzzles, the puzzle tokens are zeros."""
    model = recipe.model
    if not isinstance(model, ModelConfig) or not model.puzzle_tokens or model.puzzles:
        return recipe
    return recipe.model_copy(update={"model": model.model_copy(update={"puzzles": task.puzzles})})


def check_fit(recipe: Recipe, task: Task, splits: dict[str, Examples]) -> None:
    """Raise `GramError` if a recipe does not fit its task."""
    for name, part in splits.items():
        if not len(part) and (name != "validation" or task.has_validation):
            raise GramError(
                f"The {name} split of {task.name} is empty: change the sizes of the splits in task.options."
            )
    if recipe.train.keep == "best" and not (len(splits["validation"]) and task.has_rules):
        raise GramError(f"train.keep: best needs a checker and a validation split, and {task.name} lacks one of them.")
    if task.scoring == "solutions":
        list_solutions(task, splits["test"].inputs[0])
    model = recipe.model
    if isinstance(model, VaeConfig) and task.scoring != "generation":
        raise GramError(f"A VAE is unconditional and cannot solve the puzzles of {task.name}.")
    if isinstance(model, ImageSection) and model.image is not None and math.prod(model.image) != task.length:
        raise GramError(
            f"model.image {list(model.image)} does not fit {task.name}: its rows have {task.length} tokens."
        )
    if isinstance(model, ModelConfig):
        _check_reasoner(model, recipe.objective, task, splits["train"].groups)


def _check_reasoner(model: ModelConfig, objective: ObjectiveConfig, task: Task, groups: Tokens) -> None:
    if model.puzzle_tokens and model.puzzles != task.puzzles:
        raise GramError(f"Task {task.name} has {task.puzzles} puzzle ids: leave out model.puzzles ({model.puzzles}).")
    # In a generation task every answer is one to the only input.
    looked_up = objective.learn_from_rollouts and task.scoring != "generation"
    if looked_up and task.augments and len(groups) > len(np.unique(groups)):
        # The other solutions of an input are stored as they were before its slot's augmentation.
        raise GramError(
            f"Task {task.name} augments inputs with several solutions: set objective.learn_from_rollouts to false."
        )
    if objective.reserve and not (task.exchanges and objective.learn_from_rollouts):
        raise GramError(
            "objective.reserve is for images with objective.learn_from_rollouts, whose rollouts exchange targets."
        )
