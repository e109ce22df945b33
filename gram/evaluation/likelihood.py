"""How likely held-out answers are to a model, in nats: exact where it can be, otherwise a lower bound."""

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from gram.config import Recipe
from gram.errors import GramError
from gram.inference.sample import Progress
from gram.models.baselines.model import Generative
from gram.models.build import Model
from gram.models.losses import labelled_count, random_noise, reconstruction_loss, trajectory_elbo
from gram.models.reasoner import Reasoner
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
    recipe: Recipe,
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
    device = model.device if isinstance(model, Generative) else model.h_init.device
    generator = torch.Generator(device=device).manual_seed(seed)
    found = []
    for start in range(0, count, ROWS):
        rows = slice(start, min(start + ROWS, count))
        pair = (examples.inputs, examples.targets)
        inputs, targets = (torch.from_numpy(np.array(part[rows])).to(device) for part in pair)
        ids = None if examples.puzzle_ids is None else torch.from_numpy(examples.puzzle_ids[rows]).to(device)
        found.append(_nats(model, recipe, inputs, targets, ids, generator).cpu())
        if progress is not None:
            progress(rows.stop - start)
    nats = torch.cat(found).double()
    error = float(nats.std() / len(nats) ** 0.5) if len(nats) > 1 else 0.0
    exact, meaning = _meaning(model)
    return Likelihood(float(nats.mean()), error, len(nats), exact, meaning)


def _meaning(model: Model) -> tuple[bool, str]:
    if isinstance(model, Generative):
        exact = model.config.name == "autoregressive"
        return exact, "chain rule" if exact else "variational bound"
    if not model.is_random:
        return True, "independent tokens"
    if model.guidance is None:  # log E[p] >= E[log p]
        return False, "Jensen's bound, one draw of the noise"
    return False, f"ELBO of all {model.config.transitions * model.config.supervision_steps} transitions"


@torch.no_grad()
def _nats(
    model: Model, recipe: Recipe, inputs: Tensor, targets: Tensor, ids: Tensor | None, generator: torch.Generator
) -> Tensor:
    """[rows]"""
    if isinstance(model, Generative):
        return model.law.log_likelihood_bound(inputs, targets, generator=generator)
    ids = ids if model.config.puzzles else None
    kind = recipe.objective.cross_entropy
    if not model.is_random or model.guidance is None:
        loss = reconstruction_loss(_final_logits(model, inputs, ids, generator), targets, kind)
    else:
        loss, _ = trajectory_elbo(model, inputs, targets, puzzle_ids=ids, kind=kind, generator=generator)
    return -loss * labelled_count(targets)


def _final_logits(model: Reasoner, inputs: Tensor, ids: Tensor | None, generator: torch.Generator) -> Tensor:
    """Logits [rows, length, vocabulary] after N_sup steps of a model without a posterior."""
    c = model.config
    state, e_x = model.initial_state(len(inputs)), model.encoder(inputs, ids)
    for n in range(c.supervision_steps):
        first = torch.full((len(inputs),), n * c.transitions, device=inputs.device)
        state = model.step(state, e_x, random_noise(state.h, generator), first_transition=first).state
    return model.decoder.logits(state.h)
