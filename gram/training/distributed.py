"""How the slots of a run are distributed over its processes.

A run with several processes computes the same as one process with all slots: every process knows the order of all
examples, and noise is keyed by the example. So the number of processes changes the speed but not the weights, except
for rounding.
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
class SlotSharding:
    """Which slots of the run this process holds: every `size`-th one, from its rank on."""

    slots: int
    """of the whole run"""
    rollouts: int = 0
    """how many of them, the first ones, roll out from the prior"""
    fabric: Fabric | None = None
    """None for a single process"""

    def __post_init__(self) -> None:
        if self.slots < self.size:
            raise GramError(f"{self.size} processes need at least as many slots: raise train.slots ({self.slots}).")
        if self.slots % self.size or self.rollouts % self.size:
            raise GramError(
                f"{self.slots} slots, {self.rollouts} of them rolling out from the prior, cannot be split evenly over "
                f"{self.size} processes: change train.slots or objective.prior_share."
            )

    @property
    def rank(self) -> int:
        """The number of this process; the first one writes."""
        return 0 if self.fabric is None else self.fabric.global_rank

    @property
    def size(self) -> int:
        """The number of processes."""
        return 1 if self.fabric is None else self.fabric.world_size

    @cached_property
    def own(self) -> NDArray[np.int64]:
        """[own slots] the numbers of this process's slots."""
        return np.arange(self.rank, self.slots, self.size)

    def gather(self, part: Tensor) -> Tensor:
        """Return [slots, ...] in the order of the run, from [own slots, ...] of every process."""
        if self.fabric is None or self.size == 1:
            return part
        return cast(Tensor, self.fabric.all_gather(part.contiguous())).transpose(0, 1).flatten(0, 1)

    def any(self, number: int) -> int:
        """Return the largest of all processes' numbers."""
        if self.fabric is None or self.size == 1:
            return number
        return int(self.fabric.all_reduce(torch.tensor(number, device=self.fabric.device), reduce_op="max"))  # type: ignore[arg-type]

    def mean(self, metrics: dict[str, float]) -> dict[str, float]:
        """Return the means of all processes' metrics, of those that have one."""
        if self.fabric is None or self.size == 1:
            return metrics
        values = torch.tensor(list(metrics.values()), device=self.fabric.device)
        means = cast(Tensor, self.fabric.all_gather(values)).nanmean(dim=0)
        return dict(zip(metrics, means.tolist(), strict=True))
