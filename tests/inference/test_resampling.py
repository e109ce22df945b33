"""Resampling: unbiased, reproducible, and nothing but a rearrangement of states."""

from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gram.config import SampleOptions
from gram.errors import GramError
from gram.inference.resampling import Resampling, effective_sample_size, search, systematic
from gram.inference.sample import sample
from gram.models.reasoner import Reasoner
from gram.tasks.base import Tokens

ModelBuilder = Callable[..., Reasoner]
WEIGHTS = st.lists(st.floats(0.01, 10), min_size=1, max_size=12).map(np.array)
OPTIONS = SampleOptions(width=8, depth=4, keep_steps=True)


@pytest.fixture(scope="module")
def puzzles() -> Tokens:
    return np.random.default_rng(2).integers(0, 5, (5, 6))


@given(WEIGHTS, st.floats(0, 0.999999))
def test_everyone_gets_his_share_up_to_one(weights: np.ndarray, uniform: float) -> None:
    chosen = systematic(weights, uniform)
    assert len(chosen) == len(weights)
    copies = np.bincount(chosen, minlength=len(weights))
    expected = len(weights) * weights / weights.sum()
    assert (np.abs(copies - expected) < 1 + 1e-6).all()


@given(WEIGHTS)
def test_on_average_exactly_his_share(weights: np.ndarray) -> None:
    grid = (np.arange(2000) + 0.5) / 2000  # all values of the one uniform number
    copies = np.mean([np.bincount(systematic(weights, u), minlength=len(weights)) for u in grid], axis=0)
    np.testing.assert_allclose(copies, len(weights) * weights / weights.sum(), atol=0.01)


def test_effective_sample_size() -> None:
    assert effective_sample_size(np.ones(7)) == pytest.approx(7)
    assert effective_sample_size(np.array([1.0, 0.0, 0.0])) == pytest.approx(1)
    assert effective_sample_size(np.array([3.0, 1.0])) == pytest.approx(16 / 10)


def test_equal_weights_change_nothing(tiny_model: ModelBuilder, puzzles: Tokens) -> None:
    model = tiny_model(dim=16, log_sigma_init=0.0).eval()
    plain = sample(model, puzzles, OPTIONS)
    resampling = Resampling([1, 3], power=0)
    guided = search(model, puzzles, OPTIONS, resampling)
    assert np.array_equal(plain.step_outputs, guided.step_outputs)
    assert resampling.sample_sizes == {1: [pytest.approx(8)] * 5, 3: [pytest.approx(8)] * 5}


def test_it_can_be_repeated_puzzle_by_puzzle(tiny_model: ModelBuilder, puzzles: Tokens) -> None:
    model = tiny_model(dim=16, log_sigma_init=0.0).eval()
    model.decoder.value.weight.data.normal_(std=5.0)
    together = search(model, puzzles, OPTIONS, Resampling([2], power=3))
    for i in range(len(puzzles)):
        alone = search(model, puzzles[[i]], OPTIONS, Resampling([2], power=3))
        assert np.array_equal(alone.outputs[0], together.outputs[i])
    plain = sample(model, puzzles, OPTIONS)
    assert np.array_equal(plain.step_outputs[:, :, 1], together.step_outputs[:, :, 1])  # the same until then
    assert not np.array_equal(plain.outputs, together.outputs)


@pytest.mark.parametrize(
    ("resampling", "options"),
    [
        (Resampling([]), OPTIONS),
        (Resampling([0]), OPTIONS),
        (Resampling([4]), OPTIONS),
        (Resampling([1], power=-1), OPTIONS),
        (Resampling([1]), SampleOptions(depth=4, halt=True)),
        (Resampling([1]), SampleOptions(depth=4, temperature=0)),
    ],
)
def test_what_cannot_be_done(
    tiny_model: ModelBuilder, puzzles: Tokens, resampling: Resampling, options: SampleOptions
) -> None:
    with pytest.raises(GramError):
        search(tiny_model(), puzzles, options, resampling)
