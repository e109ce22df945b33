"""Every term of the loss against its formula, and who learns from which slot."""

import math
from collections.abc import Callable
from dataclasses import replace

import pytest
import torch
from gram.training.objective import Objective, Update
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor
from torch.distributions import Normal
from torch.distributions import kl_divergence as torch_kl
from torch.testing import assert_close

from gram.config import ObjectiveConfig
from gram.models.coders import HALT_BIAS, Readout
from gram.models.losses import (
    exactly_right,
    halt_loss,
    labelled_count,
    reconstruction_loss,
    squared_error,
    token_accuracy,
    token_cross_entropy,
    trajectory_elbo,
)
from gram.models.reasoner import Reasoner
from gram.tasks.base import IGNORE
from gram.training.slots import Slots

ModelBuilder = Callable[..., Reasoner]
SlotsBuilder = Callable[..., Slots]

HEADS = ("decoder.halt", "decoder.value", "decoder.pool")
NO_HEADS = {"halt_weight": 0.0, "value_weight": 0.0}


def objective_of(
    model: Reasoner, *, halt_in_training: bool = False, checker: object = None, **changes: object
) -> Objective:
    return Objective(model, ObjectiveConfig(**changes), checker=checker, halt_in_training=halt_in_training)


def update_of(objective: Objective, slots: Slots, *, beta: float = 1.0, seed: int = 0) -> Update:
    # The objective writes into the memory of the slots: a copy keeps tests that compare two updates honest.
    return objective(replace(slots, memory=slots.memory.clone()), beta, torch.Generator().manual_seed(seed))


def gradients(model: Reasoner, loss: Tensor) -> dict[str, Tensor | None]:
    names, parameters = zip(*model.named_parameters(), strict=True)
    return dict(zip(names, torch.autograd.grad(loss, parameters, allow_unused=True), strict=True))


def without_heads(found: dict[str, Tensor | None]) -> dict[str, Tensor]:
    return {name: g for name, g in found.items() if g is not None and not name.startswith(HEADS)}


def rows_of(slots: Slots, rows: slice) -> Slots:
    names = ("index", "inputs", "targets", "steps", "min_steps", "lifetime", "memory")
    parts = {name: getattr(slots, name)[rows] for name in names}
    return Slots(**parts, state=slots.state.rows(rows))


# --- cross-entropy ----------------------------------------------------------------------------------------------------


def naive_cross_entropy(logits: list[float], target: int, kind: str) -> float:
    def weight(x: float) -> float:
        if kind == "softmax":
            return math.exp(x)
        return x + 1 if x >= 0 else 1 / (1 - x)

    return 0.0 if target == IGNORE else -math.log(weight(logits[target]) / sum(map(weight, logits)))


@pytest.mark.parametrize("kind", ["softmax", "stablemax"])
@settings(max_examples=25)
@given(
    st.lists(
        st.tuples(st.lists(st.floats(-15, 15), min_size=3, max_size=3), st.sampled_from([0, 1, 2, IGNORE])),
        min_size=1,
        max_size=5,
    )
)
def test_cross_entropy_is_the_formula(kind: str, row: list[tuple[list[float], int]]) -> None:
    logits = torch.tensor([[token[0] for token in row]], dtype=torch.float64)
    targets = torch.tensor([[token[1] for token in row]])
    expected = [naive_cross_entropy(*token, kind) for token in row]
    found = token_cross_entropy(logits, targets, kind)
    assert_close(found, torch.tensor([expected]), rtol=1e-4, atol=1e-4)
    labelled = sum(token[1] != IGNORE for token in row)
    mean = float(reconstruction_loss(logits, targets, kind))
    assert mean == pytest.approx(sum(expected) / max(1, labelled), rel=1e-4, abs=1e-4)


@pytest.mark.parametrize("kind", ["softmax", "stablemax"])
def test_unlabelled_positions_cost_nothing_and_teach_nothing(kind: str) -> None:
    logits = torch.randn(2, 4, 3, generator=torch.Generator().manual_seed(0), requires_grad=True)
    targets = torch.tensor([[0, IGNORE, 2, IGNORE], [IGNORE] * 4])
    loss = reconstruction_loss(logits, targets, kind)
    assert float(loss[1].detach()) == 0
    (gradient,) = torch.autograd.grad(loss.sum(), logits)
    assert bool(gradient.isfinite().all())
    taught = gradient.abs().sum(dim=-1) > 0
    assert torch.equal(taught, targets != IGNORE)
    # More unlabelled positions beside them leave the mean over the labelled ones as it is.
    wider = torch.cat((logits, logits.detach()), dim=1), torch.cat((targets, torch.full_like(targets, IGNORE)), dim=1)
    assert_close(reconstruction_loss(*wider, kind), loss)


def test_stablemax_stays_finite_where_softmax_saturates() -> None:
    logits = torch.tensor([[[1e4, -1e4, 0.0]]])
    for target in range(3):
        assert bool(token_cross_entropy(logits, torch.tensor([[target]]), "stablemax").isfinite().all())


def test_verdicts_look_at_labelled_tokens_only() -> None:
    targets = torch.tensor([[0, 1, IGNORE], [0, 1, 2], [IGNORE] * 3])
    outputs = torch.tensor([[0, 1, 7], [0, 2, 2], [5, 5, 5]])
    assert labelled_count(targets).tolist() == [2, 3, 1]
    assert exactly_right(outputs, targets).tolist() == [True, False, True]
    assert_close(token_accuracy(outputs, targets), torch.tensor([1, 2 / 3, 0]))


# --- the ELBO ---------------------------------------------------------------------------------------------------------


def naive_elbo_terms(model: Reasoner, slots: Slots, seed: int) -> tuple[Tensor, list[Tensor]]:
    """Nats per row: -log p(y | h), and the KL of every transition; torch's own distributions."""
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        output = model.step(
            slots.state,
            model.encoder(slots.inputs),
            lambda t: torch.randn(slots.state.h.shape, generator=generator),
            e_y=model.guidance.embed_targets(slots.targets),
        )
        log_p = model.decoder.logits(output.state.h).log_softmax(dim=-1)
    nats = torch.zeros(len(slots.index))
    for row, targets in enumerate(slots.targets.tolist()):
        for position, target in enumerate(targets):
            if target != IGNORE:
                nats[row] -= log_p[row, position, target]
    kls = [
        torch_kl(Normal(q.mean, q.log_sigma.exp()), Normal(p.mean, p.log_sigma.exp())).sum(dim=(1, 2))
        for q, p in zip(output.posteriors, output.priors, strict=True)
    ]
    return nats, kls


def test_beta_one_is_the_elbo_per_labelled_token(tiny_model: ModelBuilder, tiny_slots: SlotsBuilder) -> None:
    model = tiny_model()
    slots = tiny_slots(model, 5)
    counts = (slots.targets != IGNORE).sum(dim=-1)
    assert len(set(counts.tolist())) > 1  # rows with different numbers of labels, or the denominator is not tested
    update = update_of(objective_of(model, prior_share=0, **NO_HEADS), slots)
    nats, kls = naive_elbo_terms(model, slots, seed=0)
    assert_close(update.loss.detach(), ((nats + sum(kls)) / counts).mean())
    assert_close(update.metrics["reconstruction"].detach(), (nats / counts).mean())
    for t, kl in enumerate(kls):
        assert_close(update.metrics[f"kl_{t + 1}"].detach(), (kl / counts).mean())


def test_the_share_of_kl_and_cross_entropy_does_not_depend_on_the_number_of_labels(
    tiny_model: ModelBuilder, tiny_slots: SlotsBuilder
) -> None:
    model = tiny_model()
    # A single row, so that its labels are the only denominator.
    for seed in range(3):
        slots = tiny_slots(model, 1, seed=seed)
        update = update_of(objective_of(model, prior_share=0, **NO_HEADS), slots)
        nats, kls = naive_elbo_terms(model, slots, seed=0)
        found = sum(update.metrics[f"kl_{t + 1}"] for t in range(2)) / update.metrics["reconstruction"]
        assert_close(found.detach(), sum(kls)[0] / nats[0])


def test_beta_and_scope_weigh_the_kl(tiny_model: ModelBuilder, tiny_slots: SlotsBuilder) -> None:
    model = tiny_model(transitions=3)
    slots = tiny_slots(model, 4)
    for scope in ("all", "last"):
        objective = objective_of(model, kl_scope=scope, prior_share=0, **NO_HEADS)
        for beta in (0.0, 0.3):
            update = update_of(objective, slots, beta=beta)
            kls = [update.metrics[f"kl_{t}"] for t in (1, 2, 3)]
            charged = sum(kls) if scope == "all" else kls[-1]
            assert_close(update.loss, update.metrics["reconstruction"] + beta * charged)


def test_a_summed_kl_is_the_mean_one_times_the_labelled_tokens(
    tiny_model: ModelBuilder, tiny_slots: SlotsBuilder
) -> None:
    model = tiny_model()
    slots = tiny_slots(model, 1)
    labelled = int((slots.targets != IGNORE).sum())
    mean, total = (
        update_of(objective_of(model, kl_reduction=reduction, prior_share=0, **NO_HEADS), slots, beta=beta)
        for reduction, beta in (("mean", 0.07 * labelled), ("sum", 0.07))
    )
    assert_close(mean.loss, total.loss)
    assert_close(labelled * mean.metrics["kl_1"], total.metrics["kl_1"])


def test_the_last_transitions_kl_alone_leaves_the_earlier_ones_free(
    tiny_model: ModelBuilder, tiny_slots: SlotsBuilder
) -> None:
    # How the paper's surrogate leaks below a beta of about 3 per labelled token: nothing holds the first transition's
    # posterior at its prior. `all` does.
    model = tiny_model(transitions=2)
    slots = tiny_slots(model, 4)
    found = {
        scope: gradients(model, update_of(objective_of(model, kl_scope=scope, prior_share=0, **NO_HEADS), slots).loss)
        for scope in ("all", "last")
    }
    core = [name for name in found["all"] if name.startswith("low")]
    for name in core:
        assert_close(found["all"][name], found["last"][name])  # the core feels the last transition only, either way
    for name in ("guidance.prior.mean.down.weight", "guidance.posterior.mean.down.weight", "guidance.targets.weight"):
        assert not torch.allclose(found["all"][name], found["last"][name])


def test_balance_moves_gradient_between_prior_and_posterior_and_keeps_the_value(
    tiny_model: ModelBuilder, tiny_slots: SlotsBuilder
) -> None:
    model = tiny_model(transitions=1)
    slots = tiny_slots(model, 4)
    updates = {
        b: update_of(objective_of(model, kl_balance=b, prior_share=0, **NO_HEADS), slots) for b in (1.0, 0.8, 0.0)
    }
    assert_close(updates[0.8].loss, updates[0.0].loss)
    found = {balance: gradients(model, update.loss) for balance, update in updates.items()}
    prior = "guidance.prior.mean.down.weight"
    assert_close(found[0.8][prior], 0.8 * found[1.0][prior])
    assert float(found[0.0][prior].abs().max()) == 0
    for name, gradient in found[0.8].items():
        if gradient is not None and name.startswith("guidance.posterior"):
            assert_close(gradient, 0.8 * found[1.0][name] + 0.2 * found[0.0][name], rtol=1e-4, atol=1e-6)


# --- the whole trajectory ---------------------------------------------------------------------------------------------


def test_trajectory_elbo_is_the_direct_sum(tiny_model: ModelBuilder, tiny_slots: SlotsBuilder) -> None:
    model = tiny_model(step_embedding=True)
    slots = tiny_slots(model, 3)
    elbo, surrogate = trajectory_elbo(
        model, slots.inputs, slots.targets, kind="softmax", generator=torch.Generator().manual_seed(3)
    )
    generator = torch.Generator().manual_seed(3)
    counts = (slots.targets != IGNORE).sum(dim=-1)
    state, total, per_step = slots.state, torch.zeros(3), []
    with torch.no_grad():
        for n in range(3):
            output = model.step(
                state,
                model.encoder(slots.inputs),
                lambda t, h=state.h: torch.randn(h.shape, generator=generator),
                e_y=model.guidance.embed_targets(slots.targets),
                first_transition=torch.full((3,), 2 * n),
            )
            state = output.state
            kls = [
                torch_kl(Normal(q.mean, q.log_sigma.exp()), Normal(p.mean, p.log_sigma.exp())).sum(dim=(1, 2))
                for q, p in zip(output.posteriors, output.priors, strict=True)
            ]
            total += sum(kls)
            nats = token_cross_entropy(model.decoder.logits(state.h), slots.targets, "softmax").sum(dim=-1)
            per_step.append((nats + kls[-1]) / counts)
    assert_close(elbo, (nats + total) / counts)
    assert_close(surrogate, torch.stack(per_step).mean(dim=0))


def test_a_model_supervised_at_the_end_has_the_trajectory_elbo_as_its_loss(
    tiny_model: ModelBuilder, tiny_slots: SlotsBuilder
) -> None:
    model = tiny_model(supervision="final", gradient="step")
    slots = tiny_slots(model, 4)
    objective = objective_of(model, prior_share=0, **NO_HEADS)
    assert (objective.steps_per_example, objective.transitions) == (1, 6)
    update = update_of(objective, slots, seed=7)
    elbo, _ = trajectory_elbo(
        model, slots.inputs, slots.targets, kind="softmax", generator=torch.Generator().manual_seed(7)
    )
    assert_close(update.loss.detach(), elbo.mean())
    assert bool(update.finished.all())


def test_a_deterministic_model_has_no_elbo(tiny_model: ModelBuilder, tiny_slots: SlotsBuilder) -> None:
    model = tiny_model(guidance="none")
    slots = tiny_slots(model, 1)
    with pytest.raises(ValueError, match="without guidance"):
        trajectory_elbo(model, slots.inputs, slots.targets, kind="softmax", generator=torch.Generator())
    update = update_of(objective_of(model, **NO_HEADS), slots)
    assert_close(update.loss, update.metrics["reconstruction"])
    assert not any(name.startswith(("kl", "sigma")) for name in update.metrics)


# --- who learns from which slot ---------------------------------------------------------------------------------------


def test_number_of_prior_slots(tiny_model: ModelBuilder) -> None:
    assert objective_of(tiny_model(), prior_share=0.125).prior_rows(128) == 16
    assert objective_of(tiny_model(), prior_share=0).prior_rows(128) == 0
    assert objective_of(tiny_model(guidance="none"), prior_share=0.5).prior_rows(128) == 0


@pytest.mark.parametrize(("share", "slots"), [(0.125, 4), (0.9, 4), (0.75, 2)])
def test_a_prior_share_leaves_slots_of_both_kinds(tiny_model: ModelBuilder, share: float, slots: int) -> None:
    assert 1 <= objective_of(tiny_model(), prior_share=share).prior_rows(slots) < slots


def test_prior_slots_train_nothing_but_the_heads(tiny_model: ModelBuilder, tiny_slots: SlotsBuilder) -> None:
    model = tiny_model(readout="pooled")
    slots = tiny_slots(model, 6)
    with_prior = objective_of(model, prior_share=1 / 3)
    posterior_only = objective_of(model, prior_share=0, **NO_HEADS)
    # The posterior's noise is drawn first, so the same seed gives its four rows the same noise in both.
    ours = gradients(model, update_of(with_prior, slots).loss)
    expected = gradients(model, update_of(posterior_only, rows_of(slots, slice(2, None))).loss)
    assert without_heads(ours).keys() == without_heads(expected).keys()
    assert_close(without_heads(ours), without_heads(expected))
    for name in ("decoder.halt.weight", "decoder.pool.down.weight"):
        assert float(ours[name].abs().max()) > 0


def test_the_heads_learn_from_the_prior_slots_when_there_are_any(
    tiny_model: ModelBuilder, tiny_slots: SlotsBuilder
) -> None:
    model = tiny_model()
    objective = objective_of(model, prior_share=0.5)
    slots, other = tiny_slots(model, 6, steps=2), tiny_slots(model, 6, seed=9, steps=2)
    for name in ("inputs", "targets", "memory"):  # same prior slots, other posterior slots
        getattr(other, name)[:3] = getattr(slots, name)[:3]
    first, second = (gradients(model, update_of(objective, s).loss) for s in (slots, other))
    for name in first:
        if name.startswith(HEADS):
            assert float(first[name].abs().max()) > 0
            assert_close(first[name], second[name])
    assert not torch.allclose(first["decoder.lm.weight"], second["decoder.lm.weight"])


def test_prior_slots_follow_the_prior(tiny_model: ModelBuilder, tiny_slots: SlotsBuilder) -> None:
    model = tiny_model()
    slots = tiny_slots(model, 4)
    update = update_of(objective_of(model, prior_share=0.5), slots)
    changed = replace(slots, targets=(slots.targets + 1).clamp(min=0) % model.vocab_size)
    again = update_of(objective_of(model, prior_share=0.5), changed)
    assert torch.equal(update.state.h[:2], again.state.h[:2])  # they never see the target
    assert not torch.allclose(update.state.h[2:], again.state.h[2:])
    assert update.state.h.shape == slots.state.h.shape
    assert not update.state.h.requires_grad


def test_prior_slots_can_teach_everything_and_still_follow_the_prior(
    tiny_model: ModelBuilder, tiny_slots: SlotsBuilder
) -> None:
    model = tiny_model()
    slots = tiny_slots(model, 4)
    learning = objective_of(model, prior_share=0.5, learn_from_rollouts=True, **NO_HEADS)
    every_slot = objective_of(model, prior_share=0, **NO_HEADS)
    update = update_of(learning, slots)
    # The loss is that of four posterior slots; only what the first two carry on is different.
    posterior = update_of(every_slot, slots)
    assert_close(update.loss, posterior.loss)
    assert_close(update.state.h[2:], posterior.state.h[2:])
    assert not torch.allclose(update.state.h[:2], posterior.state.h[:2])
    assert torch.equal(update.rollouts, model.decoder.logits(update.state.h[:2]).argmax(dim=-1))
    changed = replace(slots, targets=(slots.targets + 1).clamp(min=0) % model.vocab_size)
    assert torch.equal(update_of(learning, changed).state.h[:2], update.state.h[:2])


def test_rollouts_have_a_temperature_of_their_own(tiny_model: ModelBuilder, tiny_slots: SlotsBuilder) -> None:
    model = tiny_model()
    slots = tiny_slots(model, 4)
    warm, cold = (
        update_of(objective_of(model, prior_share=0.5, rollout_temperature=t, **NO_HEADS), slots) for t in (1.0, 0.0)
    )
    silent = model.step(
        slots.state.rows(slice(0, 2)), model.encoder(slots.inputs[:2]), lambda _: torch.zeros_like(slots.state.h[:2])
    )
    assert_close(cold.state.h[:2], silent.state.h)
    assert not torch.allclose(warm.state.h[:2], cold.state.h[:2])
    assert_close(warm.state.h[2:], cold.state.h[2:])  # those who follow the posterior do not notice


@pytest.mark.parametrize("guidance", ["none", "gaussian"])
def test_heads_do_not_reach_the_core(tiny_model: ModelBuilder, tiny_slots: SlotsBuilder, guidance: str) -> None:
    model = tiny_model(guidance=guidance)
    slots = tiny_slots(model, 4, steps=2)
    with_heads = gradients(model, update_of(objective_of(model, prior_share=0), slots).loss)
    without = gradients(model, update_of(objective_of(model, prior_share=0, **NO_HEADS), slots).loss)
    for name, gradient in without_heads(without).items():
        assert torch.equal(with_heads[name], gradient), name
    for name in ("decoder.halt.weight", "decoder.value.weight"):
        assert float(with_heads[name].abs().max()) > 0


def test_heads_reach_the_core_when_told_to(tiny_model: ModelBuilder, tiny_slots: SlotsBuilder) -> None:
    model = tiny_model(guidance="none")
    slots = tiny_slots(model, 4)
    found = {
        reach: gradients(model, update_of(objective_of(model, heads_reach_core=reach, value_weight=0), slots).loss)
        for reach in (True, False)
    }
    # What the core additionally receives is exactly the gradient of the halt loss.
    output = model.step(slots.state, model.encoder(slots.inputs), lambda t: None)
    right = exactly_right(model.decoder.logits(output.state.h).argmax(dim=-1), slots.targets)
    halt = halt_loss(model.decoder.readout(output.state.h), right, None).mean()
    for name, gradient in gradients(model, 0.5 * halt).items():
        if name.startswith("low"):
            assert float(gradient.abs().max()) > 0
            assert_close(found[True][name] - found[False][name], gradient, rtol=1e-4, atol=1e-6)


# --- halting ----------------------------------------------------------------------------------------------------------


def bce(logit: float, target: float) -> float:
    p = 1 / (1 + math.exp(-logit))
    return -target * math.log(p) - (1 - target) * math.log(1 - p)


@settings(max_examples=25)
@given(st.floats(-8, 8), st.floats(-8, 8), st.booleans(), st.floats(0, 1))
def test_halt_loss_in_both_forms(q_halt: float, q_continue: float, right: bool, target: float) -> None:
    readout = Readout(torch.tensor([q_halt]), torch.tensor([q_continue]), torch.zeros(1))
    verdict = torch.tensor([right])
    expected = bce(q_halt, float(right))
    assert float(halt_loss(readout, verdict, None)) == pytest.approx(expected, rel=1e-3, abs=1e-4)
    both = float(halt_loss(readout, verdict, torch.tensor([target])))
    assert both == pytest.approx(expected + bce(q_continue, target), rel=1e-3, abs=1e-4)


@pytest.mark.parametrize(("target", "expected"), [(None, 0.25), (0.75, 0.25 + 0.0625)])
def test_the_papers_halt_loss_is_a_squared_error(target: float | None, expected: float) -> None:
    readout = Readout(torch.zeros(1), torch.zeros(1), torch.zeros(1))
    continue_target = None if target is None else torch.tensor([target])
    for right in (True, False):
        loss = halt_loss(readout, torch.tensor([right]), continue_target, "squared")
        assert float(loss) == pytest.approx(expected)


def test_the_recipe_chooses_the_halt_loss(tiny_model: ModelBuilder, tiny_slots: SlotsBuilder) -> None:
    model = tiny_model(guidance="none")
    torch.nn.init.zeros_(model.decoder.halt.weight)  # as in a new model: sure that nothing is solved, and nothing is
    torch.nn.init.constant_(model.decoder.halt.bias, HALT_BIAS)
    slots = tiny_slots(model, 4)
    found = {kind: update_of(objective_of(model, halt_loss=kind), slots).metrics["halt"] for kind in ("bce", "squared")}
    unsure = 1 / (1 + math.exp(-HALT_BIAS))
    assert float(found["bce"]) == pytest.approx(-math.log(1 - unsure), rel=1e-3)
    assert float(found["squared"]) == pytest.approx(unsure**2, rel=1e-3)


def test_rollout_accuracy_is_reported_only_where_slots_follow_the_prior(
    tiny_model: ModelBuilder, tiny_slots: SlotsBuilder
) -> None:
    for share, guidance, reported in ((0.0, "gaussian", False), (0.5, "gaussian", True), (0.0, "none", True)):
        model = tiny_model(guidance=guidance)
        update = update_of(objective_of(model, prior_share=share), tiny_slots(model, 4))
        assert ("rollout_accuracy" in update.metrics) == reported


def test_value_loss_is_the_squared_error_of_a_probability() -> None:
    loss = squared_error(torch.tensor([0.0, 100.0, -100.0]), torch.tensor([1.0, 1.0, 1.0]))
    assert_close(loss, torch.tensor([0.25, 0.0, 1.0]))


@pytest.mark.parametrize("eager", [False, True])
def test_q_learning_target_is_the_better_value_one_step_later(
    tiny_model: ModelBuilder, tiny_slots: SlotsBuilder, eager: bool
) -> None:
    model = tiny_model(guidance="none", halting="q_learning", step_embedding=True)
    with torch.no_grad():
        model.decoder.halt.bias[1] += 6 if eager else -6  # going on is always, or never, the better choice
    slots = tiny_slots(model, 4)
    slots.steps = torch.tensor([0, 1, 2, 2])  # the last two make their third and final step now
    update = update_of(objective_of(model), slots)
    with torch.no_grad():
        e_x = model.encoder(slots.inputs)
        here = model.step(slots.state, e_x, lambda t: None, first_transition=2 * slots.steps)
        ahead = model.step(here.state, e_x, lambda t: None, first_transition=2 * (slots.steps + 1))
        now, later = (model.decoder.readout(output.state.h) for output in (here, ahead))
        right = exactly_right(model.decoder.logits(here.state.h).argmax(dim=-1), slots.targets)
    assert bool(((later.q_continue > later.q_halt) == eager).all())
    expected = 0.0
    for i in range(4):
        best = later.q_halt[i] if slots.steps[i] == 2 else max(later.q_halt[i], later.q_continue[i])
        target = 1 / (1 + math.exp(-float(best)))
        expected += (bce(float(now.q_halt[i]), float(right[i])) + bce(float(now.q_continue[i]), target)) / 4
    assert float(update.metrics["halt"].detach()) == pytest.approx(expected, rel=1e-4)


def test_slots_finish_at_the_last_step_or_when_they_halt(tiny_model: ModelBuilder, tiny_slots: SlotsBuilder) -> None:
    model = tiny_model(guidance="none")
    count = 40
    slots = tiny_slots(model, count)
    slots.steps = torch.arange(count) % 3
    slots.min_steps = torch.arange(count) % 4
    plain = update_of(objective_of(model), slots)
    assert torch.equal(plain.finished, slots.steps == 2)
    with torch.no_grad():
        model.decoder.halt.bias[0] -= model.decoder.readout(plain.state.h).q_halt.median()  # half of them halt
        wants = model.wants_to_halt(model.decoder.readout(plain.state.h))
    assert 0 < int(wants.sum()) < count
    halting = update_of(objective_of(model, halt_in_training=True), slots)
    expected = [
        made + 1 == 3 or (halt and made + 1 >= minimum)
        for made, minimum, halt in zip(slots.steps.tolist(), slots.min_steps.tolist(), wants.tolist(), strict=True)
    ]
    assert halting.finished.tolist() == expected


# --- value ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("target", ["valid", "token_accuracy"])
def test_value_head_is_charged_when_a_trajectory_ends(
    tiny_model: ModelBuilder, tiny_slots: SlotsBuilder, target: str
) -> None:
    model = tiny_model(guidance="none")
    slots = tiny_slots(model, 6)
    slots.steps = torch.tensor([0, 2, 1, 2, 2, 0])

    def checker(inputs: Tensor, outputs: Tensor) -> Tensor:
        return inputs[:, 0] % 2 == 0

    objective = objective_of(model, checker=checker, value_target=target, halt_weight=0, value_weight=0.7)
    update = objective(slots, 1.0, torch.Generator().manual_seed(0))
    with torch.no_grad():
        outputs = model.decoder.logits(update.state.h).argmax(dim=-1)
        value = model.decoder.readout(slots.memory).value.sigmoid()  # the memory as the update left it
    errors = []
    for i in (1, 3, 4):
        labelled = slots.targets[i] != IGNORE
        accuracy = float((outputs[i] == slots.targets[i])[labelled].float().mean())
        quality = float(slots.inputs[i, 0] % 2 == 0) if target == "valid" else accuracy
        errors.append((float(value[i]) - quality) ** 2)
    assert float(update.metrics["value"].detach()) == pytest.approx(sum(errors) / 3, rel=1e-4)
    assert_close(update.loss - update.metrics["reconstruction"], 0.7 * update.metrics["value"])
    share = sum(int(slots.inputs[i, 0]) % 2 == 0 for i in (1, 3, 4)) / 3
    assert float(update.metrics["rollout_accuracy"]) == pytest.approx(share)


def test_nothing_is_charged_or_reported_when_no_trajectory_ends(
    tiny_model: ModelBuilder, tiny_slots: SlotsBuilder
) -> None:
    model = tiny_model()
    update = update_of(objective_of(model, halt_weight=0), tiny_slots(model, 8))
    assert bool(update.metrics["value"].isnan())
    assert bool(update.metrics["rollout_accuracy"].isnan())
    assert bool(update.loss.isfinite())
    found = gradients(model, update.loss)
    assert found["decoder.value.weight"] is None or float(found["decoder.value.weight"].abs().max()) == 0


def test_memory_is_uniform_over_the_steps_of_a_trajectory(tiny_model: ModelBuilder, tiny_slots: SlotsBuilder) -> None:
    steps, count = 4, 2000
    model = tiny_model(guidance="none", supervision_steps=steps, transitions=1, low_steps=1, length=2)
    slots = tiny_slots(model, count)
    objective = objective_of(model)
    generator = torch.Generator().manual_seed(0)
    visited = []
    for _ in range(steps):
        with torch.no_grad():
            update = objective(slots, 1.0, generator)
        slots.state, slots.steps = update.state, slots.steps + 1
        visited.append(update.state.h)
    kept = torch.stack([(slots.memory == h).flatten(1).all(dim=1) for h in visited])  # [steps, slots]
    assert kept.sum(dim=0).tolist() == [1] * count  # always one of the states visited
    shares = kept.float().mean(dim=1)
    deviation = math.sqrt(0.25 * 0.75 / count)
    assert float((shares - 1 / steps).abs().max()) < 4 * deviation
    assert bool(update.finished.all())


# --- pieces -----------------------------------------------------------------------------------------------------------

KINDS: dict[str, tuple[dict[str, object], dict[str, object]]] = {
    "GRAM": ({}, {}),
    "GRAM that learns from its rollouts": ({}, {"learn_from_rollouts": True}),
    "TRM": ({"guidance": "none"}, {"heads_reach_core": True}),
    "HRM": ({"guidance": "none", "halting": "q_learning", "gradient": "call"}, {"heads_reach_core": True}),
}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("rows", [1, 3, 100])
def test_pieces_of_the_slots_add_up_to_the_same_update(
    tiny_model: ModelBuilder, tiny_slots: SlotsBuilder, kind: str, rows: int
) -> None:
    found = []
    for piece_rows in (0, rows):
        model = tiny_model(**KINDS[kind][0])
        slots = tiny_slots(model, 8)
        slots.steps = torch.tensor([0, 2, 1, 2, 2, 0, 1, 2])
        objective = objective_of(model, halt_in_training=kind in ("TRM", "HRM"), **KINDS[kind][1])
        if piece_rows:
            objective.piece_rows, objective.backward = piece_rows, Tensor.backward
        update = update_of(objective, slots)
        update.loss.backward()
        gradient = {name: p.grad for name, p in model.named_parameters() if p.grad is not None}
        metrics = {name: metric.detach() for name, metric in update.metrics.items()}
        found.append((gradient, metrics, *update.state, update.finished, update.rollouts))
    assert_close(found[0], found[1], rtol=1e-4, atol=1e-6, equal_nan=True)
