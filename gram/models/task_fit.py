"""What a reasoner's settings require of the task that it is to learn."""

import math

import numpy as np

from gram.config import ModelConfig, ObjectiveConfig
from gram.errors import GramError
from gram.tasks.base import Examples, Task


def check_reasoner(model: ModelConfig, objective: ObjectiveConfig, task: Task, examples: Examples) -> None:
    """Raise `GramError` if the settings do not fit the task or its training split."""
    if model.image is not None and math.prod(model.image) != task.length:
        raise GramError(
            f"model.image {list(model.image)} does not fit {task.name}: its rows have {task.length} tokens."
        )
    if model.puzzle_tokens and model.puzzles != task.puzzles:
        raise GramError(f"Task {task.name} has {task.puzzles} puzzle ids: leave out model.puzzles ({model.puzzles}).")
    # In a generation task every answer is one to the only input.
    looked_up = objective.learn_from_rollouts and task.scoring != "generation"
    if looked_up and task.augments and len(examples.groups) > len(np.unique(examples.groups)):
        # The other solutions of an input are stored as they were before its slot's augmentation.
        raise GramError(
            f"Task {task.name} augments inputs with several solutions: set objective.learn_from_rollouts to false."
        )
    if objective.reserve and not (task.exchanges and objective.learn_from_rollouts):
        raise GramError(
            "objective.reserve is for images with objective.learn_from_rollouts, whose rollouts exchange targets."
        )
