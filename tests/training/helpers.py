"""A task whose rows can be recognised, and the deal of its examples."""

from dataclasses import dataclass

import numpy as np

from gram.tasks.base import Examples, Tokens
from gram.training.distributed import SlotSharding
from gram.training.slots import SlotFeeder


@dataclass
class CountingTask:
    """Row i is filled with the number i, so that every row can be recognised; augmentation negates the target."""

    length: int = 6
    repairs: bool = False
    exchanges: bool = False

    def examples(self, rows: int) -> Examples:
        tokens = np.repeat(np.arange(rows)[:, None], self.length, axis=1)
        return Examples(tokens, tokens + 1, np.arange(rows))

    def augment(self, inputs: Tokens, targets: Tokens, generator: np.random.Generator) -> tuple[Tokens, Tokens]:
        generator.random()  # it may use the generator
        return inputs, -targets


def feeder_of(
    rows: int, slots: int, *, seed: int = 0, steps: int = 3, explore: float = 0.5, **options: object
) -> SlotFeeder:
    """Make the feeder of a counting task with `rows` rows."""
    task = CountingTask()
    sharding = SlotSharding(slots)
    return SlotFeeder(task, task.examples(rows), steps=steps, explore=explore, seed=seed, sharding=sharding, **options)
