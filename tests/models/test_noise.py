"""Keyed noise: standard-normal, independent from key to key, and the same in any company."""

import numpy as np
import pytest
import torch
from torch import Tensor

from gram.models.noise import derive, normal, puzzle_key, uniform

ROWS = 4000


def keys(count: int = ROWS, seed: int = 0) -> Tensor:
    """Neighbouring numbers under one seed: what a run uses."""
    return derive(torch.full((count,), seed), torch.arange(count))


# --- what is drawn ----------------------------------------------------------------------------------------------------


def test_normal_numbers_have_the_moments_of_the_standard_normal() -> None:
    drawn = normal(keys(), 25, 10).double().flatten()
    count = len(drawn)
    moments = [float(drawn.pow(n).mean()) for n in (1, 2, 3, 4)]
    # The variance of x^n is E[x^2n] - E[x^n]^2: 1, 2, 15, 96.
    for found, expected, variance in zip(moments, (0, 1, 0, 3), (1, 2, 15, 96), strict=True):
        assert abs(found - expected) < 4.5 * (variance / count) ** 0.5


def test_normal_numbers_follow_the_distribution_function() -> None:
    drawn = normal(keys(), 100).double().flatten().sort().values
    expected = torch.special.ndtr(drawn)
    found = (torch.arange(len(drawn)) + 0.5) / len(drawn)
    assert float((found - expected).abs().max()) < 1.95 / len(drawn) ** 0.5  # Kolmogorov-Smirnov, p = 0.001


def test_uniform_numbers_are_uniform() -> None:
    drawn = uniform(keys(100_000)).double()
    assert 0 <= float(drawn.min()) < float(drawn.max()) < 1
    shares = torch.histc(drawn, 20, 0, 1) / len(drawn)
    assert float((shares - 0.05).abs().max()) < 4.5 * (0.05 * 0.95 / len(drawn)) ** 0.5


@pytest.mark.parametrize("shape", [(1,), (7,), (3, 5), (2, 3, 4)])
def test_any_shape_can_be_drawn_and_all_numbers_are_finite(shape: tuple[int, ...]) -> None:
    drawn = normal(keys(), *shape)
    assert drawn.shape == (ROWS, *shape)
    assert drawn.dtype == torch.float32
    assert bool(drawn.isfinite().all())
    assert len(torch.unique(drawn[0])) == drawn[0].numel()


# --- independence -----------------------------------------------------------------------------------------------------


def test_numbers_of_a_row_and_of_neighbouring_rows_are_uncorrelated() -> None:
    drawn = normal(keys(), 40).double()
    bound = 5 / ROWS**0.5
    within = torch.corrcoef(drawn.T) - torch.eye(40)
    assert float(within.abs().max()) < bound
    between = drawn[:-1].T @ drawn[1:] / (ROWS - 1)
    assert float(between.abs().max()) < bound
    # Dependence that a correlation does not show: pairs share their radius before they become numbers.
    squares = drawn.square()
    assert float((torch.corrcoef(squares.T) - torch.eye(40)).abs().max()) < bound


@pytest.mark.parametrize("part", [1, 17])
def test_seeds_steps_and_labels_give_independent_noise(part: int) -> None:
    first, second = (normal(derive(keys(), label), 40).double() for label in (0, part))
    assert float((first * second).mean().abs()) < 5 / first.numel() ** 0.5
    one, other = (normal(keys(seed=seed), 40).double() for seed in (0, part))
    assert float((one * other).mean().abs()) < 5 / one.numel() ** 0.5


def test_derive_separates_every_part() -> None:
    numbers = torch.arange(40)
    found = [derive(a.expand(40), numbers) for a in numbers]  # every (a, b), and so (b, a) and (a, a) too
    assert len(torch.unique(torch.cat(found))) == 40 * 40
    deep = [derive(numbers, a, b) for a in range(-2, 6) for b in range(6)]
    shallow = [derive(numbers, a) for a in range(-2, 6)]
    everything = torch.cat([numbers, *shallow, *deep])
    assert len(torch.unique(everything)) == len(everything)


def test_derive_takes_a_number_or_one_for_each_row() -> None:
    key = keys(5)
    assert torch.equal(derive(key, 3), derive(key, torch.full((5,), 3)))
    assert torch.equal(derive(key, 3, 4), derive(derive(key, 3), 4))
    before = key.clone()
    derive(key, 1)
    normal(key, 3)
    assert torch.equal(key, before)  # the arithmetic is in place, but not in the caller's tensor


def test_one_bit_of_the_key_changes_half_of_the_bits() -> None:
    key = keys(2000)
    for bit in (0, 5, 31, 62):
        changed = derive(key, 1) ^ derive(key ^ (1 << bit), 1)
        flipped = sum(int(((changed >> place) & 1).sum()) for place in range(64))
        assert flipped / (64 * 2000) == pytest.approx(0.5, abs=0.01)


# --- the company ------------------------------------------------------------------------------------------------------


def test_a_rows_noise_does_not_depend_on_the_others() -> None:
    key = keys(30)
    together = normal(key, 6, 5)
    order = torch.randperm(30, generator=torch.Generator().manual_seed(0))
    assert torch.equal(normal(key[order], 6, 5), together[order])
    assert torch.equal(normal(key[4:5], 6, 5)[0], together[4])
    assert torch.equal(normal(key[::3], 6, 5), together[::3])
    assert torch.equal(uniform(key[order]), uniform(key)[order])


def test_noise_leaves_torchs_generator_alone() -> None:
    before = torch.get_rng_state()
    normal(keys(10), 4)
    uniform(keys(10))
    assert torch.equal(torch.get_rng_state(), before)


def test_the_hash_is_splitmix64() -> None:
    # The first outputs of the reference implementation for seed 1234567, as unsigned numbers.
    expected = [6457827717110365317, 3203168211198807973, 9817491932198370423]
    seed, golden = 1234567, 0x9E3779B97F4A7C15
    for place, number in enumerate(expected):
        x = (seed + golden * (place + 1)) % 2**64
        drawn = uniform(torch.tensor([(x - golden + 2**63) % 2**64 - 2**63]))
        assert float(drawn) == pytest.approx((number >> 40) / 2**24, abs=1e-7)


def test_a_puzzles_key_is_its_tokens_and_its_id() -> None:
    tokens = np.array([1, 2, 3])
    assert puzzle_key(tokens) == puzzle_key(np.array([1, 2, 3], dtype=np.int32))
    others = [
        puzzle_key(np.array([1, 2, 4])),
        puzzle_key(np.array([1, 2])),
        puzzle_key(tokens, 0),
        puzzle_key(tokens, 1),
    ]
    assert len({puzzle_key(tokens), *others}) == 5
    assert all(-(2**63) <= key < 2**63 for key in others)
