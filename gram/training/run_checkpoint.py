"""Checkpoints of a run in progress: everything that an exact resume needs, in files that are written atomically.

A run's folder holds `run.json` (its recipe and the hash of its data) and `checkpoints/step-NNNNNNNN.safetensors`, the
last two of them. Each contains a digest of its content: a damaged one is detected, and the previous one is used.
"""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor

from gram.checkpoints.folder import FORMAT, RUN_FILE, check_format
from gram.checkpoints.weights import digest_of
from gram.config import Recipe, stored_recipe
from gram.config.dependent import flat
from gram.errors import GramError
from gram.files import CONFIG_FILE, LEFTOVER, locked, read_json, remove_leftovers, write_json, write_whole
from gram.processes import is_first_process
from gram.tasks import is_outside

CHECKPOINTS = "checkpoints"
KEPT = 2
"""Number of checkpoints to keep: the last, and the previous one in case the last is damaged later."""


def check_new(folder: Path) -> None:
    """Raise `GramError` unless a folder is new or empty."""
    if folder.exists() and not is_empty(folder):
        raise GramError(
            f"{folder} already exists: choose another folder with --out, resume with --resume {folder}, or remove it."
        )


def is_empty(folder: Path) -> bool:
    """Return whether a folder is empty, except for what a run that was killed at its start leaves behind."""
    return folder.is_dir() and all(LEFTOVER.fullmatch(path.name) for path in folder.iterdir())


@contextmanager
def working_in(folder: Path) -> Iterator[None]:
    """Create and lock the folder of a run; remove it again if nothing was written."""
    first = is_first_process()  # it locks and writes for all processes of the run
    if not first:
        yield
        return
    made = [path for path in (folder, *folder.parents) if not path.exists()]
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except FileExistsError as error:
        raise GramError(f"{folder} is a file: choose another folder with --out.") from error
    try:
        with locked(folder):
            yield
    finally:
        for path in made:
            if is_empty(path):
                remove_leftovers(path)
                path.rmdir()


def begin_run(folder: Path, recipe: Recipe, *, split_hash: str | None = None) -> None:
    """Create the folder of a new run."""
    check_new(folder)
    folder.mkdir(parents=True, exist_ok=True)
    remove_leftovers(folder)
    write_json(
        folder / RUN_FILE, {"format": FORMAT, "recipe": recipe.model_dump(mode="json"), "split_hash": split_hash}
    )


@dataclass(frozen=True)
class Begun:
    """The recipe and data of a run at its start."""

    recipe: Recipe
    split_hash: str | None
    """of its data; None for a run of an older version"""


def read_run(folder: Path) -> Begun:
    """Read the recipe and the data hash of a run."""
    path = folder / RUN_FILE
    if folder.is_dir() and is_empty(folder):
        raise GramError(f"{folder} is empty: give the recipe as well to start the run.")
    if not path.is_file():
        raise GramError(f"{folder} is not the folder of a run: {RUN_FILE} is missing.")
    content = read_json(path)
    if not isinstance(content, dict) or not isinstance(content.get("format"), int) or "recipe" not in content:
        raise GramError(f"{path} was not written by gram.")
    check_format(folder, content["format"])
    return Begun(stored_recipe(content["recipe"], source=str(path), exact=True), content.get("split_hash"))


def check_data(folder: Path, begun: Begun, split_hash: str, *, allow_other_data: bool) -> None:
    """Raise `GramError` if the data has changed since the run started."""
    if begun.split_hash in (None, split_hash) or allow_other_data:
        return
    raise GramError(
        f"The data has changed since the run in {folder} began (split {begun.split_hash} then, {split_hash} now): "
        "restore it, or resume with --allow-other-data."
    )


def check_plugin(stored: Recipe | None, plugin: str | None) -> None:
    """Raise `GramError` if only the folder names code to run; `stored` is None if the user's own recipe names it."""
    if stored is not None and is_outside(stored.task.name):
        raise GramError(
            f"The run's task {stored.task.name} is code outside the package: if you trust it, resume with the recipe, "
            "gram train RECIPE --resume RUN."
        )
    named = None if stored is None else stored.task.options.get("plugin")
    if named is not None and plugin is None:
        raise GramError(
            f"The run uses the plugin {named}, which is code: if you trust it, resume with --plugin {named}."
        )
    if named is None and plugin is not None:
        raise GramError("--plugin is for a run that was started with one; give it in the recipe instead.")


def check_same(stored: Recipe, given: Recipe) -> None:
    """Raise `GramError` with the differing keys if a recipe is not that of the run."""
    old, new = (dict(flat(recipe.model_dump(mode="json"))) for recipe in (stored, given))
    keys = sorted(key for key in old.keys() | new.keys() if old.get(key) != new.get(key))
    differ = [f"{key} is {old.get(key)} in the run and {new.get(key)} now" for key in keys]
    if differ:
        raise GramError(f"The run cannot be resumed with another recipe: {'; '.join(differ)}.")


def save_checkpoint(folder: Path, tensors: dict[str, Tensor], other: dict[str, Any]) -> None:
    """Write the checkpoint of step other["step"], then remove those that are no longer kept."""
    files = folder / CHECKPOINTS
    files.mkdir(exist_ok=True)
    save_state(files / f"step-{other['step']:08d}.safetensors", tensors, other)
    for old in checkpoints_of(folder)[KEPT:]:
        old.unlink()


def save_state(path: Path, tensors: dict[str, Tensor], other: dict[str, Any]) -> None:
    """Write tensors and JSON into one file, with a digest of all of it."""
    content = {name: tensor.detach().cpu().contiguous() for name, tensor in tensors.items()}
    text = json.dumps(other)
    metadata = {"format": str(FORMAT), "other": text, "sha256": digest_of(content, str(FORMAT), text)}
    write_whole(path, lambda target: save_file(content, target, metadata=metadata))


def checkpoints_of(folder: Path) -> list[Path]:
    """Return the checkpoints of a run, the latest first."""
    return sorted((folder / CHECKPOINTS).glob("step-*.safetensors"), reverse=True)


def load_checkpoint(folder: Path) -> tuple[dict[str, Tensor], dict[str, Any], list[str]] | None:
    """Return the latest intact checkpoint and the problems of later ones; None if none was written yet."""
    problems: list[str] = []
    for path in checkpoints_of(folder):
        try:
            return (*_read(path), problems)
        except (SafetensorError, OSError, ValueError, KeyError, RuntimeError) as error:
            problems.append(f"{path.name} is damaged ({' '.join(str(error).split())})")
    if problems:
        raise GramError(f"No checkpoint of {folder} can be read: {'; '.join(problems)}.")
    if (folder / CONFIG_FILE).exists():  # a checkpoint is written before every model
        raise GramError(
            f"The checkpoints of {folder} are missing, although it was trained: restore the folder {CHECKPOINTS}, or "
            "start a new run."
        )
    return None


def _read(path: Path) -> tuple[dict[str, Tensor], dict[str, Any]]:
    with safe_open(path, framework="pt") as file:
        metadata = file.metadata() or {}
        tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 - not a dictionary
    if "digest" in metadata and "sha256" not in metadata:
        raise GramError(f"{path} was written by an older gram: finish the run with that version.")
    if digest_of(tensors, metadata["format"], metadata["other"]) != metadata["sha256"]:
        raise ValueError("its content does not match its checksum")
    check_format(path, int(metadata["format"]))  # after the digest: a damaged number is not a newer format
    return tensors, json.loads(metadata["other"])
