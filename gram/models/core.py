"""The core of the reasoner: f_L and f_H, and which of their applications the gradient reaches."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Literal

import torch
from torch import Tensor, nn

from gram.models.layers import Rope

CACHED_NUMBERS = 2**19
"""Roughly how many numbers of an intermediate result a core's cache holds; the speed hardly depends on it."""


def row_groups(x: Tensor, largest_row: int, fewest: int = 1) -> list[slice]:
    """Split the rows of x so that on a CPU the intermediate results of a group stay in the cache.

    `largest_row` is the number of elements per row of the largest one, and `fewest` the smallest group. This helps
    only without a gradient, because with one every result is kept anyway.
    """
    size = max(fewest, CACHED_NUMBERS // largest_row) if x.is_cpu else max(1, len(x))
    return [slice(start, start + size) for start in range(0, len(x), size)]


class Network(nn.Module):
    """A stack of blocks: f_L, f_H, or both. Without a gradient, the rows go through it in groups."""

    def __init__(self, blocks: Sequence[nn.Module], *, largest_row: int = 1, fewest_rows: int = 1) -> None:
        super().__init__()
        self.blocks = nn.ModuleList(blocks)
        self.largest_row, self.fewest_rows = largest_row, fewest_rows

    def forward(self, x: Tensor, rope: Rope | None = None) -> Tensor:
        """Apply the blocks to x [batch, length, dim] (state plus injected input); return the same shape."""
        if torch.is_grad_enabled():
            return self._apply_blocks(x, rope)
        x = x.detach()  # the sum that it is was made with a gradient
        groups = row_groups(x, self.largest_row, self.fewest_rows)
        if len(groups) > 1:
            y = torch.empty_like(x)
            for rows in groups:
                y[rows] = self._apply_blocks(x[rows], rope)
            return y
        return self._apply_blocks(x, rope)

    def _apply_blocks(self, x: Tensor, rope: Rope | None) -> Tensor:
        for block in self.blocks:
            x = block(x, rope)
        return x


@dataclass(frozen=True)
class Core:
    """The networks of one transition; those that the gradient does not reach run without one."""

    low: Sequence[Callable[[Tensor], Tensor]]
    """f_L, once for each of its K applications"""
    high: Callable[[Tensor], Tensor]
    """f_H"""
    tracked: bool
    """whether the gradient reaches u"""


def cores(
    low: Network,
    high: Network,
    rope: Rope | None,
    *,
    low_steps: int,
    transitions: int,
    gradient: Literal["transition", "call", "step"],
) -> Iterator[Core]:
    """Yield the networks of every transition of an update, whose `gradient` has the span that the settings name."""
    f_low, f_high = partial(low, rope=rope), partial(high, rope=rope)
    free_low, free_high = torch.no_grad()(f_low), torch.no_grad()(f_high)
    for t in range(transitions):
        tracked = torch.is_grad_enabled() and (gradient == "step" or t == transitions - 1)
        reached = 0 if not tracked else 1 if gradient == "call" else low_steps
        lows = [free_low] * (low_steps - reached) + [f_low] * reached
        yield Core(lows, f_high if tracked else free_high, tracked)
