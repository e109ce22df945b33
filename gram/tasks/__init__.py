"""The registry of tasks: a name, and the class that obeys `gram.tasks.base.Task`."""

import inspect
from typing import Any

from gram.errors import GramError
from gram.tasks.base import Task
from gram.tasks.nqueens import NQueens

TASKS: dict[str, type[Task]] = {"nqueens": NQueens}


def make_task(name: str, **options: Any) -> Task:
    """Build a task from its name (`nqueens`, or with its size `nqueens-8`) and keyword options."""
    kind, _, size = name.partition("-")
    if kind not in TASKS or (size and not size.isdigit()):
        raise GramError(f"There is no task '{name}'; there is {', '.join(f'{known}-SIZE' for known in TASKS)}.")
    if size:
        options = {"size": int(size), **options}
    known = list(inspect.signature(TASKS[kind]).parameters)
    unknown = [option for option in options if option not in known]
    if unknown:
        raise GramError(f"Task '{kind}' has no option '{unknown[0]}'; it has {', '.join(known)}.")
    return TASKS[kind](**options)
