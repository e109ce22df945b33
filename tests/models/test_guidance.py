"""Stochastic guidance: the KL against torch's, the balance of its gradient, and the mechanisms."""

from collections.abc import Callable

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor
from torch.distributions import Normal
from torch.distributions import kl_divergence as torch_kl
from torch.testing import assert_close

from gram.config import ModelConfig
from gram.models.guidance import Gaussian, Guidance, kl_divergence
from gram.models.losses import balanced_kl
from gram.models.reasoner import Reasoner
from gram.tasks.base import IGNORE

MEANS = st.floats(-20, 20)
LOG_SIGMAS = st.floats(-6, 2)
PAIRS = st.lists(st.tuples(MEANS, LOG_SIGMAS, MEANS, LOG_SIGMAS), min_size=1, max_size=4)
"""Channels of (q mean, q log sigma, p mean, p log sigma)."""

Config = Callable[..., ModelConfig]
ModelBuilder = Callable[..., Reasoner]


def leaves(channels: list[tuple[float, ...]]) -> tuple[Gaussian, Gaussian]:
    columns = [torch.tensor(column, dtype=torch.float64) for column in zip(*channels, strict=True)]
    parts = [column[None, None].requires_grad_() for column in columns]  # [1, 1, dim]
    return Gaussian(parts[0], parts[1]), Gaussian(parts[2], parts[3])


def stop(distribution: Gaussian) -> Gaussian:
    return Gaussian(distribution.mean.detach(), distribution.log_sigma.detach())


def as_torch(distribution: Gaussian) -> Normal:
    return Normal(distribution.mean, distribution.log_sigma.exp())


@settings(max_examples=30)
@given(PAIRS)
def test_kl_is_torchs_summed_over_channels(channels: list[tuple[float, ...]]) -> None:
    q, p = leaves(channels)
    expected = torch_kl(as_torch(q), as_torch(p)).sum(dim=-1)
    assert kl_divergence(q, p).shape == (1, 1)
    assert_close(kl_divergence(q, p), expected, rtol=1e-9, atol=1e-9)
    assert kl_divergence(q, p).min() >= -1e-9
    assert kl_divergence(q, q).abs().max() == 0


@settings(max_examples=30)
@given(PAIRS, st.floats(0, 1))
def test_scaled_gradient_keeps_the_value_to_the_bit(channels: list[tuple[float, ...]], share: float) -> None:
    q, _ = leaves(channels)
    scaled = q.scale_gradient(share)
    assert torch.equal(scaled.mean, q.mean)
    assert torch.equal(scaled.log_sigma, q.log_sigma)
    (scaled.mean.sum() + 2 * scaled.log_sigma.sum()).backward()
    assert_close(q.mean.grad, torch.full_like(q.mean, share))
    assert_close(q.log_sigma.grad, torch.full_like(q.mean, 2 * share))


@settings(max_examples=30)
@given(PAIRS, st.one_of(st.just(0.8), st.floats(0, 1)))
def test_balanced_kl_is_the_two_term_formula(channels: list[tuple[float, ...]], balance: float) -> None:
    q, p = leaves(channels)
    ours = balanced_kl(q, p, balance)
    formula = balance * torch_kl(as_torch(stop(q)), as_torch(p)) + (1 - balance) * torch_kl(
        as_torch(q), as_torch(stop(p))
    )
    formula = formula.sum(dim=-1)
    assert_close(ours, formula, rtol=1e-9, atol=1e-9)
    assert_close(ours, kl_divergence(q, p), rtol=1e-9, atol=1e-9)  # the value is the true KL, whatever the balance
    parts = (*q, *p)
    assert_close(torch.autograd.grad(ours, parts), torch.autograd.grad(formula, parts), rtol=1e-8, atol=1e-8)


# --- the mechanism and its ablations ----------------------------------------------------------------------------------


def guidance_of(tiny_config: Config, mechanism: str, **changes: object) -> Guidance:
    torch.manual_seed(0)
    return Guidance(tiny_config(guidance=mechanism, **changes), vocab_size=5)


def tensors(seed: int = 0) -> tuple[Tensor, Tensor, Tensor]:
    generator = torch.Generator().manual_seed(seed)
    u, noise, other = (torch.randn(2, 6, 8, generator=generator) for _ in range(3))
    return u, noise, other


def test_gaussian_adds_mean_and_scaled_noise_to_the_proposal(tiny_config: Config) -> None:
    guidance = guidance_of(tiny_config, "gaussian")
    u, noise, e_y = tensors()
    for target, head in ((None, guidance.prior(u)), (e_y, guidance.posterior(u + e_y))):
        assert head.mean.abs().min() > 0
        assert_close(guidance(u, target, noise).h, u + head.mean + head.log_sigma.exp() * noise)
        for cold in (guidance(u, target, 0 * noise), guidance(u, target, None)):
            assert_close(cold.h, u + head.mean)
    made = guidance(u, e_y, noise)
    assert_close([*made.prior, *made.posterior], [*guidance.prior(u), *guidance.posterior(u + e_y)])
    assert guidance(u, None, noise).posterior is None


def test_stochasticity_only_has_mean_zero(tiny_config: Config) -> None:
    guidance = guidance_of(tiny_config, "stochasticity_only")
    u, noise, e_y = tensors()
    for target, head in ((None, guidance.prior(u)), (e_y, guidance.posterior(u + e_y))):
        assert head.mean.abs().max() == 0
        assert_close(guidance(u, target, noise).h, u + head.log_sigma.exp() * noise)
        assert_close(guidance(u, target, 0 * noise).h, u)


def test_guide_only_has_no_noise(tiny_config: Config) -> None:
    guidance = guidance_of(tiny_config, "guide_only")
    u, noise, other = tensors()
    prior, posterior = guidance.prior(u), guidance.posterior(u)
    assert torch.equal(guidance(u, None, noise).h, guidance(u, None, other).h)
    assert_close(guidance(u, None, noise).h, u + prior.mean)
    # Its KL is the distance of the means, so the prior still learns to follow the posterior.
    assert_close(kl_divergence(posterior, prior), 0.5 * (posterior.mean - prior.mean).square().sum(dim=-1))


def test_direct_takes_epsilon_as_the_state(tiny_config: Config) -> None:
    guidance = guidance_of(tiny_config, "direct")
    u, noise, _ = tensors()
    prior = guidance.prior(u)
    assert_close(guidance(u, None, noise).h, prior.mean + prior.log_sigma.exp() * noise)
    assert_close(guidance(u, None, 0 * noise).h, prior.mean)


def test_log_sigma_starts_where_the_config_says_and_stays_in_its_range(tiny_config: Config) -> None:
    u, _, _ = tensors()
    with torch.no_grad():
        start = guidance_of(tiny_config, "gaussian", log_sigma_init=-1.5).prior(u).log_sigma
        narrow = guidance_of(tiny_config, "gaussian", log_sigma_init=-1.5, log_sigma_range=(-1.5, -1.4))
        clamped = narrow.prior(1000 * u).log_sigma
    assert float((start + 1.5).abs().max()) < 0.5
    assert float(clamped.min()) == pytest.approx(-1.5)
    assert float(clamped.max()) == pytest.approx(-1.4)


def test_prior_and_posterior_are_separate_heads(tiny_config: Config) -> None:
    guidance = guidance_of(tiny_config, "gaussian")
    u, _, _ = tensors()
    assert not torch.allclose(guidance.prior(u).mean, guidance.posterior(u).mean)
    prior_names = {name for name, p in guidance.named_parameters() if name.startswith("prior")}
    guidance.prior(u).mean.sum().backward()
    touched = {name for name, p in guidance.named_parameters() if p.grad is not None}
    assert touched
    assert touched <= prior_names


# --- targets ----------------------------------------------------------------------------------------------------------


def test_unlabelled_targets_have_an_embedding_of_their_own(tiny_config: Config) -> None:
    guidance = guidance_of(tiny_config, "gaussian")
    targets = torch.tensor([[0, 1, 2, 3, 4, IGNORE]])
    e_y = guidance.embed_targets(targets)
    assert_close(e_y[0], guidance.targets.weight)  # five tokens, then the row that stands for "no label"
    assert torch.unique(e_y[0], dim=0).shape[0] == 6
    assert torch.equal(targets, torch.tensor([[0, 1, 2, 3, 4, IGNORE]]))  # not changed in place


def test_puzzle_tokens_count_as_unlabelled(tiny_config: Config) -> None:
    guidance = guidance_of(tiny_config, "gaussian", puzzle_tokens=2, puzzles=3)
    e_y = guidance.embed_targets(torch.tensor([[0, 1], [2, IGNORE]]))
    assert e_y.shape == (2, 4, 8)
    unlabelled = guidance.targets.weight[5]
    assert_close(e_y[:, :2], unlabelled.expand(2, 2, 8))
    assert_close(e_y[1, 3], unlabelled)
    assert_close(e_y[0, 2:], guidance.targets.weight[:2])


def test_fixed_noise_moves_the_state_by_sigma(tiny_model: ModelBuilder) -> None:
    model = tiny_model(guidance="fixed", log_sigma_init=-1.5, transitions=1)
    still = tiny_model(guidance="none", transitions=1)
    still.load_state_dict(model.state_dict())
    inputs = torch.zeros(2, model.length, dtype=torch.long)
    state, e_x = model.initial_state(2), model.encoder(inputs)
    noise = torch.randn(1, *state.h.shape)
    moved, plain = (each.step(state, e_x, noise.__getitem__).state.h for each in (model, still))
    torch.testing.assert_close(moved - plain, torch.tensor(-1.5).exp() * noise[0])
    cold = model.step(state, e_x, lambda t: 0 * noise[t]).state.h
    assert torch.equal(cold, plain)
