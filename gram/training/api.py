"""`gram.train`: train by a recipe, or on one's own arrays, from Python."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rich.console import Console

from gram.checkpoints.find import find_model
from gram.config import Recipe, TaskConfig, load_recipe
from gram.errors import GramError
from gram.solver import Solver, load
from gram.tasks import is_outside
from gram.tasks.base import whole_numbers
from gram.tasks.store import save_arrays
from gram.training import loop
from gram.training.run_checkpoint import check_new

OWN_DATA = "tokens/gram"
"""The shipped recipe for arrays of the user's own."""


def train(
    recipe: str | Path | Recipe = OWN_DATA,
    *,
    out: str | Path,
    inputs: Any = None,
    targets: Any = None,
    overrides: Sequence[str] = (),
    start: str | Path | None = None,
    quiet: bool = False,
) -> Solver:
    """Train a model into the new folder `out` and return it, ready to use; `out/test.json` has its metrics.

    Args:
        recipe: a shipped recipe such as "nqueens-8/gram", a recipe file, or a `Recipe`.
        out: folder of the run; it must not exist.
        inputs: your own data instead of the recipe's task: whole numbers [rows, length], or [rows, height, width].
        targets: the answers, of the same shape; -100 marks a position without a label.
        overrides: changes to a recipe file, such as ["train.steps=500"].
        start: a model whose weights the training starts from.
        quiet: print nothing.
    """
    folder = Path(out)
    check_new(folder)
    if isinstance(recipe, Recipe) and overrides:
        raise GramError("Overrides apply to recipe files only: change a Recipe with its method model_copy.")
    settings = recipe if isinstance(recipe, Recipe) else load_recipe(recipe, list(overrides))
    if inputs is not None or targets is not None:
        settings = settings.model_copy(update={"task": _own_task(folder, inputs, targets)})
    first = None if start is None else find_model(start)
    loop.train(settings, folder, Console(quiet=quiet), start=first)
    task = settings.task
    return load(folder, task=task.name if is_outside(task.name) else None, plugin=task.options.get("plugin"))


def _own_task(folder: Path, inputs: Any, targets: Any) -> TaskConfig:
    """Write the user's arrays beside the run, and return the task that reads them."""
    if inputs is None or targets is None:
        raise GramError("Give both inputs and targets.")
    rows, answers = whole_numbers("inputs", inputs), whole_numbers("targets", targets)
    if rows.shape != answers.shape or rows.ndim not in (2, 3):
        raise GramError(
            f"inputs and targets must both be [rows, length] or [rows, height, width], not {list(rows.shape)} and "
            f"{list(answers.shape)}."
        )
    path = folder.with_name(f"{folder.name}-data.npz")
    check_new(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    flat = {"input": rows.reshape(len(rows), -1), "target": answers.reshape(len(rows), -1)}
    save_arrays(path, flat)
    options: dict[str, Any] = {"path": str(path)}
    if rows.ndim == 3:
        options["shape"] = list(rows.shape[1:])
    return TaskConfig(name="tokens", options=options)
