"""A plain form of what the samplers do more cleverly."""

from collections.abc import Callable

import torch
from torch import Tensor

from gram.models.baselines.base import draw


def reveal_eagerly(
    noisy: Tensor, mask: int, share: float, predict: Callable[[Tensor], Tensor], generator: torch.Generator
) -> Tensor:
    """`reveal` with a prediction for every row in every step."""
    revealed = (noisy == mask) & (torch.rand(noisy.shape, generator=generator) < share)
    probabilities = predict(torch.arange(len(noisy)))[revealed]
    result = noisy.clone()
    if len(probabilities):
        result[revealed] = draw(probabilities, generator)
    return result
