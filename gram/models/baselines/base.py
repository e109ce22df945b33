"""What the generative models share: one small contract, and the drawing of tokens.

A model learns p(output | input) for rows of tokens. A position whose target is `IGNORE` carries no label: the model
reads token 0 (padding) there, and it enters no likelihood. A sampler that knows which positions these are holds them
at 0 (`labelled`), and samples all positions otherwise.
"""

from collections.abc import Callable
from typing import Any, Protocol

import torch
from torch import Tensor

from gram.tasks.base import IGNORE

Metrics = dict[str, Tensor]
"""Detached scalars for the log. Every model gives `nats`: -log p(output | input), or its bound, per row."""

PADDING = 0


class GenerativeModel(Protocol):
    """What every model of this package can do. All randomness comes from `generator`, on the tensors' device."""

    sampling_steps: int
    """steps of its sampler for one output, if nobody chooses fewer"""
    sample_settings: frozenset[str]
    """the sampling options, beside width and seed, that `sample` takes"""

    def loss(self, inputs: Tensor, targets: Tensor, generator: torch.Generator) -> tuple[Tensor, Metrics]:
        """inputs, targets [rows, length] -> the scalar to minimise, per labelled token, and metrics."""

    def sample(
        self, inputs: Tensor, *, generator: torch.Generator, labelled: Tensor | None = None, **settings: Any
    ) -> Tensor:
        """inputs [rows, length] -> one output [rows, length] for each; token 0 where `labelled` is False."""

    def log_likelihood_bound(
        self, inputs: Tensor, targets: Tensor, *, generator: torch.Generator, samples: int = ...
    ) -> Tensor:
        """[rows] a lower bound of log p(output | input) in nats, estimated without bias from `samples` draws."""


def split_targets(targets: Tensor) -> tuple[Tensor, Tensor]:
    """targets [rows, length] -> tokens, with padding for `IGNORE`, and the mask of labelled positions."""
    labelled = targets != IGNORE
    return torch.where(labelled, targets, PADDING), labelled


def hold_unlabelled(tokens: Tensor, labelled: Tensor | None) -> Tensor:
    """tokens [rows, length] with padding at the positions that carry no label ([rows, length] or [length])."""
    return tokens if labelled is None else torch.where(labelled, tokens, PADDING)


def draw(probabilities: Tensor, generator: torch.Generator) -> Tensor:
    """probabilities [..., choices] (any scale) -> [...] choices; one of probability 0 is never drawn."""
    flat = probabilities.reshape(-1, probabilities.shape[-1])
    return torch.multinomial(flat, 1, generator=generator).view(probabilities.shape[:-1])


def spread(rows: int, generator: torch.Generator, device: torch.device) -> Tensor:
    """[rows] uniform numbers in [0, 1), one in each of `rows` equal parts: a batch sees all times evenly."""
    return _below_one((torch.arange(rows, device=device) + torch.rand(rows, generator=generator, device=device)) / rows)


def spread_samples(rows: int, samples: int, generator: torch.Generator, device: torch.device) -> Tensor:
    """[samples, rows] uniform numbers in [0, 1): those of a row lie one in each of `samples` equal parts."""
    part = torch.arange(samples, device=device)[:, None]
    return _below_one((part + torch.rand(samples, rows, generator=generator, device=device)) / samples)


def _below_one(numbers: Tensor) -> Tensor:
    """Sums such as 127 + 0.99999999 round up: the largest number below 1 instead of 1."""
    return numbers.clamp(max=1 - torch.finfo(numbers.dtype).eps / 2)


def reveal(
    noisy: Tensor,
    mask: int,
    share: float,
    predict: Callable[[Tensor], Tensor],
    generator: torch.Generator,
    *,
    lazy: bool = True,
) -> Tensor:
    """Replace each `mask` in noisy [rows, length] with probability `share` by a draw from the prediction.

    `predict(index)` gives probabilities [chosen, length, vocabulary] of the rows index [chosen]. Which tokens are
    revealed does not depend on them, so a lazy sampler asks only for rows in which something is: a row of n tokens
    costs at most n predictions, however many steps are made.
    """
    revealed = (noisy == mask) & (torch.rand(noisy.shape, generator=generator, device=noisy.device) < share)
    wanted = revealed.any(dim=-1) if lazy else torch.ones_like(revealed[:, 0])
    index = wanted.nonzero()[:, 0]
    if not len(index):
        return noisy
    probabilities = predict(index)[revealed[index]]  # [revealed tokens, vocabulary]
    if not len(probabilities):
        return noisy
    result = noisy.clone()
    result[revealed] = draw(probabilities, generator)
    return result
