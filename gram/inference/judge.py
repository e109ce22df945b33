"""The judge of samples: their canonical form, the verdict of the task's checker, and the distinct solutions."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from gram.inference.estimate import Estimate, estimate
from gram.inference.select import distinct
from gram.tasks.base import Task, Tokens


@dataclass(frozen=True)
class Judged:
    """Outputs with the verdict of the task's checker on each."""

    outputs: Tokens
    """[..., length] in canonical form"""
    valid: NDArray[np.bool_]
    """[...] the checker accepts the output; without a checker, nothing is valid"""
    conflicts: NDArray[np.int64]
    """[...] how many rules the output breaks"""

    @property
    def solutions(self) -> tuple[Tokens, NDArray[np.int64]]:
        """The distinct valid outputs [solutions, length], most frequent first, and how often each occurs."""
        return distinct(self.outputs[self.valid])

    @property
    def estimate(self) -> Estimate:
        """The estimated number of all solutions of the one input that these outputs belong to."""
        return estimate(self.solutions[1])


def judge(task: Task, inputs: Tokens, outputs: Tokens) -> Judged:
    """Verify outputs [..., length] for one input [length], or [puzzles, ..., length] for inputs [puzzles, length]."""
    shape, length = outputs.shape[:-1], outputs.shape[-1]
    rows = task.canonical(outputs.reshape(-1, length))
    given = inputs.reshape(*inputs.shape[:-1], *[1] * (outputs.ndim - inputs.ndim), length)
    verdict = task.verify(np.broadcast_to(given, outputs.shape).reshape(-1, length), rows)
    valid = verdict.valid if task.has_rules else np.zeros_like(verdict.valid)
    return Judged(rows.reshape(outputs.shape), valid.reshape(shape), verdict.conflicts.reshape(shape))
