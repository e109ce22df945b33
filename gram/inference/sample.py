"""Depth x width sampling from the prior: many trajectories per puzzle, each with its own noise."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from threading import Lock
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gram.config import SampleOptions
from gram.errors import GramError
from gram.inference.workers import Check, side_by_side
from gram.models.base import Model, Steps
from gram.tasks.base import Tokens

Progress = Callable[[int], None]
"""Called with the number of trajectories that have just ended."""


@dataclass(frozen=True)
class Trajectories:
    """Sampled trajectories; the first two axes are puzzle and trajectory."""

    outputs: Tokens
    """[puzzles, width, length]"""
    values: NDArray[np.float32]
    """[puzzles, width] the value head's (LPRM) estimate of the final quality, 0..1"""
    confidence: NDArray[np.float32]
    """[puzzles, width] the halt head's probability that the output is right"""
    steps: Tokens
    """[puzzles, width] supervision steps used"""
    step_outputs: Tokens | None = None
    """[puzzles, width, depth, length]; after a trajectory's end its last output is repeated, as in all that follows"""
    step_values: NDArray[np.float32] | None = None
    """[puzzles, width, depth]"""
    step_confidence: NDArray[np.float32] | None = None
    """[puzzles, width, depth]"""
    states: NDArray[np.float32] | None = None
    """[puzzles, width, depth, tokens, dim] the latent state h"""
    step_certainty: NDArray[np.float32] | None = None
    """[puzzles, width, depth] the decoder's probability of its output"""

    @staticmethod
    def empty(
        puzzles: int, options: SampleOptions, length: int, state: tuple[int, int] | None = None
    ) -> "Trajectories":
        """Allocate `options.width` trajectories per puzzle; `state` is the shape of a state, for `keep_states`."""
        rows = (puzzles, options.width)
        history = (*rows, options.depth) if options.keep_steps or options.keep_states else None

        def numbers(shape: tuple[int, ...]) -> NDArray[np.float32]:
            return np.zeros(shape, dtype=np.float32)

        return Trajectories(
            outputs=np.zeros((*rows, length), dtype=np.int64),
            values=numbers(rows),
            confidence=numbers(rows),
            steps=np.zeros(rows, dtype=np.int64),
            step_outputs=None if history is None else np.zeros((*history, length), dtype=np.int64),
            step_values=None if history is None else numbers(history),
            step_confidence=None if history is None else numbers(history),
            step_certainty=None if history is None else numbers(history),
            states=numbers((*history, *state)) if history and state and options.keep_states else None,
        )

    def record(self, made: Steps) -> None:
        """Store the results of one step of the batch."""
        place = (made.puzzle, made.trajectory)
        self.outputs[place], self.values[place] = made.outputs, made.values
        self.confidence[place], self.steps[place] = made.confidence, made.step
        if self.step_outputs is None or self.step_values is None or self.step_confidence is None:
            return
        history: list[tuple[NDArray[Any], NDArray[Any]]] = [
            (self.step_outputs, made.outputs),
            (self.step_values, made.values),
            (self.step_confidence, made.confidence),
        ]
        if self.step_certainty is not None and made.certainty is not None:
            history.append((self.step_certainty, made.certainty))
        if self.states is not None:
            history.append((self.states, made.h.float().cpu().numpy()))
        early = np.flatnonzero(made.ended & (made.step < self.step_values.shape[2]))
        for kept, now in history:
            kept[(*place, made.step - 1)] = now
            for row in early:
                kept[made.puzzle[row], made.trajectory[row], made.step[row] :] = now[row]

    @property
    def history(self) -> tuple[Tokens, NDArray[np.float32], NDArray[np.float32]]:
        """Outputs, values and confidence of every step, if they were kept; raises `GramError` otherwise."""
        if self.step_outputs is None or self.step_values is None or self.step_confidence is None:
            raise GramError("This needs the outputs of every step: sample with keep_steps.")
        return self.step_outputs, self.step_values, self.step_confidence

    def select(self, index: Any) -> "Trajectories":
        """Return some puzzles, or some trajectories: index is that of the first axes."""
        return self.each(lambda array: array[index])

    def at_depth(self, depth: int) -> "Trajectories":
        """Return the trajectories as they were after `depth` steps; they must have kept their steps."""
        last, until = np.s_[:, :, depth - 1], np.s_[:, :, :depth]
        outputs, values, confidence = self.history
        ends = Trajectories(outputs[last], values[last], confidence[last], self.steps.clip(max=depth))
        certainty = None if self.step_certainty is None else self.step_certainty[until]
        kept: dict[str, Any] = {
            "step_outputs": outputs[until],
            "step_values": values[until],
            "step_confidence": confidence[until],
        }
        return replace(ends, **kept, step_certainty=certainty)

    def halting(self, halt_at: float, halt_by: str = "head") -> "Trajectories":
        """Return these trajectories as if they had halted so; they must have kept their steps."""
        step_outputs, *heads = self.history
        predicted = self.step_certainty if halt_by == "output" else heads[1]
        assert predicted is not None, "it is kept with the history"
        sure = predicted > halt_at
        last = np.where(sure.any(axis=2), sure.argmax(axis=2), self.steps - 1)[:, :, None]  # [puzzles, width, 1]
        values, confidence = (np.take_along_axis(kept, last, axis=2)[:, :, 0] for kept in heads)
        outputs = np.take_along_axis(step_outputs, last[..., None], axis=2)[:, :, 0]
        return Trajectories(outputs, values, confidence, last[:, :, 0] + 1)

    def joined(self, more: "Trajectories") -> "Trajectories":
        """Append more trajectories of the same puzzles."""
        both: dict[str, Any] = {
            name: None if array is None else np.concatenate([array, getattr(more, name)], axis=1)
            for name, array in vars(self).items()
        }
        return Trajectories(**both)

    def widened(self, width: int) -> "Trajectories":
        """Repeat a single trajectory `width` times (views, not copies)."""
        return self.each(lambda array: np.broadcast_to(array, (len(array), width, *array.shape[2:])))

    def each(self, change: Callable[[NDArray[Any]], NDArray[Any]]) -> "Trajectories":
        """Apply a function to every array."""
        changed: dict[str, Any] = {name: None if array is None else change(array) for name, array in vars(self).items()}
        return Trajectories(**changed)


def sample(
    model: Model,
    inputs: Tokens,
    options: SampleOptions,
    *,
    puzzle_ids: Tokens | None = None,
    chunk: int | None = None,
    first: int = 0,
    progress: Progress | None = None,
) -> Trajectories:
    """Draw `width` trajectories for each of inputs [puzzles, length].

    A model with puzzle embeddings uses puzzle_ids [puzzles]; id 0 stands for an unknown puzzle, as published.

    The trajectories are cut into groups, which on a CPU are sampled side by side. At most `chunk` trajectories of a
    group run at once (by default as many as are efficient), whatever the width. The noise of a trajectory depends only
    on (seed, puzzle, trajectory number, step), so neither the chunk size nor the width nor the other puzzles change it.
    The numbers begin with `first`, so that one call can continue another.
    """
    puzzles, width = len(inputs), options.width
    model.check(options)
    if width > 1 and model.is_deterministic(options):
        every = None if progress is None else lambda count: progress(count * width)
        alone = replace(options, width=1)
        one = sample(model, inputs, alone, puzzle_ids=puzzle_ids, chunk=chunk, progress=every)
        return one.widened(width)
    found = Trajectories.empty(puzzles, options, model.length, model.state_shape)
    lock = Lock()

    def draw(group: range, check: Check) -> None:
        jobs = ((row // width, first + row % width) for row in group)
        for made in model.roll_out(inputs, jobs, options, puzzle_ids=puzzle_ids, chunk=chunk):
            check()
            with lock:
                found.record(replace(made, trajectory=made.trajectory - first))
                if progress is not None:
                    progress(int(made.ended.sum()))

    side_by_side(draw, model.groups(puzzles * width), model.device)
    return found


def sharing_depths(model: Model, options: SampleOptions, depths: Sequence[int]) -> list[list[int]]:
    """Return the depths in groups that can be read off the same trajectories.

    That is all of them, unless the temperature changes over the depth or some depths are beyond the horizon: then what
    a step does depends on the depth, and each depth is sampled by itself.
    """
    first, last = options.temperatures
    beyond = options.horizon is not None and max(depths) > options.horizon
    changes = first != last and "temperature_final" in model.supported
    return [[depth] for depth in depths] if changes or beyond else [list(depths)]


def sample_depths(
    model: Model,
    inputs: Tokens,
    options: SampleOptions,
    depths: Sequence[int],
    *,
    puzzle_ids: Tokens | None = None,
    first: int = 0,
    progress: Progress | None = None,
) -> Iterator[tuple[int, Trajectories]]:
    """Yield each depth with its trajectories, which keep their steps and do not halt; the rest is as in `sample`.

    `progress` counts the trajectories of every group of `sharing_depths`.
    """
    for together in sharing_depths(model, options, depths):
        deepest = replace(options, depth=max(together), halt=False, keep_steps=True)
        found = sample(model, inputs, deepest, puzzle_ids=puzzle_ids, first=first, progress=progress)
        for depth in together:
            yield depth, found.at_depth(depth)
