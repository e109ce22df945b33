"""The processes that train together, and which of the run's slots each of them holds.

A run with several processes computes what one process with all slots would: every process follows the whole deal of
examples and draws the noise of all slots, and uses its own part. So the number of processes changes the speed, and not
(beyond rounding) the weights.
"""

from dataclasses import dataclass
from functools import cached_property
from typing import cast

import numpy as np
import torch
from lightning_fabric import Fabric
from numpy.typing import NDArray
from torch import Tensor

from gram.errors import GramError


@dataclass(frozen=True)
class Team:
    """Who this process is, and how the slots are dealt. The first `prior` slots of the run roll out from the prior."""

    slots: int
    """of the whole run"""
    prior: int = 0
    fabric: Fabric | None = None
    """None for a process that works alone"""

    def __post_init__(self) -> None:
        if self.slots < self.size:
            raise GramError(f"{self.size} processes need at least as many slots: raise train.slots ({self.slots}).")
        if self.slots % self.size or self.prior % self.size:
            raise GramError(
                f"{self.slots} slots, {self.prior} of them rolling out from the prior, cannot be dealt evenly to "
                f"{self.size} processes: change train.slots or objective.prior_share."
            )

    @property
    def rank(self) -> int:
        """The number of this process; the first one writes."""
        return 0 if self.fabric is None else self.fabric.global_rank

    @property
    def size(self) -> int:
        """How many processes there are."""
        return 1 if self.fabric is None else self.fabric.world_size

    def places(self, rank: int) -> NDArray[np.int64]:
        """The numbers [own slots] of a process's slots in the run: its share of the prior slots, then of the others."""
        prior, others = self.prior // self.size, (self.slots - self.prior) // self.size
        return np.concatenate([rank * prior + np.arange(prior), self.prior + rank * others + np.arange(others)])

    @cached_property
    def own(self) -> NDArray[np.int64]:
        """The places of this process."""
        return self.places(self.rank)

    @cached_property
    def _in_order(self) -> Tensor:
        """[slots] where each slot of the run stands when the processes' slots follow one another."""
        return torch.from_numpy(np.argsort(np.concatenate([self.places(rank) for rank in range(self.size)])))

    def gather(self, part: Tensor) -> Tensor:
        """[own slots, ...] of every process -> [slots, ...] in the order of the run."""
        if self.fabric is None or self.size == 1:
            return part
        parts = cast(Tensor, self.fabric.all_gather(part.contiguous()))
        return parts.flatten(0, 1)[self._in_order.to(part.device)]

    def any(self, number: int) -> int:
        """The largest of all processes' numbers."""
        if self.fabric is None or self.size == 1:
            return number
        return int(self.fabric.all_reduce(torch.tensor(number, device=self.fabric.device), reduce_op="max"))  # type: ignore[arg-type]

    def mean(self, figures: dict[str, float]) -> dict[str, float]:
        """The means of all processes' figures, of those that have one."""
        if self.fabric is None or self.size == 1:
            return figures
        values = torch.tensor(list(figures.values()), device=self.fabric.device)
        means = cast(Tensor, self.fabric.all_gather(values)).nanmean(dim=0)
        return dict(zip(figures, means.tolist(), strict=True))

    def sum(self, value: Tensor) -> Tensor:
        """The sum over all processes."""
        if self.fabric is None or self.size == 1:
            return value
        return self.fabric.all_reduce(value, reduce_op="sum")  # type: ignore[return-value]

    def draw(
        self, shape: tuple[int, ...], rows: slice, like: Tensor, generator: torch.Generator, *, normal: bool
    ) -> Tensor:
        """Noise [rows, *shape] of own slots `rows`: standard normal, or uniform in 0..1.

        The noise of all slots of that kind is drawn, in every process alike.
        """
        first, last, _ = rows.indices(len(self.own))
        prior = self.prior // self.size
        kind = slice(0 if first < prior else self.prior, self.slots if last > prior else self.prior)
        make = torch.randn if normal else torch.rand
        everyone = make((kind.stop - kind.start, *shape), generator=generator, device=like.device, dtype=like.dtype)
        if self.size == 1:
            return everyone
        return everyone[torch.from_numpy(self.own[rows] - kind.start).to(like.device)]
