"""Checks that a recipe and its task fit together, before any long work."""

from gram.config import Recipe
from gram.errors import GramError
from gram.evaluation.metrics import list_solutions
from gram.models.registry import model_class
from gram.tasks.base import Examples, Task


def resolve_recipe(recipe: Recipe, task: Task) -> Recipe:
    """Fill in the settings of the model that the task determines."""
    return recipe.model_copy(update={"model": model_class(recipe.kind).for_task(recipe.model, task)})


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
    model_class(recipe.kind).check_task(recipe.model, recipe.objective, task, splits["train"])
