"""The choice among trajectories against brute force."""

from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gram.inference.select import distinct, select

# Few different rows and values, so that ties are the rule.
SAMPLES = st.lists(
    st.tuples(st.tuples(st.integers(0, 2), st.integers(0, 1)), st.sampled_from([0.1, 0.5, 0.9])), min_size=1, max_size=9
)
Samples = list[tuple[tuple[int, int], float]]


def arrays(samples: Samples) -> tuple[np.ndarray, np.ndarray]:
    outputs = np.array([row for row, _ in samples], dtype=np.int64)
    return outputs, np.array([value for _, value in samples], dtype=np.float32)


@settings(max_examples=60)
@given(SAMPLES)
def test_vote_takes_the_most_frequent_then_the_best_then_the_earliest(samples: Samples) -> None:
    votes = Counter(row for row, _ in samples)
    best = None
    for index, (row, value) in enumerate(samples):
        key = (votes[row], value)
        if best is None or key > best[0]:
            best = key, index
    assert select(*arrays(samples), "vote") == best[1]


@settings(max_examples=30)
@given(SAMPLES)
def test_first_and_value(samples: Samples) -> None:
    outputs, values = arrays(samples)
    assert select(outputs, values, "first") == 0
    highest = max(value for _, value in samples)
    assert select(outputs, values, "value") == [value for _, value in samples].index(highest)


@settings(max_examples=60)
@given(SAMPLES)
def test_distinct_lists_every_row_once_most_frequent_first(samples: Samples) -> None:
    outputs, _ = arrays(samples)
    rows, counts = distinct(outputs)
    votes = Counter(row for row, _ in samples)
    order = sorted(votes, key=lambda row: (-votes[row], [r for r, _ in samples].index(row)))
    assert [tuple(row) for row in rows.tolist()] == order
    assert counts.tolist() == [votes[row] for row in order]


def test_nothing_to_choose_from() -> None:
    rows, counts = distinct(np.zeros((0, 4), dtype=np.int64))
    assert rows.shape == (0, 4)
    assert counts.tolist() == []


def test_an_unknown_rule_is_an_error() -> None:
    with pytest.raises(Exception, match="median"):
        select(np.zeros((2, 2), dtype=np.int64), np.zeros(2, dtype=np.float32), "median")
