"""The registry of tasks: names and classes that derive from `gram.tasks.base.Task`."""

import inspect
import re
from collections.abc import Mapping
from importlib import import_module, metadata
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

from gram.errors import GramError
from gram.tasks.base import Task
from gram.tasks.outside import guarded, import_file

ENTRY_POINTS = "gram.tasks"
"""Entry point group of tasks that are installed as packages."""
OUTSIDE = r".+\.py:[A-Za-z_]\w*"


class Entry(NamedTuple):
    """Where a task's class is; it is imported when it is first used, because some need seconds to import."""

    module: str
    class_name: str
    fixed: Mapping[str, Any] = MappingProxyType({})
    """options that the name implies"""

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
    """Build a task from its name and keyword options.

    A name is that of a shipped task (`sudoku-hard`, `nqueens`, or with its size `nqueens-8`), of an installed one (an
    entry point of the group `gram.tasks`), or a class in a Python file of yours (`mytask.py:Latin`), which is run.
    """
    kind, options = _checked(name, options)
    try:
        return kind(**options)
    except (TypeError, ValueError) as error:  # a word where a number belongs, for example
        raise GramError(f"Task '{name}' cannot be built with {options}: {error}.") from error


def check_options(name: str, options: Mapping[str, Any]) -> None:
    """Raise `GramError` if the task `name` does not take these options; neither the task nor its data is built."""
    _checked(name, options)


def _checked(name: str, options: Mapping[str, Any]) -> tuple[type[Task], dict[str, Any]]:
    """Return the class of a task and all its options, or raise `GramError` on one that it does not take."""
    if name == "none":
        raise GramError("This model was imported without a task: import it again with --task.")
    kind, implied = _find(name)
    contradicted = [option for option, value in implied.items() if options.get(option, value) != value]
    if contradicted:
        option = contradicted[0]
        raise GramError(f"Task '{name}' and its option {option}={options[option]} contradict each other.")
    known = {**implied, **options}
    parameters = inspect.signature(kind, eval_str=True).parameters
    for option, value in known.items():
        if option not in parameters:
            raise GramError(f"Task '{name}' has no option '{option}'. Its options: {', '.join(parameters) or 'none'}.")
        if parameters[option].annotation is bool and not isinstance(value, bool):  # any word would count as true
            raise GramError(f"Option {option} of task '{name}' must be true or false, not '{value}'.")
    return kind, known


def stored_task(
    name: str,
    options: Mapping[str, Any],
    *,
    vocab_size: int,
    length: int,
    shape: tuple[int, int] | None = None,
    own: str | None = None,
    plugin: str | None = None,
) -> Task:
    """Build the task that a model's folder names, without running any code that the folder names.

    A `plugin` among the stored options is left out, because it is code; `plugin` and `own`, a task that gets the
    stored options, are the user's and are run. The sizes are the model's, for a task whose data is not available.
    """
    if own is not None:
        name = own
    elif is_outside(name):  # code: without it, rows of tokens can be given to the model, and nothing is verified
        from gram.tasks.tokens.without_data import TokensWithoutData

        return TokensWithoutData(path=name, vocab_size=vocab_size, length=length, shape=shape)
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


def is_outside(name: str) -> bool:
    """Return whether a task's name is that of a class in a Python file, such as `mytask.py:Latin`."""
    return re.fullmatch(OUTSIDE, name) is not None


def _find(name: str) -> tuple[type[Task], Mapping[str, Any]]:
    """Return the class of a task, and the options that its name implies."""
    if name in TASKS:
        return TASKS[name].load(), TASKS[name].fixed
    sized = re.fullmatch(r"(.+)-([0-9]{1,3})", name)
    if sized is not None and sized[1] in SIZED:
        return TASKS[sized[1]].load(), {"size": int(sized[2])}
    if is_outside(name) or name in metadata.entry_points(group=ENTRY_POINTS).names:
        return _outside_class(name), {}
    known = ", ".join(f"{kind}-SIZE" if kind in SIZED else kind for kind in TASKS)
    raise GramError(f"There is no task '{name}'. The tasks are {known}, and a class of your own as FILE.py:CLASS.")


def _outside_class(name: str) -> type[Task]:
    """Import the class of a task that is not in the package."""
    file, _, class_name = name.rpartition(":")
    if is_outside(name):
        module = guarded(f"The task {name} cannot be loaded", import_file, Path(file).expanduser())
        found = getattr(module, class_name, None)
    else:
        (entry,) = metadata.entry_points(group=ENTRY_POINTS, name=name)
        found = guarded(f"The task {name} cannot be loaded", entry.load)
    if not (inspect.isclass(found) and issubclass(found, Task)) or inspect.isabstract(found):
        raise GramError(f"The task {name} is not a complete class that derives from gram.tasks.base.Task.")
    return found
