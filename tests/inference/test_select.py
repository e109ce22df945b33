"""The choice among trajectories against brute force."""

from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gram.errors import GramError
from gram.inference.select import RULES, check_rule, distinct, select, selected_are_valid

# Few different rows and values, so that ties are the rule; a row is valid if its first token is 2.
SAMPLES = st.lists(
    st.tuples(st.tuples(st.integers(0, 2), st.integers(0, 1)), st.sampled_from([0.1, 0.5, 0.9])), min_size=1, max_size=9
)
Samples = list[tuple[tuple[int, int], float]]


def arrays(samples: Samples) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    outputs = np.array([row for row, _ in samples], dtype=np.int64)
    values = np.array([value for _, value in samples], dtype=np.float32)
    return outputs, values, values[::-1].copy(), outputs[:, 0] == 2


def by_vote(samples: Samples, among: list[int]) -> int:
    votes = Counter(samples[index][0] for index in among)
    best = None
    for index in among:
        row, value = samples[index]
        key = (votes[row], value)
        if best is None or key > best[0]:
            best = key, index
    return best[1]


@settings(max_examples=60)
@given(SAMPLES)
def test_vote_takes_the_most_frequent_then_the_best_then_the_earliest(samples: Samples) -> None:
    everyone = list(range(len(samples)))
    assert select(*arrays(samples), "vote") == by_vote(samples, everyone)
    valid = [index for index in everyone if samples[index][0][0] == 2]
    assert select(*arrays(samples), "verified") == by_vote(samples, valid or everyone)


@settings(max_examples=30)
@given(SAMPLES)
def test_first_value_and_halt(samples: Samples) -> None:
    values = [value for _, value in samples]
    assert select(*arrays(samples), "first") == 0
    assert select(*arrays(samples), "value") == values.index(max(values))
    assert select(*arrays(samples), "halt") == values[::-1].index(max(values))


@given(st.lists(SAMPLES.map(lambda samples: (samples * 9)[:9]), min_size=1, max_size=3), st.sampled_from(RULES))
def test_many_puzzles_are_many_selections(puzzles: list[Samples], rule: str) -> None:
    stacked = [np.stack(parts) for parts in zip(*map(arrays, puzzles), strict=True)]
    expected = [bool(arrays(samples)[3][select(*arrays(samples), rule)]) for samples in puzzles]
    assert selected_are_valid(*stacked, rule).tolist() == expected


@settings(max_examples=60)
@given(SAMPLES)
def test_distinct_lists_every_row_once_most_frequent_first(samples: Samples) -> None:
    outputs = arrays(samples)[0]
    rows, counts = distinct(outputs)
    votes = Counter(row for row, _ in samples)
    order = sorted(votes, key=lambda row: (-votes[row], [r for r, _ in samples].index(row)))
    assert [tuple(row) for row in rows.tolist()] == order
    assert counts.tolist() == [votes[row] for row in order]


def test_nothing_to_choose_from() -> None:
    rows, counts = distinct(np.zeros((0, 4), dtype=np.int64))
    assert rows.shape == (0, 4)
    assert counts.tolist() == []


def test_a_rule_that_cannot_be_used_is_an_error() -> None:
    with pytest.raises(GramError, match="median"):
        check_rule("median", has_rules=True)
    with pytest.raises(GramError, match="no checker"):
        check_rule("verified", has_rules=False)
