"""How likely held-out answers are to a model, in nats: exact where it can be, otherwise a lower bound."""

from dataclasses import dataclass
from threading import Lock

import numpy as np
import torch
from torch import Tensor

from gram.errors import GramError
from gram.inference.sample import Progress
from gram.inference.workers import Check, side_by_side
from gram.models.base import Model
from gram.tasks.base import Examples

ROWS = 64
"""Rows that are measured together."""


@dataclass(frozen=True)
class Likelihood:
    """Mean over rows of log p(answer | input)."""

    nats: float
    error: float
    """standard error of the mean over rows"""
    rows: int
    exact: bool
    """otherwise the true value is at least `nats`"""
    meaning: str


def likelihood(
    model: Model,
    examples: Examples,
    *,
    limit: int | None = None,
    seed: int = 0,
    progress: Progress | None = None,
) -> Likelihood:
    """log p(target | input) of the first `limit` rows, every token of the answer counted.

    A reasoner with noise is bounded by its ELBO: one posterior trajectory of N_sup steps, decoded at its end, the KL of
    all its transitions paid. One without noise gives each token a probability of its own, and that is exact.
    """
    if not len(examples):
        raise GramError("This split is empty: there are no answers to measure.")
    count = min(len(examples), limit or len(examples))
    lock = Lock()

    @torch.no_grad()
    def measure(start: int, check: Check) -> Tensor:
        check()
        rows = slice(start, min(start + ROWS, count))
        pair = (examples.inputs, examples.targets)
        inputs, targets = (torch.from_numpy(np.array(part[rows])).to(model.device) for part in pair)
        ids = None
        if model.puzzle_embeddings is not None and examples.puzzle_ids is not None:
            ids = torch.from_numpy(examples.puzzle_ids[rows]).to(model.device)
        # Every group of rows has noise of its own.
        found = model.log_likelihood(inputs, targets, puzzle_ids=ids, seed=seed * 2**20 + start).cpu()
        if progress is not None:
            with lock:
                progress(rows.stop - start)
        return found

    nats = torch.cat(side_by_side(measure, range(0, count, ROWS), model.device)).double()
    error = float(nats.std() / len(nats) ** 0.5) if len(nats) > 1 else 0.0
    exact, meaning = model.likelihood_meaning
    return Likelihood(float(nats.mean()), error, len(nats), exact, meaning)
