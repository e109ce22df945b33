"""Depth x width sampling from the prior: many trajectories of reasoning per puzzle, each with its own noise."""

import hashlib
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from gram.errors import GramError
from gram.nn.reasoner import Reasoner, State
from gram.tasks.base import Tokens

CHUNK = 256
"""Trajectories per network call: large enough for full multiplies, small enough to stay in a CPU's cache."""

Progress = Callable[[int], None]
"""Called with the number of trajectories that have just ended."""


@dataclass(frozen=True)
class SampleOptions:
    """How trajectories are drawn."""

    width: int = 20
    """Trajectories per puzzle."""
    depth: int = 16
    """Largest number of supervision steps."""
    temperature: float = 1.0
    """Scale of the noise; 0 follows the mean."""
    seed: int = 0
    """Seed of all noise."""
    halt: bool = False
    """Let a trajectory end when its halt head says so."""
    decode: Literal["argmax", "sample"] = "argmax"
    """`sample` draws each token from the output distribution (the ablation "TRM with a stochastic decoder")."""
    initial: Literal["fixed", "random"] = "fixed"
    """`random` draws a fresh z_0 for every trajectory (the ablation "TRM with random z_0")."""
    keep_steps: bool = False
    """Keep the decoded output after every supervision step."""

    def __post_init__(self) -> None:
        for name in ("width", "depth"):
            if getattr(self, name) < 1:
                raise GramError(f"{name} must be at least 1, not {getattr(self, name)}.")
        if not 0 <= self.temperature < float("inf"):
            raise GramError(f"temperature must be a number from 0 up, not {self.temperature}.")
        for name, choices in (("decode", ("argmax", "sample")), ("initial", ("fixed", "random"))):
            if getattr(self, name) not in choices:
                raise GramError(f"{name} must be one of {', '.join(choices)}, not '{getattr(self, name)}'.")


@dataclass(frozen=True)
class Trajectories:
    """What was sampled; the first two axes are puzzle and trajectory."""

    outputs: Tokens
    """[puzzles, width, length]"""
    values: NDArray[np.float32]
    """[puzzles, width] the value head's (LPRM) estimate of the final quality, 0..1"""
    confidence: NDArray[np.float32]
    """[puzzles, width] the halt head's probability that the output is right"""
    steps: Tokens
    """[puzzles, width] supervision steps used"""
    step_outputs: Tokens | None = None
    """[puzzles, width, depth, length]; after a trajectory's end its last output is repeated"""


def sample(
    model: Reasoner,
    inputs: Tokens,
    options: SampleOptions,
    *,
    puzzle_ids: Tokens | None = None,
    chunk: int = CHUNK,
    progress: Progress | None = None,
) -> Trajectories:
    """Draw `width` trajectories for each of inputs [puzzles, length].

    A model with puzzle embeddings uses puzzle_ids [puzzles]; id 0 stands for an unknown puzzle, as published.

    The noise of a trajectory depends on (seed, puzzle, trajectory number, step) alone, so neither the chunk size nor
    the width nor the other puzzles change it.
    """
    puzzles, width = len(inputs), options.width
    if width > 1 and is_deterministic(model, options):
        every = None if progress is None else lambda count: progress(count * width)
        alone = replace(options, width=1)
        return _repeat(sample(model, inputs, alone, puzzle_ids=puzzle_ids, chunk=chunk, progress=every), width)
    if not model.config.puzzle_tokens:
        puzzle_ids = None
    elif puzzle_ids is None:
        puzzle_ids = np.zeros(puzzles, dtype=np.int64)
    rows = puzzles * width
    keys = [_digest(inputs[i], None if puzzle_ids is None else int(puzzle_ids[i])) for i in range(puzzles)]
    outputs = np.zeros((rows, model.length), dtype=np.int64)
    values, confidence = np.zeros(rows, dtype=np.float32), np.zeros(rows, dtype=np.float32)
    steps = np.zeros(rows, dtype=np.int64)
    step_outputs = np.zeros((rows, options.depth, model.length), dtype=np.int64) if options.keep_steps else None
    for start in range(0, rows, chunk):
        index = np.arange(start, min(start + chunk, rows))
        noise = KeyedNoise(options.seed, [(keys[i // width], i % width) for i in index.tolist()], model)
        ids = None if puzzle_ids is None else puzzle_ids[index // width]
        part = _roll(model, inputs[index // width], ids, noise, options)
        outputs[index], values[index], confidence[index], steps[index] = part.last()
        if step_outputs is not None:
            step_outputs[index] = part.history()
        if progress is not None:
            progress(len(index))
    shape = (puzzles, width)
    return Trajectories(
        outputs.reshape(*shape, -1),
        values.reshape(shape),
        confidence.reshape(shape),
        steps.reshape(shape),
        None if step_outputs is None else step_outputs.reshape(*shape, options.depth, -1),
    )


def is_deterministic(model: Reasoner, options: SampleOptions) -> bool:
    """Whether every trajectory of a puzzle is the same, so that one is enough."""
    silent = model.guidance is None or options.temperature == 0 or model.config.guidance == "guide_only"
    return silent and options.decode == "argmax" and options.initial == "fixed"


def _repeat(one: Trajectories, width: int) -> Trajectories:
    """Width 1 -> `width` equal trajectories (views, not copies)."""

    def widen(array: NDArray[Any]) -> NDArray[Any]:
        return np.broadcast_to(array, (len(array), width, *array.shape[2:]))

    history = None if one.step_outputs is None else widen(one.step_outputs)
    return Trajectories(widen(one.outputs), widen(one.values), widen(one.confidence), widen(one.steps), history)


class KeyedNoise:
    """Standard-normal noise that belongs to (seed, puzzle, trajectory, step), whatever else is in the batch."""

    def __init__(self, seed: int, keys: list[tuple[bytes, int]], model: Reasoner) -> None:
        self.prefixes = [b"%d|%s|%d|" % (seed, puzzle, trajectory) for puzzle, trajectory in keys]
        self.shape = (model.tokens, model.config.dim)
        self.device = model.h_init.device
        self.generator = torch.Generator()  # on the CPU, so that every device sees the same noise

    def draw(self, rows: list[int], label: str, *shape: int) -> Tensor:
        """[len(rows), *shape] for the given rows of the chunk; `label` names the step."""
        noise = torch.empty(len(rows), *shape)
        for position, row in enumerate(rows):
            digest = hashlib.blake2b(self.prefixes[row] + label.encode(), digest_size=8).digest()
            self.generator.manual_seed(int.from_bytes(digest, "little", signed=True))
            torch.randn(*shape, generator=self.generator, out=noise[position])
        return noise.to(self.device)


class _Rows:
    """The trajectories of one chunk: who is still running, and what each has come to."""

    def __init__(self, count: int, length: int, depth: int, keep_steps: bool) -> None:
        self.active = np.arange(count)
        self.outputs = np.zeros((count, length), dtype=np.int64)
        self.values, self.confidence = np.zeros(count, dtype=np.float32), np.zeros(count, dtype=np.float32)
        self.steps = np.zeros(count, dtype=np.int64)
        self.by_step = np.zeros((count, depth, length), dtype=np.int64) if keep_steps else None

    def last(self) -> tuple[Tokens, NDArray[np.float32], NDArray[np.float32], Tokens]:
        return self.outputs, self.values, self.confidence, self.steps

    def history(self) -> Tokens:
        if self.by_step is None:
            raise ValueError("steps were not kept")
        return self.by_step


@torch.inference_mode()
def _roll(
    model: Reasoner, inputs: Tokens, puzzle_ids: Tokens | None, noise: KeyedNoise, options: SampleOptions
) -> _Rows:
    """Run one chunk to the end; a halted trajectory leaves the batch."""
    count, transitions = len(inputs), model.config.transitions
    rows = _Rows(count, model.length, options.depth, options.keep_steps)
    device = model.h_init.device
    ids = None if puzzle_ids is None else torch.from_numpy(puzzle_ids).to(device)
    e_x = model.encoder(torch.from_numpy(inputs).to(device), ids)
    state = model.initial_state(count)
    if options.initial == "random":
        everyone = list(range(count))
        low = None if state.l is None else noise.draw(everyone, "l", *noise.shape)
        state = State(noise.draw(everyone, "h", *noise.shape), low)
    noisy = model.guidance is not None and options.temperature > 0
    for step in range(options.depth):
        active = rows.active.tolist()
        shape = (transitions, *noise.shape)
        drawn = noise.draw(active, f"e{step}", *shape) if noisy else torch.zeros(1, *shape, device=device)
        first = torch.full((len(active),), step * transitions, device=device)
        output = model.step(
            state, e_x, partial(drawn.select, 1), temperature=options.temperature, first_transition=first
        )
        state = output.state
        logits = model.decoder.logits(state.h)
        if options.decode == "sample":
            # Gumbel-max with keyed noise: uniform from the normal's distribution function.
            uniform = torch.special.ndtr(noise.draw(active, f"d{step}", *logits.shape[1:])).clamp(1e-7, 1 - 1e-7)
            logits = logits - torch.log(-torch.log(uniform))
        readout = model.decoder.readout(state.h)
        rows.outputs[rows.active] = logits.argmax(dim=-1).cpu().numpy()
        rows.values[rows.active] = readout.value.sigmoid().cpu().numpy()
        rows.confidence[rows.active] = readout.q_halt.sigmoid().cpu().numpy()
        rows.steps[rows.active] = step + 1
        if rows.by_step is not None:
            rows.by_step[:, step] = rows.outputs
        if options.halt:
            going = ~model.wants_to_halt(readout)
            rows.active = rows.active[going.cpu().numpy()]
            if not len(rows.active):
                if rows.by_step is not None:
                    rows.by_step[:, step:] = rows.outputs[:, None]
                break
            if len(rows.active) < len(active):
                state, e_x = state.rows(going), e_x[going]
    return rows


def _digest(tokens: Tokens, puzzle_id: int | None = None) -> bytes:
    name = b"" if puzzle_id is None else b"|%d" % puzzle_id
    return hashlib.blake2b(np.ascontiguousarray(tokens, dtype="<i8").tobytes() + name, digest_size=8).digest()
