"""Estimates of the number of solutions from how often each was found: Good-Turing and Chao1.

Both use the rare ones: f1 solutions were found once and f2 twice, and many singletons mean that many are still unseen.
The estimates tend to be too low, because a solution that the model almost never samples leaves no trace.
"""

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

NORMAL_95 = 1.959964
"""Two-sided 95% point of the standard normal."""
ROUNDING = 0.01
"""A smaller fraction of one more solution is rounded down."""


@dataclass(frozen=True)
class Estimate:
    """The estimated number of solutions, from the counts of verified ones."""

    seen: int
    """different solutions found"""
    samples: int
    """verified samples they were found in"""
    good_turing: float
    """estimated probability that the next verified sample is one of those seen"""
    chao1: float
    """estimated number of solutions"""
    low: int
    high: int
    """95% interval of that number"""

    @property
    def coverage(self) -> float:
        """The fraction of solutions found, if there are as many as the upper end of the interval."""
        return self.seen / self.high if self.high else 0.0

    def __str__(self) -> str:
        return (
            f"estimated {self.chao1:.1f} solutions in all (95% interval {self.low} to {self.high}); "
            f"a new sample is a known one with probability {self.good_turing:.3f}"
        )


def estimate(counts: NDArray[np.int64]) -> Estimate:
    """Estimate the number of solutions from counts [solutions], how often each distinct one was found (at least 1)."""
    seen, samples = len(counts), int(counts.sum())
    if not seen:
        return Estimate(0, 0, 0.0, 0.0, 0, 0)
    once, twice = int((counts == 1).sum()), int((counts == 2).sum())
    shrink = (samples - 1) / samples
    unseen = shrink * once * (once - 1) / (2 * (twice + 1))  # the form without division by zero (Chao 2005)
    if unseen > 0:
        spread = math.exp(
            NORMAL_95 * math.sqrt(math.log(1 + _variance(once, twice, shrink, seen + unseen) / unseen**2))
        )
        low, high = seen + unseen / spread, seen + unseen * spread
    else:
        low, high = _interval_without_rare_finds(counts)
    return Estimate(seen, samples, 1 - once / samples, seen + unseen, math.floor(low), math.ceil(high - ROUNDING))


def _variance(once: int, twice: int, shrink: float, chao1: float) -> float:
    """Return the variance of Chao1 (Chao 1987, in its form for few doubletons)."""
    if twice:
        ratio = once / twice
        return twice * (shrink / 2 * ratio**2 + shrink**2 * ratio**3 + shrink**2 / 4 * ratio**4)
    pairs = shrink * once * (once - 1) / 2 + shrink**2 * once * (2 * once - 1) ** 2 / 4
    return max(pairs - shrink**2 * once**4 / (4 * chao1), 0.0)


def _interval_without_rare_finds(counts: NDArray[np.int64]) -> tuple[float, float]:
    """Return the interval for at most one singleton, where Chao1 is exactly `seen`, from P(a solution is missed)."""
    seen, samples = len(counts), int(counts.sum())
    missed = np.exp(-counts.astype(np.float64))  # a solution with Poisson mean i is missed with probability e^-i
    unseen = float(missed.mean())
    variance = float((missed - missed**2).sum() - (counts * missed).sum() ** 2 / samples)
    margin = NORMAL_95 * math.sqrt(max(variance, 0.0)) / (1 - unseen)
    return max(seen, seen / (1 - unseen) - margin), seen / (1 - unseen) + margin
