"""The registry of tasks: a name, and the class that obeys `gram.tasks.base.Task`."""

import inspect
import re
from collections.abc import Mapping
from importlib import import_module
from types import MappingProxyType
from typing import Any, NamedTuple

from gram.errors import GramError
from gram.tasks.base import Task


class Entry(NamedTuple):
    """Where a task's class is; it is imported when it is first used, because some need seconds to import."""

    module: str
    class_name: str
    fixed: Mapping[str, Any] = MappingProxyType({})
    """options that the name itself stands for"""

    def load(self) -> type[Task]:
        """Import the class."""
        found: type[Task] = getattr(import_module(f"gram.tasks.{self.module}"), self.class_name)
        return found


TASKS: dict[str, Entry] = {
    "nqueens": Entry("nqueens", "NQueens"),
    "colouring": Entry("colouring.task", "Colouring"),
    "sudoku": Entry("sudoku.generated", "SudokuHard"),
    "sudoku-hard": Entry("sudoku.generated", "SudokuHard"),
    "sudoku-extreme": Entry("sudoku.extreme", "SudokuExtreme"),
    "sudoku-generation": Entry("sudoku.generated", "SudokuGeneration"),
    "arc": Entry("arc.task", "ARC"),
    "arc-1": Entry("arc.task", "ARC", {"version": 1}),
    "arc-2": Entry("arc.task", "ARC", {"version": 2}),
    "mnist": Entry("images", "MNIST"),
    "digits": Entry("images", "Digits"),
    "tokens": Entry("tokens.task", "TokenFile"),
}
SIZED = ("nqueens", "colouring", "sudoku")
"""Tasks whose name may end in the size of the board, such as nqueens-8."""


def make_task(name: str, **options: Any) -> Task:
    """Build a task from its name (`sudoku-hard`, `nqueens`, or with its size `nqueens-8`) and keyword options."""
    if name == "none":
        raise GramError("This model was imported without a task: import it again with --task.")
    entry, implied = _find(name)
    contradicted = [option for option, value in implied.items() if options.get(option, value) != value]
    if contradicted:
        option = contradicted[0]
        raise GramError(f"Task '{name}' and its option {option}={options[option]} contradict each other.")
    options = {**implied, **options}
    kind = entry.load()
    known = list(inspect.signature(kind).parameters)
    unknown = [option for option in options if option not in known]
    if unknown:
        raise GramError(f"Task '{name}' has no option '{unknown[0]}'; it has {', '.join(known)}.")
    try:
        return kind(**options)
    except (TypeError, ValueError) as error:  # a word where a number belongs, for example
        raise GramError(f"Task '{name}' cannot be built with {options}: {error}.") from error


def stored_task(
    name: str, options: Mapping[str, Any], *, vocab_size: int, length: int, plugin: str | None = None
) -> Task:
    """Build the task that a model's folder names, without running any code that the folder names.

    Args:
        name: of the task.
        options: as stored with the model; a `plugin` among them is left out, because it is code.
        vocab_size: the model's, for a task whose data is not at hand.
        length: the same.
        plugin: the user's own, which is run.
    """
    known = {option: value for option, value in options.items() if option != "plugin"}
    if plugin is not None:
        known["plugin"] = plugin
    if name == "tokens" and isinstance(known.get("path"), str):
        from gram.tasks.tokens.plugin import found
        from gram.tasks.tokens.without_data import TokensWithoutData

        try:
            found(known["path"])
        except GramError:
            used = {option: known.get(option) for option in ("plugin", "shape")}
            return TokensWithoutData(path=known["path"], vocab_size=vocab_size, length=length, **used)
    return make_task(name, **known)


def _find(name: str) -> tuple[Entry, Mapping[str, Any]]:
    """The entry of a task, and the options that its name implies."""
    if name in TASKS:
        return TASKS[name], TASKS[name].fixed
    sized = re.fullmatch(r"(.+)-([0-9]{1,3})", name)
    if sized is None or sized[1] not in SIZED:
        known = ", ".join(f"{kind}-SIZE" if kind in SIZED else kind for kind in TASKS)
        raise GramError(f"There is no task '{name}'; there is {known}.")
    return TASKS[sized[1]], {"size": int(sized[2])}
