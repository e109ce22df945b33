"""Guided search: at chosen steps, trajectories with a low value (LPRM) are replaced by copies of better ones.

The copies diverge again, because each row of the batch has its own noise.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from threading import Lock

import numpy as np
import torch
from numpy.typing import NDArray

from gram.config import SampleOptions
from gram.errors import GramError
from gram.inference.sample import Progress, Trajectories
from gram.inference.workers import Check, side_by_side
from gram.models.noise import derive, uniform
from gram.models.reasoner import Reasoner
from gram.models.rollout import Batch, automatic_chunk
from gram.tasks.base import Tokens

NOBODY = -1
"""The trajectory number that keys the noise of a puzzle's resampling; no real trajectory has it."""


@dataclass
class Resampling:
    """When and how trajectories are resampled, and the effective sample sizes."""

    steps: Sequence[int]
    """After these supervision steps (1 is the first)."""
    power: float = 1.0
    """Weights are value ** power: 0 keeps everything, large powers keep only the best."""
    sample_sizes: dict[int, list[float]] = field(default_factory=dict)
    """Effective sample sizes by step, one for each puzzle."""

    def check(self, options: SampleOptions) -> None:
        """Raise `GramError` if this cannot be done with these options."""
        if not self.steps or min(self.steps) < 1 or max(self.steps) >= options.depth:
            raise GramError(f"Resampling happens after steps 1 to {options.depth - 1}, not {list(self.steps)}.")
        if options.halt:
            raise GramError("Resampled trajectories all run to full depth: leave out halting.")
        if not 0 <= self.power < float("inf"):
            raise GramError(f"The power of the weights must be a number from 0 up, not {self.power}.")


def effective_sample_size(weights: NDArray[np.float64]) -> float:
    """Return 1 / the sum of squares of the normalised weights [n]."""
    normalised = weights / weights.sum()
    return float(1 / np.square(normalised).sum())


def systematic(weights: NDArray[np.float64], uniform: float) -> NDArray[np.int64]:
    """Return the indices [n] of the survivors, ascending, by systematic resampling with one uniform number.

    With normalised weights w, index i occurs floor(n * w_i) or ceil(n * w_i) times, on average n * w_i times.
    """
    bounds = np.cumsum(weights / weights.sum())
    bounds[-1] = 1.0  # against rounding
    positions = (uniform + np.arange(len(weights))) / len(weights)
    return np.searchsorted(bounds, positions, side="right").clip(max=len(weights) - 1)


def search(
    model: Reasoner,
    inputs: Tokens,
    options: SampleOptions,
    resampling: Resampling,
    *,
    puzzle_ids: Tokens | None = None,
    progress: Progress | None = None,
) -> Trajectories:
    """Sample as `sample` does, with as many network calls, and resample the trajectories between steps."""
    resampling.check(options)
    if model.is_deterministic(options):
        raise GramError("All trajectories of a deterministic model are equal: there is nothing to resample.")
    found = Trajectories.empty(len(inputs), options, model.length)
    lock = Lock()

    def draw(puzzles: range, check: Check) -> dict[int, list[float]]:
        batch = Batch(model, inputs, options, puzzle_ids)
        batch.add([(puzzle, number) for puzzle in puzzles for number in range(options.width)])
        sizes: dict[int, list[float]] = {}
        for step in range(1, options.depth + 1):
            check()
            made = batch.advance()
            with lock:
                found.record(made)
            if step in resampling.steps:
                sizes[step] = _resample(batch, made.values.reshape(len(puzzles), -1), resampling.power, step)
        if progress is not None:
            with lock:
                progress(len(puzzles) * options.width)
        return sizes

    group = max(1, automatic_chunk(model) // options.width)
    parts = [range(start, min(start + group, len(inputs))) for start in range(0, len(inputs), group)]
    for sizes in side_by_side(draw, parts, model.device):
        for step, some in sizes.items():
            resampling.sample_sizes.setdefault(step, []).extend(some)
    return found


def _resample(batch: Batch, values: NDArray[np.float32], power: float, step: int) -> list[float]:
    """Replace the states in the batch; values [puzzles, width]. Return every puzzle's effective sample size."""
    width = values.shape[1]
    survivors, sizes = [], []
    for number, row in enumerate(values.astype(np.float64)):
        logs = np.log(np.maximum(row, 1e-6))
        weights = np.exp(power * (logs - logs.max()))  # only their ratios count, and the largest is 1
        sizes.append(effective_sample_size(weights))
        puzzle = batch.puzzles[int(batch.puzzle[number * width])]
        key = derive(torch.tensor([puzzle.key]), NOBODY, step)
        survivors.append(number * width + systematic(weights, float(uniform(key))))
    batch.state = batch.state.rows(torch.from_numpy(np.concatenate(survivors)).to(batch.device))
    return sizes
