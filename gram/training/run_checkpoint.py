"""Checkpoints of a run in progress: everything needed to go on bit for bit, in files that are whole or not there.

A run's folder holds `run.json` (its recipe) and `checkpoints/step-NNNNNNNN.safetensors`, the last two of them. Each
carries a digest of its content, so that a damaged one is noticed and the one before is used.
"""

import hashlib
import json
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor

from gram.checkpoints.folder import FORMAT, RUN_FILE, check_format, read_json, write_whole
from gram.config import Recipe, parse_recipe
from gram.errors import GramError

CHECKPOINTS = "checkpoints"
KEPT = 2
"""Checkpoints that stay: the last, and the one before in case the last is damaged later."""


def check_new(folder: Path) -> None:
    """Refuse a folder that exists."""
    if folder.exists():
        raise GramError(
            f"{folder} exists already: choose another folder with --out, go on with --resume {folder}, or remove it."
        )


def begin_run(folder: Path, recipe: Recipe) -> None:
    """Make the folder of a new run."""
    check_new(folder)
    folder.mkdir(parents=True)
    content = {"format": FORMAT, "recipe": recipe.model_dump(mode="json")}
    write_whole(folder / RUN_FILE, lambda path: path.write_text(json.dumps(content, indent=2) + "\n"))


def recipe_of_run(folder: Path) -> Recipe:
    """The recipe that a run was begun with."""
    path = folder / RUN_FILE
    if not path.is_file():
        raise GramError(f"{folder} is not the folder of a run: {RUN_FILE} is missing.")
    content = read_json(path)
    if not isinstance(content, dict) or not isinstance(content.get("format"), int) or "recipe" not in content:
        raise GramError(f"{path} was not written by gram.")
    check_format(folder, content["format"])
    return parse_recipe(content["recipe"], source=str(path))


def check_same(stored: Recipe, given: Recipe) -> None:
    """Refuse to go on with another recipe than the run's, and say which keys differ."""
    old, new = (_flat(recipe.model_dump(mode="json")) for recipe in (stored, given))
    keys = sorted(key for key in old.keys() | new.keys() if old.get(key) != new.get(key))
    differ = [f"{key} is {old.get(key)} in the run and {new.get(key)} now" for key in keys]
    if differ:
        raise GramError(f"The run cannot go on with another recipe: {'; '.join(differ)}.")


def _flat(content: dict[str, Any], prefix: str = "") -> dict[str, Any]:
    flat: dict[str, Any] = {}
    for key, value in content.items():
        flat |= _flat(value, f"{prefix}{key}.") if isinstance(value, dict) else {prefix + key: value}
    return flat


def save_checkpoint(folder: Path, tensors: dict[str, Tensor], other: dict[str, Any]) -> None:
    """Write the checkpoint of step other["step"], then remove those that are no longer kept."""
    files = folder / CHECKPOINTS
    files.mkdir(exist_ok=True)
    save_state(files / f"step-{other['step']:08d}.safetensors", tensors, other)
    for old in checkpoints_of(folder)[KEPT:]:
        old.unlink()


def save_state(path: Path, tensors: dict[str, Tensor], other: dict[str, Any]) -> None:
    """Write tensors and JSON into one file, with a digest."""
    content = {name: tensor.detach().cpu().contiguous() for name, tensor in tensors.items()}
    metadata = {"format": str(FORMAT), "digest": digest_of(content), "other": json.dumps(other)}
    write_whole(path, lambda target: save_file(content, target, metadata=metadata))


def checkpoints_of(folder: Path) -> list[Path]:
    """The checkpoints of a run, the latest first."""
    return sorted((folder / CHECKPOINTS).glob("step-*.safetensors"), reverse=True)


def load_checkpoint(folder: Path) -> tuple[dict[str, Tensor], dict[str, Any], list[str]] | None:
    """The latest checkpoint that is whole, and what is wrong with later ones; None if none was written yet."""
    problems: list[str] = []
    for path in checkpoints_of(folder):
        try:
            return (*_read(path), problems)
        except (SafetensorError, OSError, ValueError, KeyError) as error:
            problems.append(f"{path.name} is damaged ({error})")
    if problems:
        raise GramError(f"No checkpoint of {folder} can be read: {'; '.join(problems)}.")
    return None


def _read(path: Path) -> tuple[dict[str, Tensor], dict[str, Any]]:
    with safe_open(path, framework="pt") as file:
        metadata = file.metadata() or {}
        check_format(path, int(metadata["format"]))
        tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 - not a dictionary
    if digest_of(tensors) != metadata["digest"]:
        raise ValueError("its content is not what was written")
    return tensors, json.loads(metadata["other"])


def digest_of(tensors: dict[str, Tensor]) -> str:
    """SHA-256 over names and bytes, in the order of the names."""
    digest = hashlib.sha256()
    for name in sorted(tensors):
        digest.update(name.encode())
        digest.update(tensors[name].contiguous().flatten().view(torch.uint8).numpy().tobytes())
    return digest.hexdigest()
