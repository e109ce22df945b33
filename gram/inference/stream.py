"""Unconditional samples by the thousand, written block by block so that an interrupted call can be resumed."""

import hashlib
import json
from dataclasses import replace
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gram.config import SampleOptions
from gram.errors import GramError
from gram.files import append_blocks, write_whole
from gram.inference.sample import Progress, sample
from gram.models.base import Model, Trained
from gram.tasks.base import Task, Tokens
from gram.tasks.store import UNREADABLE, save_arrays

Rows = NDArray[np.uint8]
"""[samples, length] tokens; every task that generates has fewer than 256."""

BLOCK = 1024
"""Samples per block."""
LATER = {"horizon": None, "halt_by": "head"}
"""Options that earlier versions lacked: left out at these values, so that files of those versions still resume."""


def generate(
    trained: Trained, count: int, options: SampleOptions, *, path: Path | None = None, progress: Progress | None = None
) -> Rows:
    """Draw `count` samples from the blank input: [count, length].

    Sample i depends on the seed and on i alone. With `path` (.npz), samples are appended to `path` + ".part", and an
    interrupted call resumes at the end of that file with the same result. In the end `path` holds `tokens`
    [count, length], the `task`, and the `settings` as JSON. If it exists already with the same settings, it is read
    instead.
    """
    blank_input(trained.task)  # refuses before anything is written
    if path is None:
        blocks = [_block(trained, options, start, count, progress) for start in range(0, count, BLOCK)]
        return np.concatenate(blocks)
    first = already_drawn(trained, count, options, path)
    if progress is not None and first:
        progress(first)
    if path.exists():
        return read_samples(path)[0]
    settings, length, part = _settings(trained, options), trained.task.length, _part(path)
    header = _header(settings)
    drawn = (_block(trained, options, start, count, progress).tobytes() for start in range(first, count, BLOCK))
    # Without a sample, there may not even be a whole header.
    append_blocks(part, len(header) + first * length if first else 0, drawn if first else chain([header], drawn))
    tokens = np.fromfile(part, dtype=np.uint8, offset=len(header)).reshape(-1, length)
    arrays = {"tokens": tokens, "task": np.array(trained.task.name), "settings": np.array(json.dumps(settings))}
    write_whole(path, lambda target: save_arrays(target, arrays))  # until then the part is all there is
    part.unlink()
    return tokens


def already_drawn(trained: Trained, count: int, options: SampleOptions, path: Path) -> int:
    """Return how many of the `count` samples an earlier call has left in `path` or in its part file.

    Raises `GramError` if the file belongs to another call, so that nothing is overwritten.
    """
    settings, part = _settings(trained, options), _part(path)
    if path.exists():
        tokens, found = read_samples(path)
        if found != settings or len(tokens) != count:
            raise GramError(f"{path} already exists with other samples: remove it, or choose another name.")
        return count
    if not part.exists():
        return 0
    header = _header(settings)
    with part.open("rb") as file:
        found_header = file.readline()
        if header.startswith(found_header) and found_header != header:
            return 0  # a kill cut it off, or left it empty
        if found_header != header:
            raise GramError(
                f"{part} was started with another model or other settings: remove it, or choose another name."
            )
        rows = (file.seek(0, 2) - len(header)) // trained.task.length
    if rows > count:
        raise GramError(f"{part} already holds {rows:,} samples: ask for at least as many, or choose another name.")
    return rows // BLOCK * BLOCK


def read_samples(path: Path) -> tuple[Rows, dict[str, Any]]:
    """Read the array `tokens` [samples, length] of an .npz file, and the settings of its samples if it has them."""
    try:
        with path.open("rb") as source, np.load(source) as stored:  # numpy leaves a damaged one open
            if "tokens" not in stored:
                raise GramError(f"{path} has no array 'tokens': give a file that `gram generate` wrote.")
            return stored["tokens"], json.loads(str(stored["settings"])) if "settings" in stored else {}
    except FileNotFoundError as error:
        raise GramError(f"There is no file {path}.") from error
    except UNREADABLE as error:
        raise GramError(f"{path} is damaged, or not an .npz file of arrays.") from error


def chosen_options(trained: Trained, options: SampleOptions) -> dict[str, Any]:
    """Return the options that determine the samples, without their number."""
    chosen = options.only(trained.model.supported - {"width", "keep_steps"})
    return {name: value for name, value in chosen.items() if name not in LATER or value != LATER[name]}


def blank_input(task: Task) -> Tokens:
    """Return the blank input [1, length] of an unconditional task; raise `GramError` for a task with puzzles."""
    if task.scoring != "generation":
        raise GramError(f"{task.name} answers puzzles (gram solve): it generates nothing from a blank one.")
    return task.parse("")[None]


def weights_digest(model: Model) -> str:
    """Return the first 16 hex digits of the SHA-256 of a model's weights."""
    digest = hashlib.sha256()
    for name, tensor in model.state_dict().items():
        digest.update(name.encode())
        digest.update(tensor.cpu().numpy().tobytes())
    return digest.hexdigest()[:16]


def _block(trained: Trained, options: SampleOptions, start: int, count: int, progress: Progress | None) -> Rows:
    """Draw the samples from `start` to the end of its block: [rows, length]."""
    some = replace(options, width=min(BLOCK, count - start), keep_steps=False)
    outputs = sample(trained.model, blank_input(trained.task), some, first=start, progress=progress).outputs[0]
    return np.asarray(outputs, dtype=np.uint8)


def _settings(trained: Trained, options: SampleOptions) -> dict[str, Any]:
    """Return everything that determines the samples, without their number."""
    digest = weights_digest(trained.model)
    return {"task": trained.task.name, "weights": digest, **chosen_options(trained, options)}


def _header(settings: dict[str, Any]) -> bytes:
    return (json.dumps(settings) + "\n").encode()


def _part(path: Path) -> Path:
    return path.with_name(path.name + ".part")
