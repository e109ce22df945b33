"""The log-likelihood of held-out answers in nats: exact where possible, otherwise a lower bound."""

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
"""Rows per batch."""


@dataclass(frozen=True)
class Likelihood:
    """Mean over rows of log p(answer | input)."""

    nats: float
    error: float
    """standard error of the mean over rows"""
    rows: int
    exact: bool
    """if not, the true value is at least `nats`"""
    meaning: str


def tensors_of(model: Model, examples: Examples, rows: slice) -> tuple[Tensor, Tensor, Tensor | None]:
    """Return inputs and targets [rows, length] on the model's device, and puzzle ids [rows] if it has embeddings."""
    pair = (examples.inputs, examples.targets)
    inputs, targets = (torch.from_numpy(np.array(part[rows])).to(model.device) for part in pair)
    if model.puzzle_embeddings is None or examples.puzzle_ids is None:
        return inputs, targets, None
    return inputs, targets, torch.from_numpy(examples.puzzle_ids[rows]).to(model.device)


def likelihood(
    model: Model, examples: Examples, *, limit: int | None = None, seed: int = 0, progress: Progress | None = None
) -> Likelihood:
    """Measure log p(target | input) of the first `limit` rows, summed over the tokens of the answer.

    For a reasoner with noise this is its ELBO: one posterior trajectory of N_sup steps that is decoded at the end, with
    the KL of all transitions. A reasoner without noise predicts tokens independently, so the value is exact.
    """
    if not len(examples):
        raise GramError("This split is empty: there are no answers to evaluate.")
    count = min(len(examples), limit or len(examples))
    lock = Lock()

    @torch.no_grad()
    def measure(start: int, check: Check) -> Tensor:
        check()
        rows = slice(start, min(start + ROWS, count))
        inputs, targets, ids = tensors_of(model, examples, rows)
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
