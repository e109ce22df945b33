"""Ways to average over the inputs of a split, and what two ideal models would cover in each of them.

With k_i solutions, r_i rows (one per input and target) and c_i of the solutions found for input i:

    headline        sum r_i c_i/k_i / sum r_i   over inputs with at least two solutions
    all_inputs      mean of c_i/k_i             every distinct input counts once
    pooled_rows     sum r_i c_i / sum r_i k_i   solutions found over solutions that exist, counted row by row
    pooled_inputs   sum c_i / sum k_i           the same, every distinct input counted once

The paper does not say which one it takes. Its numbers fit the pooled ones best (docs/tasks.md).
"""

from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from gram.tasks.base import Tokens

Floats = NDArray[np.float64]
Counts = Tokens | Floats
DRAWS = 20
"""Samples that the paper's coverage is taken from."""


@dataclass(frozen=True)
class Weighting:
    """How much each distinct input counts."""

    unit: Literal["rows", "inputs"]
    """what is counted"""
    accuracy: Floats
    """[inputs] weights for accuracy"""
    coverage: Floats
    """[inputs] weights for coverage"""

    @property
    def count(self) -> int:
        """The number of rows or inputs with a weight."""
        return int(self.accuracy.sum())


def weightings(solutions: Counts, rows: Counts) -> dict[str, Weighting]:
    """Return all weightings by name, given the numbers of solutions [inputs] and rows [inputs] of every input."""
    once, each_row = np.ones(len(solutions)), rows.astype(np.float64)
    several = each_row * (solutions >= 2)
    all_inputs = Weighting("inputs", once, once)
    return {
        "headline": Weighting("rows", several, several) if several.any() else all_inputs,
        "all_inputs": all_inputs,
        "pooled_rows": Weighting("rows", each_row, each_row * solutions),
        "pooled_inputs": Weighting("inputs", once, once * solutions),
    }


def headline_text(headline: Weighting) -> str:
    """Describe the headline: if no input has two solutions, it is the mean over all inputs."""
    if headline.unit == "rows":
        return "mean over rows (input, target) of inputs with at least two solutions"
    return "mean over all inputs (none has two solutions)"


def exactly(solutions: Counts, count: int) -> Weighting:
    """Return the weighting of the inputs that have exactly `count` of the solutions [inputs]."""
    alike = (solutions == count).astype(np.float64)
    return Weighting("inputs", alike, alike)


def ideal_coverage(solutions: Counts, weighting: Weighting, draws: int) -> dict[str, float]:
    """Return the coverage of two ideal models on inputs with these numbers of solutions [inputs].

    Both are always correct. One samples uniformly from all solutions, the other always returns the same one.
    """
    each = 1 / solutions
    uniform = 1 - (1 - each) ** draws
    return {
        "uniform_coverage": float(np.average(uniform, weights=weighting.coverage)),
        "deterministic_coverage": float(np.average(each, weights=weighting.coverage)),
    }
