"""The registry of tasks: a name, and the class that obeys `gram.tasks.base.Task`."""

import inspect
import re
from typing import Any

from gram.errors import GramError
from gram.tasks.base import Task
from gram.tasks.nqueens import NQueens

TASKS: dict[str, type[Task]] = {"nqueens": NQueens}


def make_task(name: str, **options: Any) -> Task:
    """Build a task from its name (`nqueens`, or with its size `nqueens-8`) and keyword options."""
    if name == "none":
        raise GramError("This model was imported without a task: import it again with --task.")
    kind, dash, size = name.partition("-")
    if kind not in TASKS or (dash and not re.fullmatch(r"[0-9]{1,3}", size)):
        raise GramError(f"There is no task '{name}'; there is {', '.join(f'{known}-SIZE' for known in TASKS)}.")
    if size and options.setdefault("size", int(size)) != int(size):
        raise GramError(f"Task '{name}' and its option size={options['size']} contradict each other.")
    known = list(inspect.signature(TASKS[kind]).parameters)
    unknown = [option for option in options if option not in known]
    if unknown:
        raise GramError(f"Task '{kind}' has no option '{unknown[0]}'; it has {', '.join(known)}.")
    try:
        return TASKS[kind](**options)
    except (TypeError, ValueError) as error:  # a word where a number belongs, for example
        raise GramError(f"Task '{kind}' cannot be built with {options}: {error}.") from error
