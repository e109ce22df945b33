"""Boards and images out of nothing, by the thousand: written block by block, so that a long run may be broken off."""

import hashlib
import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from gram.errors import GramError
from gram.inference.options import SampleOptions
from gram.inference.rollout import DRAWN_AT_ONCE, Progress, sample
from gram.solver import Solver
from gram.tasks.base import Task, Tokens

Rows = NDArray[np.uint8]
"""[samples, length] tokens; every task that generates has fewer than 256."""

BLOCK = 4 * DRAWN_AT_ONCE
"""Samples that are written together."""


def generate(
    solver: Solver,
    count: int,
    options: SampleOptions,
    *,
    path: Path | None = None,
    progress: Progress | None = None,
) -> Rows:
    """Draw `count` samples from the blank input: [count, length].

    Sample i of a recursive model depends on the seed and on i alone; a generative one draws in chunks. With `path`
    (.npz) samples grow in a file beside it, `path` + ".part", and a call that was broken off goes on where that file
    ends, to the same result. In the end `path` holds `tokens` [count, length], the `task`, and the `settings` as JSON.
    """
    blank_input(solver.task)  # refuses before anything is written
    if path is None:
        blocks = [_block(solver, options, start, count, progress) for start in range(0, count, BLOCK)]
        return np.concatenate(blocks)
    if path.exists():
        raise GramError(f"{path} exists already: remove it, or choose another name.")
    settings = _settings(solver, options)
    part = path.with_name(path.name + ".part")
    length = solver.task.length
    with _growing(part, settings, length) as (file, first):
        if progress is not None and first:
            progress(min(first, count))
        for start in range(first, count, BLOCK):
            file.write(_block(solver, options, start, count, progress).tobytes())
            file.flush()
    tokens = np.fromfile(part, dtype=np.uint8, offset=len(_header(settings))).reshape(-1, length)[:count]
    # Written whole or not at all: until then the part is all there is.
    finished = path.with_name(path.name + ".new")
    with finished.open("wb") as target:
        np.savez_compressed(target, tokens=tokens, task=solver.task.name, settings=json.dumps(settings))
    finished.rename(path)
    part.unlink()
    return tokens


def blank_input(task: Task) -> Tokens:
    """The one input [1, length] of a task that generates; `GramError` for one that answers puzzles."""
    if task.scoring != "generation":
        raise GramError(f"{task.name} answers puzzles (gram solve): it generates nothing from a blank one.")
    return task.parse("")[None]


def _block(solver: Solver, options: SampleOptions, start: int, count: int, progress: Progress | None) -> Rows:
    """Samples `start` to the end of its block [rows, length]."""
    some = replace(options, width=min(BLOCK, count - start), keep_steps=False)
    outputs = sample(solver.model, blank_input(solver.task), some, first=start, progress=progress).outputs[0]
    return np.asarray(outputs, dtype=np.uint8)


def _settings(solver: Solver, options: SampleOptions) -> dict[str, Any]:
    """All that decides what the samples are, but their number."""
    weights = hashlib.sha256()
    for name, tensor in solver.model.state_dict().items():
        weights.update(name.encode())
        weights.update(tensor.cpu().numpy().tobytes())
    chosen = options.heeded(solver.model.sample_settings - {"width", "keep_steps"})
    return {"task": solver.task.name, "weights": weights.hexdigest()[:16], **chosen}


def _header(settings: dict[str, Any]) -> bytes:
    return (json.dumps(settings) + "\n").encode()


@contextmanager
def _growing(part: Path, settings: dict[str, Any], length: int) -> Iterator[tuple[BinaryIO, int]]:
    """The file that samples are added to, and the number of the next one."""
    header = _header(settings)
    if not part.exists():
        part.write_bytes(header)
    with part.open("r+b") as file:
        begun = file.readline()
        if begun != header:
            raise GramError(f"{part} was begun with another model or settings: remove it, or choose another name.")
        size = file.seek(0, 2) - len(header)
        first = size // length // DRAWN_AT_ONCE * DRAWN_AT_ONCE
        file.truncate(len(header) + first * length)
        file.seek(0, 2)
        yield file, first
