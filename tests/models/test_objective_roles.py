"""Who learns from which slot: rollouts from the prior, the slots that follow the posterior, and the heads."""

from collections.abc import Callable
from dataclasses import replace

import pytest
import torch
from torch import Tensor
from torch.testing import assert_close

from gram.config import ObjectiveConfig
from gram.models.carry import Carry
from gram.models.losses import exactly_right, halt_loss
from gram.models.reasoner import Reasoner
from tests.models.helpers import parameter_gradients as gradients
from tests.models.helpers import update_of

ModelBuilder = Callable[..., Reasoner]
CarryBuilder = Callable[..., Carry]
NO_HEADS = {"halt_weight": 0.0, "value_weight": 0.0}
HEADS = ("decoder.halt", "decoder.value", "decoder.pool")


def without_heads(found: dict[str, Tensor | None]) -> dict[str, Tensor]:
    return {name: g for name, g in found.items() if g is not None and not name.startswith(HEADS)}


def with_other_targets(model: Reasoner, carry: Carry) -> Carry:
    targets = (carry.rows.targets + 1).clamp(min=0) % model.vocab_size
    return replace(carry, rows=replace(carry.rows, targets=targets))


def rollout_rows(model: Reasoner, share: float, slots: int) -> int:
    model.objective = ObjectiveConfig(prior_share=share)
    return model.rollout_rows(slots)


def test_number_of_prior_slots(tiny_model: ModelBuilder) -> None:
    assert rollout_rows(tiny_model(), 0.125, 128) == 16
    assert rollout_rows(tiny_model(), 0.0, 128) == 0
    for guidance in ("none", "fixed"):  # there is no posterior to follow
        assert rollout_rows(tiny_model(guidance=guidance), 0.5, 128) == 128


@pytest.mark.parametrize("share", [0.1, 0.125, 0.3, 0.5, 0.9])
def test_every_part_of_the_slots_has_its_part_of_the_rollouts(tiny_model: ModelBuilder, share: float) -> None:
    model = tiny_model()
    for slots in range(2, 40):
        rollouts = rollout_rows(model, share, slots)
        for parts in range(1, slots):
            if slots % parts == 0 and rollouts % parts == 0:
                assert model.rollout_rows(slots // parts) == rollouts // parts


@pytest.mark.parametrize(("share", "slots"), [(0.125, 4), (0.9, 4), (0.75, 2)])
def test_a_prior_share_leaves_slots_of_both_kinds(tiny_model: ModelBuilder, share: float, slots: int) -> None:
    assert 1 <= rollout_rows(tiny_model(), share, slots) < slots


def test_prior_slots_train_nothing_but_the_heads(tiny_model: ModelBuilder, tiny_carry: CarryBuilder) -> None:
    model = tiny_model(readout="pooled")
    carry = tiny_carry(model, 6)
    ours = gradients(model, update_of(model, carry, prior_share=1 / 3).loss)
    posterior_only = update_of(model, carry.part(slice(2, None)), prior_share=0, **NO_HEADS)
    expected = gradients(model, posterior_only.loss)
    assert without_heads(ours).keys() == without_heads(expected).keys()
    assert_close(without_heads(ours), without_heads(expected))
    for name in ("decoder.halt.weight", "decoder.pool.down.weight"):
        assert float(ours[name].abs().max()) > 0


def test_the_heads_learn_from_the_prior_slots_when_there_are_any(
    tiny_model: ModelBuilder, tiny_carry: CarryBuilder
) -> None:
    model = tiny_model()
    carry, other = tiny_carry(model, 6, steps=2), tiny_carry(model, 6, seed=9, steps=2).tensors()
    for name in ("inputs", "targets", "memory", "deal"):  # the same rollouts beside other posterior slots
        other[name][:3] = carry.tensors()[name][:3]
    first, second = (gradients(model, update_of(model, c, prior_share=0.5).loss) for c in (carry, Carry.of(other)))
    for name in first:
        if name.startswith(HEADS):
            assert float(first[name].abs().max()) > 0
            assert_close(first[name], second[name])
    assert not torch.allclose(first["decoder.lm.weight"], second["decoder.lm.weight"])


def test_prior_slots_follow_the_prior(tiny_model: ModelBuilder, tiny_carry: CarryBuilder) -> None:
    model = tiny_model()
    carry = tiny_carry(model, 4)
    update = update_of(model, carry, prior_share=0.5)
    again = update_of(model, with_other_targets(model, carry), prior_share=0.5)
    assert torch.equal(update.carry.state.h[:2], again.carry.state.h[:2])  # they never see the target
    assert not torch.allclose(update.carry.state.h[2:], again.carry.state.h[2:])
    assert update.carry.state.h.shape == carry.state.h.shape
    assert not update.carry.state.h.requires_grad


def test_prior_slots_can_teach_everything_and_still_follow_the_prior(
    tiny_model: ModelBuilder, tiny_carry: CarryBuilder
) -> None:
    model = tiny_model()
    carry = tiny_carry(model, 4)
    learning = {"prior_share": 0.5, "learn_from_rollouts": True, **NO_HEADS}
    update = update_of(model, carry, **learning)
    # The loss is that of four posterior slots; only what the first two carry on is different.
    posterior = update_of(model, carry, prior_share=0, **NO_HEADS)
    assert_close(update.loss, posterior.loss)
    assert_close(update.carry.state.h[2:], posterior.carry.state.h[2:])
    assert not torch.allclose(update.carry.state.h[:2], posterior.carry.state.h[:2])
    assert torch.equal(update.outputs, model.decoder.logits(update.carry.state.h).argmax(dim=-1))
    again = update_of(model, with_other_targets(model, carry), **learning)
    assert torch.equal(again.carry.state.h[:2], update.carry.state.h[:2])


def test_rollouts_have_a_temperature_of_their_own(tiny_model: ModelBuilder, tiny_carry: CarryBuilder) -> None:
    model = tiny_model()
    carry = tiny_carry(model, 4)
    warm, cold = (update_of(model, carry, prior_share=0.5, rollout_temperature=t, **NO_HEADS) for t in (1.0, 0.0))
    silent = model.step(
        carry.state.rows(slice(0, 2)),
        model.encoder(carry.rows.inputs[:2]),
        lambda _: torch.zeros_like(carry.state.h[:2]),
    )
    assert_close(cold.carry.state.h[:2], silent.state.h)
    assert not torch.allclose(warm.carry.state.h[:2], cold.carry.state.h[:2])
    assert_close(warm.carry.state.h[2:], cold.carry.state.h[2:])  # those who follow the posterior do not notice


def test_the_temperature_of_rollouts_falls_in_the_course_of_an_example(
    tiny_model: ModelBuilder, tiny_carry: CarryBuilder
) -> None:
    model = tiny_model()
    lifetime = tiny_carry(model, 4).rows.lifetime[0]
    for step, constant in ((0, 1.0), (int(lifetime) - 1, 0.2)):
        carry = tiny_carry(model, 4, steps=step)
        settings = {"prior_share": 0.5, **NO_HEADS}
        falling = update_of(model, carry, rollout_temperature=1.0, rollout_temperature_final=0.2, **settings)
        same = update_of(model, carry, rollout_temperature=constant, **settings)
        assert_close(falling.carry.state.h, same.carry.state.h)


def test_rollouts_of_examples_beyond_the_horizon_make_smaller_steps(
    tiny_model: ModelBuilder, tiny_carry: CarryBuilder
) -> None:
    model = tiny_model()
    carry = tiny_carry(model, 4)
    lifetime = int(carry.rows.lifetime[0])
    settings = {"prior_share": 0.5, **NO_HEADS}
    full = update_of(model, carry, rollout_temperature=2.0, **settings).carry.state.h
    within = update_of(model, carry, rollout_temperature=2.0, rollout_horizon=lifetime, **settings).carry.state.h
    assert_close(within, full)
    # A quarter of a step, with noise of twice the temperature; slots that follow the posterior make full steps.
    before = carry.state.h
    beyond = update_of(
        model,
        replace(carry, rows=replace(carry.rows, lifetime=torch.full_like(carry.rows.lifetime, 4 * lifetime))),
        rollout_temperature=1.0,
        rollout_horizon=lifetime,
        **settings,
    ).carry.state.h
    assert_close(beyond[:2], before[:2] + (full[:2] - before[:2]) / 4)
    assert_close(beyond[2:], full[2:])


@pytest.mark.parametrize("guidance", ["none", "gaussian"])
def test_heads_do_not_reach_the_core(tiny_model: ModelBuilder, tiny_carry: CarryBuilder, guidance: str) -> None:
    model = tiny_model(guidance=guidance)
    carry = tiny_carry(model, 4, steps=2)
    with_heads = gradients(model, update_of(model, carry, prior_share=0).loss)
    without = gradients(model, update_of(model, carry, prior_share=0, **NO_HEADS).loss)
    for name, gradient in without_heads(without).items():
        assert torch.equal(with_heads[name], gradient), name
    for name in ("decoder.halt.weight", "decoder.value.weight"):
        assert float(with_heads[name].abs().max()) > 0


def test_heads_reach_the_core_when_told_to(tiny_model: ModelBuilder, tiny_carry: CarryBuilder) -> None:
    model = tiny_model(guidance="none")
    carry = tiny_carry(model, 4)
    found = {
        reach: gradients(model, update_of(model, carry, heads_reach_core=reach, value_weight=0).loss)
        for reach in (True, False)
    }
    # What the core additionally receives is exactly the gradient of the halt loss.
    output = model.step(carry.state, model.encoder(carry.rows.inputs), lambda t: None)
    right = exactly_right(model.decoder.logits(output.state.h).argmax(dim=-1), carry.rows.targets)
    halt = halt_loss(model.decoder.readout(output.state.h), right, None).mean()
    for name, gradient in gradients(model, 0.5 * halt).items():
        if name.startswith("low"):
            assert float(gradient.abs().max()) > 0
            assert_close(found[True][name] - found[False][name], gradient, rtol=1e-4, atol=1e-6)
