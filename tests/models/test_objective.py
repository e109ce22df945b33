"""The loss of a supervision step, and of a whole trajectory, against torch's own distributions."""

from collections.abc import Callable

import pytest
import torch
from torch import Tensor
from torch.distributions import Normal
from torch.distributions import kl_divergence as torch_kl
from torch.testing import assert_close

from gram.config import ObjectiveConfig
from gram.models.carry import Carry
from gram.models.losses import token_cross_entropy
from gram.models.noise import derive, normal
from gram.models.objective import ELBO, POSTERIOR, beta_at, trajectory_elbo
from gram.models.reasoner import Reasoner
from gram.tasks.base import IGNORE
from tests.models.helpers import parameter_gradients as gradients
from tests.models.helpers import update_of

ModelBuilder = Callable[..., Reasoner]
CarryBuilder = Callable[..., Carry]
NO_HEADS = {"halt_weight": 0.0, "value_weight": 0.0}

# --- the ELBO ---------------------------------------------------------------------------------------------------------


def naive_elbo_terms(model: Reasoner, carry: Carry, seed: int) -> tuple[Tensor, list[Tensor]]:
    """Nats per row: -log p(y | h), and the KL of every transition; torch's own distributions."""
    key = derive(torch.full_like(carry.rows.deal, seed), carry.rows.deal, carry.steps, POSTERIOR)
    with torch.no_grad():
        output = model.step(
            carry.state,
            model.encoder(carry.rows.inputs),
            lambda t: normal(derive(key, t), *carry.state.h.shape[1:]),
            e_y=model.guidance.embed_targets(carry.rows.targets),
        )
        log_p = model.decoder.logits(output.state.h).log_softmax(dim=-1)
    nats = torch.zeros(len(carry.steps))
    for row, targets in enumerate(carry.rows.targets.tolist()):
        for position, target in enumerate(targets):
            if target != IGNORE:
                nats[row] -= log_p[row, position, target]
    kls = [
        torch_kl(Normal(q.mean, q.log_sigma.exp()), Normal(p.mean, p.log_sigma.exp())).sum(dim=(1, 2))
        for q, p in zip(output.posteriors, output.priors, strict=True)
    ]
    return nats, kls


def test_beta_one_is_the_elbo_per_labelled_token(tiny_model: ModelBuilder, tiny_carry: CarryBuilder) -> None:
    model = tiny_model()
    carry = tiny_carry(model, 5)
    counts = (carry.rows.targets != IGNORE).sum(dim=-1)
    assert len(set(counts.tolist())) > 1  # rows with different numbers of labels, or the denominator is not tested
    update = update_of(model, carry, prior_share=0, **NO_HEADS)
    nats, kls = naive_elbo_terms(model, carry, seed=0)
    assert_close(update.loss.detach(), ((nats + sum(kls)) / counts).mean())
    assert_close(update.metrics["reconstruction"].detach(), (nats / counts).mean())
    for t, kl in enumerate(kls):
        assert_close(update.metrics[f"kl_{t + 1}"].detach(), (kl / counts).mean())


def test_the_share_of_kl_and_cross_entropy_does_not_depend_on_the_number_of_labels(
    tiny_model: ModelBuilder, tiny_carry: CarryBuilder
) -> None:
    model = tiny_model()
    # A single row, so that its labels are the only denominator.
    for seed in range(3):
        carry = tiny_carry(model, 1, seed=seed)
        update = update_of(model, carry, prior_share=0, **NO_HEADS)
        nats, kls = naive_elbo_terms(model, carry, seed=0)
        found = sum(update.metrics[f"kl_{t + 1}"] for t in range(2)) / update.metrics["reconstruction"]
        assert_close(found.detach(), sum(kls)[0] / nats[0])


def test_beta_and_scope_weigh_the_kl(tiny_model: ModelBuilder, tiny_carry: CarryBuilder) -> None:
    model = tiny_model(transitions=3)
    carry = tiny_carry(model, 4)
    for scope in ("all", "last"):
        for beta in (0.0, 0.3):
            update = update_of(model, carry, beta=beta, kl_scope=scope, prior_share=0, **NO_HEADS)
            kls = [update.metrics[f"kl_{t}"] for t in (1, 2, 3)]
            charged = sum(kls) if scope == "all" else kls[-1]
            assert_close(update.loss.detach(), update.metrics["reconstruction"] + beta * charged)


def test_beta_moves_along_a_half_cosine() -> None:
    moving = ObjectiveConfig(beta=2.0, beta_final=0.5)
    assert [beta_at(moving, progress) for progress in (0, 1 / 3, 0.5, 1)] == pytest.approx([2, 1.625, 1.25, 0.5])
    values = [beta_at(moving, step / 100) for step in range(101)]
    assert values == sorted(values, reverse=True)
    assert {beta_at(ObjectiveConfig(beta=0.3), step / 100) for step in range(101)} == {0.3}
    assert beta_at(ObjectiveConfig(beta=1.0, beta_final=0.0), 1.0) == 0


def test_a_summed_kl_is_the_mean_one_times_the_labelled_tokens(
    tiny_model: ModelBuilder, tiny_carry: CarryBuilder
) -> None:
    model = tiny_model()
    carry = tiny_carry(model, 1)
    labelled = int((carry.rows.targets != IGNORE).sum())
    mean, total = (
        update_of(model, carry, kl_reduction=reduction, prior_share=0, **NO_HEADS, beta=beta)
        for reduction, beta in (("mean", 0.07 * labelled), ("sum", 0.07))
    )
    assert_close(mean.loss, total.loss)
    assert_close(labelled * mean.metrics["kl_1"], total.metrics["kl_1"])


def test_the_last_transitions_kl_alone_leaves_the_earlier_ones_free(
    tiny_model: ModelBuilder, tiny_carry: CarryBuilder
) -> None:
    # How the paper's surrogate leaks below a beta of about 3 per labelled token: nothing holds the first transition's
    # posterior at its prior. `all` does.
    model = tiny_model(transitions=2)
    carry = tiny_carry(model, 4)
    found = {
        scope: gradients(model, update_of(model, carry, kl_scope=scope, prior_share=0, **NO_HEADS).loss)
        for scope in ("all", "last")
    }
    core = [name for name in found["all"] if name.startswith("low")]
    for name in core:
        assert_close(found["all"][name], found["last"][name])  # the core feels the last transition only, either way
    for name in ("guidance.prior.mean.down.weight", "guidance.posterior.mean.down.weight", "guidance.targets.weight"):
        assert not torch.allclose(found["all"][name], found["last"][name])


def test_balance_moves_gradient_between_prior_and_posterior_and_keeps_the_value(
    tiny_model: ModelBuilder, tiny_carry: CarryBuilder
) -> None:
    model = tiny_model(transitions=1)
    carry = tiny_carry(model, 4)
    updates = {b: update_of(model, carry, kl_balance=b, prior_share=0, **NO_HEADS) for b in (1.0, 0.8, 0.0)}
    assert_close(updates[0.8].loss, updates[0.0].loss)
    found = {balance: gradients(model, update.loss) for balance, update in updates.items()}
    prior = "guidance.prior.mean.down.weight"
    assert_close(found[0.8][prior], 0.8 * found[1.0][prior])
    assert float(found[0.0][prior].abs().max()) == 0
    for name, gradient in found[0.8].items():
        if gradient is not None and name.startswith("guidance.posterior"):
            assert_close(gradient, 0.8 * found[1.0][name] + 0.2 * found[0.0][name], rtol=1e-4, atol=1e-6)


# --- the whole trajectory ---------------------------------------------------------------------------------------------


def test_trajectory_elbo_is_the_direct_sum(tiny_model: ModelBuilder, tiny_carry: CarryBuilder) -> None:
    model = tiny_model(step_embedding=True)
    carry = tiny_carry(model, 3)
    elbo, surrogate = trajectory_elbo(model, carry.rows.inputs, carry.rows.targets, seed=3)
    counts = (carry.rows.targets != IGNORE).sum(dim=-1)
    state, total, per_step = carry.state, torch.zeros(3), []
    with torch.no_grad():
        for n in range(3):
            key = derive(torch.arange(3), 3, ELBO, n)
            output = model.step(
                state,
                model.encoder(carry.rows.inputs),
                lambda t, key=key: normal(derive(key, t), *carry.state.h.shape[1:]),
                e_y=model.guidance.embed_targets(carry.rows.targets),
                first_transition=torch.full((3,), 2 * n),
            )
            state = output.state
            kls = [
                torch_kl(Normal(q.mean, q.log_sigma.exp()), Normal(p.mean, p.log_sigma.exp())).sum(dim=(1, 2))
                for q, p in zip(output.posteriors, output.priors, strict=True)
            ]
            total += sum(kls)
            nats = token_cross_entropy(model.decoder.logits(state.h), carry.rows.targets, "softmax").sum(dim=-1)
            per_step.append((nats + kls[-1]) / counts)
    assert_close(elbo, (nats + total) / counts)
    assert_close(surrogate, torch.stack(per_step).mean(dim=0))


def test_a_model_supervised_at_the_end_has_the_trajectory_elbo_as_its_loss(
    tiny_model: ModelBuilder, tiny_carry: CarryBuilder
) -> None:
    model = tiny_model(supervision="final", gradient="step")
    carry = tiny_carry(model, 4)
    assert (model.steps_per_example, model.transitions_per_update, model.trained_depth) == (1, 6, 3)
    quiet(model)  # an update and a trajectory key their noise differently: without any, they must agree
    update = update_of(model, carry, prior_share=0, **NO_HEADS)
    elbo, _ = trajectory_elbo(model, carry.rows.inputs, carry.rows.targets)
    assert_close(update.loss.detach(), elbo.mean(), rtol=1e-4, atol=1e-4)
    assert float(elbo.mean() - update.metrics["reconstruction"]) > 0.1  # the KL of all six transitions is in both
    assert bool(update.carry.finished.all())


def quiet(model: Reasoner) -> None:
    """Leave almost no noise, the same in prior and posterior, so that only the means cost anything."""
    for head in (model.guidance.prior, model.guidance.posterior):
        head.offset, head.range = -12.0, (-12.0, -11.999999)
        with torch.no_grad():
            head.mean.down.weight.mul_(1e-4)


def test_the_likelihood_of_guidance_without_noise_is_that_of_the_prior(
    tiny_model: ModelBuilder, tiny_carry: CarryBuilder
) -> None:
    model = tiny_model(guidance="guide_only")
    rows, state = tiny_carry(model, 4).rows, model.initial_state(4)
    with torch.no_grad():
        for _ in range(model.config.supervision_steps):
            state = model.step(state, model.encoder(rows.inputs), lambda _t: None).state
        nats = token_cross_entropy(model.decoder.logits(state.h), rows.targets, "softmax").sum(dim=-1)
    # The posterior sees the answer: what it predicts would be no likelihood.
    assert_close(model.log_likelihood(rows.inputs, rows.targets), -nats)
    assert model.likelihood_meaning[0]


def test_the_elbo_of_a_deterministic_model_is_its_reconstruction(
    tiny_model: ModelBuilder, tiny_carry: CarryBuilder
) -> None:
    model = tiny_model(guidance="none", supervision="final", gradient="step")
    carry = tiny_carry(model, 4)
    elbo, _ = trajectory_elbo(model, carry.rows.inputs, carry.rows.targets)
    update = update_of(model, carry, **NO_HEADS)
    assert_close(update.loss.detach(), elbo.mean())
    assert_close(update.loss.detach(), update.metrics["reconstruction"])
    assert not any(name.startswith(("kl", "sigma")) for name in update.metrics)
