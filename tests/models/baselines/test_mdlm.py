"""Masked diffusion against enumeration of all masks and of all orders."""

import itertools
from collections.abc import Callable
from math import comb

import pytest
import torch
from torch import Tensor, nn
from torch.testing import assert_close

from gram.config import MdlmConfig
from gram.errors import GramError
from gram.models.baselines import base, mdlm
from gram.models.baselines.mdlm import Mdlm
from gram.models.noise import spread
from gram.tasks.base import IGNORE
from tests.models.baselines.helpers import keys, reveal_eagerly

VOCABULARY, LENGTH, MASK = 3, 3, 3
INPUT = torch.tensor([1, 0, 2])
TOKENS = torch.tensor([2, 1, 0])
TINY = {"dim": 16, "layers": 2, "heads": 2, "hidden": 24, "time_dim": 8}
Denoisers = Callable[..., nn.Module]


def toy(table_denoiser: Denoisers, **changes: object) -> Mdlm:
    model = Mdlm(MdlmConfig(**TINY, **changes), vocab_size=VOCABULARY, length=LENGTH)
    model.denoiser = table_denoiser(vocab_size=VOCABULARY, states=VOCABULARY + 1, length=LENGTH)
    return model


def masks() -> list[tuple[bool, ...]]:
    return list(itertools.product((False, True), repeat=LENGTH))


def cost(model: Mdlm, tokens: Tensor, mask: tuple[bool, ...], time: float = 0.0) -> float:
    """-log p of the masked tokens, straight from the denoiser."""
    noisy = torch.where(torch.tensor(mask), MASK, tokens)[None]
    logits = model.denoiser(INPUT[None], noisy, torch.tensor([time]))[0]
    return -sum(float(logits[i].log_softmax(dim=-1)[tokens[i]]) for i in range(LENGTH) if mask[i])


def exact_bound(model: Mdlm, tokens: Tensor) -> float:
    """The integral over t of t^n (1 - t)^(L - n) / t is 1 / (n choose(L, n)), for each set of n masks."""
    return sum(cost(model, tokens, mask) / (sum(mask) * comb(LENGTH, sum(mask))) for mask in masks() if any(mask))


def numerical_bound(model: Mdlm, tokens: Tensor, *, points: int = 2000) -> float:
    """The same by adding up over masks and times, with the model's own integrand."""
    time = (torch.arange(points) + 0.5) / points
    total = torch.zeros(points)
    for mask in masks():
        noisy = torch.where(torch.tensor(mask), MASK, tokens).expand(points, -1)
        chance = time ** sum(mask) * (1 - time) ** (LENGTH - sum(mask))
        total += chance * model.weighted_loss(INPUT.expand(points, -1), tokens.expand(points, -1), noisy, time)
    return float(total.mean())


def test_times_never_reach_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    largest = 1 - torch.finfo(torch.float32).eps / 2
    monkeypatch.setattr(base, "uniform", lambda key, count: torch.full((len(key), count), largest))
    assert base.spread_samples(keys(2), 128).max() < 1  # 127 + the largest number rounds to 128
    assert spread(torch.tensor([-1])) < 1  # a key of ones alone


def likelihood(model: Mdlm, tokens: Tensor) -> float:
    """p(output) when tokens are revealed one at a time, in random order."""
    orders = list(itertools.permutations(range(LENGTH)))
    total = 0.0
    for order in orders:
        noisy, chance = torch.full((1, LENGTH), MASK), 1.0
        for place in order:
            logits = model.denoiser(INPUT[None], noisy, torch.zeros(1))[0, place]
            chance *= float(logits.softmax(dim=-1)[tokens[place]])
            noisy[0, place] = tokens[place]
        total += chance / len(orders)
    return total


def test_integrand_is_the_enumerated_one(table_denoiser: Denoisers) -> None:
    model = toy(table_denoiser)
    assert numerical_bound(model, TOKENS) == pytest.approx(exact_bound(model, TOKENS), rel=1e-4)


@pytest.mark.parametrize("time_conditioning", [False, True])
def test_bound_and_loss_estimate_the_integral(table_denoiser: Denoisers, time_conditioning: bool) -> None:
    model = toy(table_denoiser, time_conditioning=time_conditioning, smallest_time=1e-5)
    expected = numerical_bound(model, TOKENS)
    inputs, targets = INPUT.expand(160_000, -1), TOKENS.expand(160_000, -1)
    bound = model.log_likelihood_bound(inputs[:1600], targets[:1600], key=keys(1600), samples=100)
    assert -float(bound.mean()) == pytest.approx(expected, rel=0.02)
    loss, metrics = model.loss(inputs, targets, keys(len(inputs)))
    assert float(metrics["nats"]) == pytest.approx(expected, rel=0.02)
    assert float(loss) == pytest.approx(expected / LENGTH, rel=0.02)


def test_the_bound_is_one(table_denoiser: Denoisers, all_rows: Callable[[int, int], Tensor]) -> None:
    model = toy(table_denoiser)
    rows = all_rows(VOCABULARY, LENGTH)
    bounds = torch.tensor([-exact_bound(model, row) for row in rows])
    likelihoods = torch.tensor([likelihood(model, row) for row in rows])
    assert float(likelihoods.sum()) == pytest.approx(1)
    assert (bounds <= likelihoods.log() + 1e-5).all()


@pytest.mark.parametrize("steps", [1, 200])
def test_samples_follow_the_model(
    table_denoiser: Denoisers, all_rows: Callable[[int, int], Tensor], steps: int
) -> None:
    model = toy(table_denoiser)
    rows = all_rows(VOCABULARY, LENGTH)
    drawn = model.draw_outputs(INPUT.expand(10_000, -1), key=keys(10_000), steps=steps)
    places = VOCABULARY ** torch.arange(LENGTH - 1, -1, -1)
    shares = torch.bincount((drawn * places).sum(dim=1), minlength=len(rows)) / len(drawn)
    if steps == 1:  # all tokens at once, each by itself
        chances = model.denoiser(INPUT[None], torch.full((1, LENGTH), MASK), torch.zeros(1))[0].softmax(dim=-1)
        expected = chances[torch.arange(LENGTH), rows].prod(dim=1)
    else:
        expected = torch.tensor([likelihood(model, row) for row in rows])
    assert_close(shares, expected, atol=0.015, rtol=0)


def test_unmasked_tokens_are_carried_over(table_denoiser: Denoisers) -> None:
    chances = toy(table_denoiser).log_probabilities(INPUT[None], torch.tensor([[1, MASK, 0]]), torch.ones(1)).exp()[0]
    assert chances.shape == (LENGTH, VOCABULARY)  # MASK has no place in it
    assert chances[0].tolist() == [0, 1, 0]
    assert chances[2].tolist() == [1, 0, 0]
    assert_close(chances[1].sum(), torch.tensor(1.0))


def test_sampling_never_changes_what_it_revealed(table_denoiser: Denoisers, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mdlm, "reveal", reveal_eagerly)
    model = toy(table_denoiser)
    seen: list[Tensor] = []
    model.denoiser.register_forward_hook(lambda _module, arguments, _result: seen.append(arguments[1].clone()))
    drawn = model.draw_outputs(INPUT.expand(50, -1), key=keys(50), steps=20)
    assert len(seen) == 20
    for before, after in itertools.pairwise([*seen, drawn]):
        assert torch.equal(torch.where(before == MASK, after, before), after)
    assert int(drawn.max()) < MASK


@pytest.mark.parametrize("time_conditioning", [False, True])
@pytest.mark.parametrize("steps", [1, 3, 64])
def test_lazy_sampling_is_sampling(
    table_denoiser: Denoisers, steps: int, time_conditioning: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    outputs, looked_up = [], []
    for reveal in (mdlm.reveal, reveal_eagerly):
        monkeypatch.setattr(mdlm, "reveal", reveal)
        model = toy(table_denoiser, time_conditioning=time_conditioning)
        outputs.append(model.draw_outputs(INPUT.expand(30, -1), key=keys(30), steps=steps))
        looked_up.append(model.denoiser.rows)
    assert torch.equal(*outputs)
    assert looked_up[0] <= 30 * min(LENGTH, steps)
    assert looked_up[1] == 30 * steps


def test_lazy_sampling_with_the_real_network(monkeypatch: pytest.MonkeyPatch) -> None:
    torch.manual_seed(0)
    model = Mdlm(MdlmConfig(**TINY), vocab_size=5, length=12)
    torch.nn.init.normal_(model.denoiser.head.weight)
    inputs = torch.randint(5, (16, 12))
    lazy = model.draw_outputs(inputs, key=keys(len(inputs), 1), steps=30)
    monkeypatch.setattr(mdlm, "reveal", reveal_eagerly)
    assert torch.equal(lazy, model.draw_outputs(inputs, key=keys(len(inputs), 1), steps=30))


def test_unlabelled_positions(table_denoiser: Denoisers) -> None:
    model = toy(table_denoiser)
    targets = torch.tensor([[2, IGNORE, 1]])
    tokens, labelled = torch.tensor([[2, 0, 1]]), targets != IGNORE
    assert model.add_noise(tokens, labelled, torch.ones(1), keys(1)).tolist() == [[MASK, 0, MASK]]
    drawn = model.draw_outputs(INPUT.expand(20, -1), key=keys(20), labelled=labelled[0], steps=5)
    assert not drawn[:, 1].any()
    # Two labelled tokens: one is masked alone, or both.
    single = [cost(model, tokens[0], mask) for mask in ((True, False, False), (False, False, True))]
    expected = sum(single) / 2 + cost(model, tokens[0], (True, False, True)) / 2
    bound = model.log_likelihood_bound(INPUT.expand(1600, -1), targets.expand(1600, -1), key=keys(1600), samples=100)
    assert -float(bound.mean()) == pytest.approx(expected, rel=0.02)


def test_no_steps_are_refused(table_denoiser: Denoisers) -> None:
    with pytest.raises(GramError, match="at least one step"):
        toy(table_denoiser).draw_outputs(INPUT[None], key=keys(1), steps=0)


def test_learns(generator: torch.Generator, learns: Callable[..., tuple[float, float]]) -> None:
    torch.manual_seed(0)
    model = Mdlm(MdlmConfig(**TINY), vocab_size=VOCABULARY, length=4)
    inputs = torch.randint(1, VOCABULARY, (64, 4), generator=generator)
    first, last = learns(model, inputs, inputs.flip(1))
    assert last < 0.2 * first
    assert (model.draw_outputs(inputs, key=keys(len(inputs)), steps=8) == inputs.flip(1)).float().mean() > 0.95
