"""Files that a command is asked to write: what would be overwritten by mistake is refused before the work begins."""

import os
from collections.abc import Iterable
from pathlib import Path

from gram.errors import GramError
from gram.files import CONFIG_FILE

FIGURES = (".png", ".pdf", ".svg", ".jpg")
"""Formats of figures."""
SUFFIXES = {"figure": FIGURES, "process": (*FIGURES, ".gif"), "submission": (".json",)}
"""How the files of some options must end."""
BEGINNINGS: dict[str, tuple[bytes, ...]] = {
    ".png": (b"\x89PNG",),
    ".pdf": (b"%PDF",),
    ".svg": (b"<?xml", b"<svg"),
    ".jpg": (b"\xff\xd8",),
    ".gif": (b"GIF8",),
    ".npz": (b"PK",),
    ".json": (b"{", b"["),
    ".jsonl": (b"{",),
}
"""How files of a kind begin."""
MODEL_FILES = (CONFIG_FILE, "model.safetensors", "puzzles.json")
RUN_FILES = ("run.json", "test.json", "metrics.jsonl", "diverged.safetensors", "README.md")


def check_target(path: Path | None, suffixes: tuple[str, ...] = ()) -> None:
    """Refuse, before any work, a file that cannot or should not be written."""
    if path is None:
        return
    if path.is_dir() or not path.name:
        raise GramError(f"'{path}' is a folder: give the name of a file.")
    if not path.parent.is_dir():
        raise GramError(f"The folder of {path} does not exist.")
    if suffixes and path.suffix not in suffixes:
        raise GramError(f"{path} must end in one of {', '.join(suffixes)}.")
    if path.name in MODEL_FILES or (path.name in RUN_FILES and _is_run(path.parent)) or _is_inside_run(path):
        raise GramError(f"{path} could be a part of a model or a run: choose another name.")
    if not os.access(path if path.exists() else path.parent, os.W_OK):
        raise GramError(f"{path} cannot be written: permission denied.")
    if path.exists() and not path.is_file():
        return  # a device such as /dev/null
    if path.exists() and not _is_of_kind(path, suffixes or (".json",)):
        raise GramError(f"{path} exists and is another kind of file: choose another name, or remove it.")


def _is_run(folder: Path) -> bool:
    return any((folder / name).is_file() for name in ("run.json", CONFIG_FILE))


def _is_inside_run(path: Path) -> bool:
    return path.parent.name in ("checkpoints", "tensorboard") and _is_run(path.parent.parent)


def _is_of_kind(path: Path, suffixes: tuple[str, ...]) -> bool:
    """Return whether a file is empty, or begins as those do that would be written over it."""
    with path.open("rb") as file:
        start = file.read(16)
    written = path.suffix if path.suffix in BEGINNINGS else ".json"
    allowed = path.suffix in (*suffixes, "", ".txt")
    return not start or (allowed and start.lstrip().startswith(BEGINNINGS[written]))


def check_targets(
    inputs: Iterable[str | Path | None], suffixes: tuple[str, ...] = (), /, **targets: Path | None
) -> None:
    """Refuse, before any work, a target that should not be written, is an input of the command, or another target.

    Targets go by the names of their options; that of --out must have one of the suffixes.
    """
    seen = {Path(path).resolve(): "the command's own input" for path in inputs if path is not None}
    for name, target in targets.items():
        check_target(target, suffixes if name == "out" else SUFFIXES.get(name, ()))
        if target is None or (target.exists() and not target.is_file()):
            continue
        place = target.resolve()
        if place in seen:
            raise GramError(f"--{name} {target} is {seen[place]}: give it another name.")
        seen[place] = f"also the file of --{name}"
