"""Estimates of the number of solutions against what is known of them, and against simulation."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gram.inference.estimate import estimate


def test_the_formulas() -> None:
    # Seven species: f1 = 3, f2 = 2, n = 3 + 4 + 5 + 10.
    found = estimate(np.array([1, 1, 1, 2, 2, 5, 10]))
    assert (found.seen, found.samples) == (7, 22)
    assert found.good_turing == pytest.approx(1 - 3 / 22)
    unseen = 21 / 22 * 3 * 2 / (2 * 3)
    assert found.chao1 == pytest.approx(7 + unseen)
    shrink, ratio = 21 / 22, 3 / 2
    variance = 2 * (shrink / 2 * ratio**2 + shrink**2 * ratio**3 + shrink**2 / 4 * ratio**4)
    spread = math.exp(1.959964 * math.sqrt(math.log(1 + variance / unseen**2)))
    assert found.low == math.floor(7 + unseen / spread)
    assert found.high == math.ceil(7 + unseen * spread)


def test_nothing_found_and_everything_found_often() -> None:
    nothing = estimate(np.zeros(0, dtype=np.int64))
    assert (nothing.seen, nothing.chao1, nothing.coverage) == (0, 0.0, 0.0)
    sure = estimate(np.array([40, 50, 60]))
    assert (sure.chao1, sure.low, sure.high, sure.good_turing, sure.coverage) == (3, 3, 3, 1, 1)


@given(st.lists(st.integers(1, 30), min_size=1, max_size=12))
def test_an_estimate_is_never_below_what_was_seen(counts: list[int]) -> None:
    found = estimate(np.array(counts))
    assert found.seen <= found.low <= found.high
    assert found.seen <= found.chao1
    assert 0 <= found.good_turing <= 1
    assert 0 < found.coverage <= 1


def test_the_interval_holds_for_equally_likely_solutions() -> None:
    generator = np.random.default_rng(0)
    for solutions, samples in ((5, 60), (20, 60), (40, 80)):
        hits = 0
        for _ in range(300):
            counts = np.bincount(generator.integers(0, solutions, samples), minlength=solutions)
            found = estimate(counts[counts > 0])
            hits += found.low <= solutions <= found.high
        assert hits > 0.9 * 300
