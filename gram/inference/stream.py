"""Boards and images out of nothing, by the thousand: written block by block, so that a long run may be broken off."""

import hashlib
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gram.errors import GramError
from gram.files import write_whole
from gram.inference.sample import DRAWN_AT_ONCE, Progress, sample
from gram.models.build import Model, Trained
from gram.options import SampleOptions
from gram.tasks.base import Task, Tokens
from gram.tasks.store import UNREADABLE, save_arrays

Rows = NDArray[np.uint8]
"""[samples, length] tokens; every task that generates has fewer than 256."""

BLOCK = 4 * DRAWN_AT_ONCE
"""Samples that are written together."""


def generate(
    trained: Trained,
    count: int,
    options: SampleOptions,
    *,
    path: Path | None = None,
    progress: Progress | None = None,
) -> Rows:
    """Draw `count` samples from the blank input: [count, length].

    Sample i of a recursive model depends on the seed and on i alone; a generative one draws in chunks. With `path`
    (.npz) samples grow in a file beside it, `path` + ".part", and a call that was broken off goes on where that file
    ends, to the same result. In the end `path` holds `tokens` [count, length], the `task`, and the `settings` as JSON;
    a call that finds just this there reads it.
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
    if not first:  # nothing there yet, or not even a whole header
        part.write_bytes(header)
    with part.open("r+b") as file:
        file.truncate(len(header) + first * length)
        file.seek(0, 2)
        for start in range(first, count, BLOCK):
            file.write(_block(trained, options, start, count, progress).tobytes())
            file.flush()
    tokens = np.fromfile(part, dtype=np.uint8, offset=len(header)).reshape(-1, length)
    arrays = {"tokens": tokens, "task": np.array(trained.task.name), "settings": np.array(json.dumps(settings))}
    write_whole(path, lambda target: save_arrays(target, arrays))  # until then the part is all there is
    part.unlink()
    return tokens


def already_drawn(trained: Trained, count: int, options: SampleOptions, path: Path) -> int:
    """How many of the `count` samples an earlier call has left in `path`, or beside it.

    `GramError` if what is there belongs to another call: nothing of it is overwritten.
    """
    settings, part = _settings(trained, options), _part(path)
    if path.exists():
        tokens, found = read_samples(path)
        if found != settings or len(tokens) != count:
            raise GramError(f"{path} exists already, with other samples: remove it, or choose another name.")
        return count
    if not part.exists():
        return 0
    header = _header(settings)
    with part.open("rb") as file:
        found_header = file.readline()
        if header.startswith(found_header) and found_header != header:
            return 0  # a kill cut it off, or left it empty
        if found_header != header:
            raise GramError(f"{part} was begun with another model or settings: remove it, or choose another name.")
        rows = (file.seek(0, 2) - len(header)) // trained.task.length
    if rows > count:
        raise GramError(f"{part} holds {rows:,} samples already: ask for as many, or choose another name.")
    return rows // DRAWN_AT_ONCE * DRAWN_AT_ONCE


def read_samples(path: Path) -> tuple[Rows, dict[str, Any]]:
    """The array `tokens` [samples, length] of an .npz file, and the settings that it was drawn with, if it says."""
    try:
        with path.open("rb") as source, np.load(source) as stored:  # numpy leaves a damaged one open
            if "tokens" not in stored:
                raise GramError(f"{path} has no array 'tokens': give what `gram generate` has written.")
            return stored["tokens"], json.loads(str(stored["settings"])) if "settings" in stored else {}
    except FileNotFoundError as error:
        raise GramError(f"There is no file {path}.") from error
    except UNREADABLE as error:
        raise GramError(f"{path} is damaged or no .npz file of arrays.") from error


def chosen_options(trained: Trained, options: SampleOptions) -> dict[str, Any]:
    """Those of the options that decide what the samples are, but their number."""
    return options.heeded(trained.model.sample_settings - {"width", "keep_steps"})


def blank_input(task: Task) -> Tokens:
    """The one input [1, length] of a task that generates; `GramError` for one that answers puzzles."""
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
    """Samples `start` to the end of its block [rows, length]."""
    some = replace(options, width=min(BLOCK, count - start), keep_steps=False)
    outputs = sample(trained.model, blank_input(trained.task), some, first=start, progress=progress).outputs[0]
    return np.asarray(outputs, dtype=np.uint8)


def _settings(trained: Trained, options: SampleOptions) -> dict[str, Any]:
    """All that decides what the samples are, but their number."""
    digest = weights_digest(trained.model)
    return {"task": trained.task.name, "weights": digest, **chosen_options(trained, options)}


def _header(settings: dict[str, Any]) -> bytes:
    return (json.dumps(settings) + "\n").encode()


def _part(path: Path) -> Path:
    return path.with_name(path.name + ".part")
