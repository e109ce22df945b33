"""95% intervals by the bootstrap: inputs are drawn again with replacement, and the metrics averaged anew.

An interval says how much a metric would move with other inputs of the same kind. It does not say how much it would move
with another seed of the training, and it has no width where all inputs agree.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
RESAMPLES = 2000
PERCENTILES = (2.5, 97.5)
AT_ONCE = 4_000_000
"""Numbers that are drawn together."""


@dataclass(frozen=True)
class Difference:
    """How much a metric of B exceeds that of A on the same inputs."""

    a: float
    b: float
    difference: float
    interval: tuple[float, float]
    """95%, by resampling inputs with both of their outcomes"""

    @property
    def clear(self) -> bool:
        """Whether the interval excludes 0."""
        return not self.interval[0] <= 0 <= self.interval[1]


def weighted_interval(values: Floats, weights: Floats) -> Floats:
    """Return the interval [metrics, 2] of each weighted mean of values [inputs, metrics], weights [inputs, metrics].

    Inputs that count for nothing in a column of weights are not drawn for any: columns must agree on them.
    """
    counted = (weights > 0).any(axis=1)
    values, weights = values[counted], weights[counted]
    means = [(counts @ (values * weights)) / (counts @ weights) for counts in _resamples(len(values))]
    return np.percentile(np.concatenate(means), PERCENTILES, axis=0).T


def mean_interval(values: Floats) -> tuple[float, float]:
    """Return the interval of the mean of values [inputs]."""
    low, high = weighted_interval(values[:, None], np.ones((len(values), 1)))[0]
    return float(low), float(high)


def paired_difference(a: Floats, b: Floats, weights: Floats) -> Difference:
    """Compare the weighted means of a and b [inputs], outcomes of two models on the same inputs."""
    low, high = weighted_interval((b - a)[:, None], weights[:, None])[0]
    first, second = (float(np.average(values, weights=weights)) for values in (a, b))
    return Difference(first, second, second - first, (float(low), float(high)))


def _resamples(inputs: int) -> Iterator[Floats]:
    """Yield how often each input is drawn, [resamples, inputs], a part of all resamples at a time."""
    generator = np.random.default_rng(0)
    part = max(1, min(RESAMPLES, AT_ONCE // max(1, inputs)))
    for start in range(0, RESAMPLES, part):
        rows = min(part, RESAMPLES - start)
        drawn = generator.integers(inputs, size=(rows, inputs)) + inputs * np.arange(rows)[:, None]
        yield np.bincount(drawn.ravel(), minlength=rows * inputs).reshape(rows, inputs).astype(np.float64)
