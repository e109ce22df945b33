"""Which example enters which slot, epoch after epoch, in a seeded order."""

from typing import Any

import numpy as np
import torch
from torch import Tensor

from gram.models.carry import Rows
from gram.tasks.base import Examples, Task, Tokens
from gram.training.distributed import SlotSharding


class SlotFeeder:
    """Distributes the examples of a training split to slots.

    In a run of several processes, each keeps track of the examples of all slots and returns its own.
    """

    def __init__(
        self,
        task: Task,
        examples: Examples,
        *,
        steps: int,
        lifetime: tuple[int, int] | None = None,
        explore: float,
        seed: int,
        sharding: SlotSharding,
        puzzle_ids: bool = False,
    ) -> None:
        self.task = task
        self.examples = examples
        self.sharding = sharding
        self.max_steps = steps
        self.lifetime = lifetime
        self.puzzle_ids = puzzle_ids
        self.explore = explore
        self.generator = np.random.default_rng(seed)
        self.order = np.zeros(0, dtype=np.int64)
        """rows of this epoch in shuffled order"""
        self.dealt = 0
        """how many of them were used"""
        self.total = 0
        """examples used since the start of the run"""

    def place(self) -> tuple[Tokens, int, int, dict[str, Any]]:
        """Return the current position, for `go_back`."""
        return self.order, self.dealt, self.total, dict(self.generator.bit_generator.state)

    def go_back(self, place: tuple[Tokens, int, int, dict[str, Any]]) -> None:
        """Restore a position."""
        self.order, self.dealt, self.total, self.generator.bit_generator.state = place

    def next_rows(self, count: int) -> Tokens:
        """Return the next rows [count]; a new epoch starts where one ends."""
        taken = [self.order[self.dealt : self.dealt + count]]
        self.dealt += len(taken[0])
        while (missing := count - sum(map(len, taken))) > 0:
            self.order = self.generator.permutation(len(self.examples))
            taken.append(self.order[:missing])
            self.dealt = len(taken[-1])
        return np.concatenate(taken)

    def offer(self, finished: Tensor) -> Rows:
        """Return new examples for the slots where `finished` [own slots] is true, and zeros elsewhere."""
        everyone = self.sharding.gather(finished).cpu().numpy()
        count = int(everyone.sum())
        rows = self.next_rows(count)
        inputs, targets = self.examples.inputs[rows], self.examples.targets[rows]
        if count:
            inputs, targets = self.task.augment(inputs, targets, self.generator)
        minimum, lifetime = self._minimum_steps(count), self._lifetimes(count)
        deal = self.total + np.arange(count)
        self.total += count
        own = everyone[self.sharding.own]
        mine = (np.cumsum(everyone) - 1)[self.sharding.own][own]  # which of the fresh ones are its own

        def spread(values: Tokens) -> Tensor:
            full = np.zeros((len(own), *values.shape[1:]), dtype=np.int64)
            full[own] = values[mine]
            return torch.from_numpy(full).to(finished.device)

        ids = None
        if self.puzzle_ids and self.examples.puzzle_ids is not None:
            ids = spread(self.examples.puzzle_ids[rows])
        return Rows(spread(inputs), spread(targets), spread(deal), spread(lifetime), spread(minimum), spread(rows), ids)

    def _lifetimes(self, count: int) -> Tokens:
        """Return the lifetimes [count] of new examples: always N_sup, or log-uniform in a range."""
        if self.lifetime is None:
            return np.full(count, self.max_steps)
        low, high = np.log(self.lifetime)
        return np.exp(self.generator.uniform(low, high, count)).round().astype(np.int64)

    def _minimum_steps(self, count: int) -> np.ndarray:
        """Return minimum steps [count]: with probability `explore` a random number in 2..N_sup, else 0."""
        explored = self.generator.random(count) < self.explore
        low = min(2, self.max_steps)
        return np.where(explored, self.generator.integers(low, self.max_steps + 1, count), 0)
