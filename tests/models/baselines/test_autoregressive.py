"""The autoregressive model against naive loops and enumeration."""

from collections.abc import Callable

import pytest
import torch
from torch import Tensor
from torch.testing import assert_close

from gram.config import ArConfig
from gram.models.baselines.ar import Autoregressive, sharpen
from gram.models.baselines.base import draw
from gram.models.noise import derive, uniform
from gram.tasks.base import IGNORE
from tests.models.baselines.helpers import keys

VOCABULARY, LENGTH = 3, 4


@pytest.fixture
def model() -> Autoregressive:
    torch.manual_seed(0)
    config = ArConfig(dim=16, layers=2, heads=2, hidden=24)
    return Autoregressive(config, vocab_size=VOCABULARY, length=LENGTH)


@pytest.fixture
def inputs() -> Tensor:
    return torch.tensor([[1, 2, 0, 1], [2, 2, 2, 1]])


def naive_log_likelihood(model: Autoregressive, inputs: Tensor, targets: Tensor) -> Tensor:
    """One row and one token at a time."""
    totals = []
    for row, target in zip(inputs, targets, strict=True):
        total, tokens = 0.0, torch.zeros(1, 0).long()
        for token in target.tolist():
            if token != IGNORE:
                total += float(model(row[None], tokens)[0, -1].log_softmax(dim=-1)[token])
            tokens = torch.cat((tokens, torch.tensor([[max(token, 0)]])), dim=1)
        totals.append(total)
    return torch.tensor(totals)


@torch.no_grad()
def test_likelihood_is_the_naive_one(model: Autoregressive, inputs: Tensor) -> None:
    targets = torch.tensor([[1, 2, 2, 0], [1, IGNORE, 2, IGNORE]])
    expected = naive_log_likelihood(model, inputs, targets)
    assert_close(model.log_likelihood(inputs, targets), expected)
    assert_close(model.log_likelihood_bound(inputs, targets, key=keys(2)), expected)
    loss, metrics = model.loss(inputs, targets, keys(len(inputs)))
    assert_close(loss, -(expected / torch.tensor([4, 2])).mean())
    assert_close(metrics["nats"], -expected.mean())


def test_likelihoods_of_all_outputs_sum_to_one(
    model: Autoregressive, inputs: Tensor, all_rows: Callable[[int, int], Tensor]
) -> None:
    outputs = all_rows(VOCABULARY, LENGTH)
    for row in inputs:
        assert_close(model.log_likelihood(row.expand_as(outputs), outputs).exp().sum(), torch.tensor(1.0))


@pytest.mark.parametrize(("temperature", "top_p"), [(1.0, 1.0), (0.7, 0.8), (0.0, 1.0)])
def test_cached_sampling_is_uncached_sampling(
    model: Autoregressive, inputs: Tensor, temperature: float, top_p: float
) -> None:
    many, uncached = inputs.repeat(50, 1), torch.empty(50 * len(inputs), 0, dtype=torch.long)
    key = keys(len(many))
    cached = model.draw_outputs(many, temperature=temperature, top_p=top_p, key=key)
    for position in range(LENGTH):  # the whole sequence is read again for every token
        chances = sharpen(model(many, uncached)[:, -1], temperature, top_p)
        uncached = torch.cat((uncached, draw(chances, uniform(derive(key, position)))[:, None]), dim=1)
    assert torch.equal(cached, uncached)
    assert (len(cached.unique(dim=0)) > 2) == (temperature > 0)


def test_samples_follow_the_likelihood(
    model: Autoregressive, inputs: Tensor, all_rows: Callable[[int, int], Tensor]
) -> None:
    outputs = all_rows(VOCABULARY, LENGTH)
    drawn = model.draw_outputs(inputs[:1].expand(20_000, -1), key=keys(20_000))
    places = VOCABULARY ** torch.arange(LENGTH - 1, -1, -1)
    shares = torch.bincount((drawn * places).sum(dim=1), minlength=len(outputs)) / len(drawn)
    likelihoods = model.log_likelihood(inputs[:1].expand_as(outputs), outputs).exp()
    assert_close(shares, likelihoods, atol=0.01, rtol=0)


def test_unlabelled_positions_are_held_at_padding(model: Autoregressive, inputs: Tensor) -> None:
    labelled = torch.tensor([True, False, True, True])
    drawn = model.draw_outputs(inputs.repeat(20, 1), key=keys(40), labelled=labelled)
    assert not drawn[:, 1].any()
    assert drawn[:, [0, 2, 3]].any()


def brute_force(logits: list[float], temperature: float, top_p: float) -> list[float]:
    """Add the most probable tokens one by one until they reach top_p."""
    weights = torch.tensor([value / temperature for value in logits], dtype=torch.float64).exp()
    chances = (weights / weights.sum()).tolist()
    kept: list[int] = []
    for token in sorted(range(len(chances)), key=lambda token: -chances[token]):
        if sum(chances[other] for other in kept) < top_p:
            kept.append(token)
    mass = sum(chances[token] for token in kept)
    return [chances[token] / mass if token in kept else 0.0 for token in range(len(chances))]


@pytest.mark.parametrize("temperature", [0.3, 1.0, 2.5])
@pytest.mark.parametrize("top_p", [0.01, 0.4, 0.75, 0.99, 1.0])
def test_temperature_and_nucleus(temperature: float, top_p: float, generator: torch.Generator) -> None:
    logits = 2 * torch.randn(40, 6, generator=generator)
    expected = torch.tensor([brute_force(row, temperature, top_p) for row in logits.tolist()])
    assert_close(sharpen(logits, temperature, top_p), expected)


def test_temperature_zero_takes_the_most_probable() -> None:
    for temperature in (0, 1e-39):  # none is too small to divide by
        assert sharpen(torch.tensor([[0.1, 3.0, 2.9]]), temperature, 0.5).tolist() == [[0, 1, 0]]


def test_a_nucleus_of_equals_has_as_many_as_it_needs() -> None:
    assert sharpen(torch.zeros(1, 4), 1.0, 0.5).tolist() == [[0.5, 0.5, 0, 0]]


def test_learns(model: Autoregressive, generator: torch.Generator, learns: Callable[..., tuple[float, float]]) -> None:
    inputs = torch.randint(1, VOCABULARY, (64, LENGTH), generator=generator)
    first, last = learns(model, inputs, inputs.flip(1))
    assert last < 0.2 * first
    assert (model.draw_outputs(inputs, temperature=0, key=keys(len(inputs))) == inputs.flip(1)).float().mean() > 0.95
