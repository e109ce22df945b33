"""The halt and value heads: what they are charged, and when a slot is finished."""

import math
from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from gram.models.carry import Carry
from gram.models.coders import HALT_BIAS
from gram.models.losses import exactly_right
from gram.models.reasoner import Reasoner
from gram.tasks.base import IGNORE
from tests.models.helpers import binary_cross_entropy as bce
from tests.models.helpers import parameter_gradients as gradients
from tests.models.helpers import update_of

ModelBuilder = Callable[..., Reasoner]
CarryBuilder = Callable[..., Carry]

# --- halting -------------------------------------------------------------------------------------------------------


def test_the_recipe_chooses_the_halt_loss(tiny_model: ModelBuilder, tiny_carry: CarryBuilder) -> None:
    model = tiny_model(guidance="none")
    torch.nn.init.zeros_(model.decoder.halt.weight)  # as in a new model: sure that nothing is solved, and nothing is
    torch.nn.init.constant_(model.decoder.halt.bias, HALT_BIAS)
    carry = tiny_carry(model, 4)
    found = {kind: update_of(model, carry, halt_loss=kind).metrics["halt"] for kind in ("bce", "squared")}
    unsure = 1 / (1 + math.exp(-HALT_BIAS))
    assert float(found["bce"]) == pytest.approx(-math.log(1 - unsure), rel=1e-3)
    assert float(found["squared"]) == pytest.approx(unsure**2, rel=1e-3)


def test_rollout_accuracy_is_reported_only_where_slots_follow_the_prior(
    tiny_model: ModelBuilder, tiny_carry: CarryBuilder
) -> None:
    for share, guidance, reported in ((0.0, "gaussian", False), (0.5, "gaussian", True), (0.0, "none", True)):
        model = tiny_model(guidance=guidance)
        update = update_of(model, tiny_carry(model, 4), prior_share=share)
        assert ("rollout_accuracy" in update.metrics) == reported


@pytest.mark.parametrize("eager", [False, True])
def test_q_learning_target_is_the_better_value_one_step_later(
    tiny_model: ModelBuilder, tiny_carry: CarryBuilder, eager: bool
) -> None:
    model = tiny_model(guidance="none", halting="q_learning", step_embedding=True)
    with torch.no_grad():
        model.decoder.halt.bias[1] += 6 if eager else -6  # going on is always, or never, the better choice
    carry = tiny_carry(model, 4, steps=torch.tensor([0, 1, 2, 2]))  # the last two make their third and final step now
    update = update_of(model, carry)
    with torch.no_grad():
        e_x = model.encoder(carry.rows.inputs)
        here = model.step(carry.state, e_x, lambda t: None, first_transition=2 * carry.steps)
        ahead = model.step(here.state, e_x, lambda t: None, first_transition=2 * (carry.steps + 1))
        now, later = (model.decoder.readout(output.state.h) for output in (here, ahead))
        right = exactly_right(model.decoder.logits(here.state.h).argmax(dim=-1), carry.rows.targets)
    assert bool(((later.q_continue > later.q_halt) == eager).all())
    expected = 0.0
    for i in range(4):
        best = later.q_halt[i] if carry.steps[i] == 2 else max(later.q_halt[i], later.q_continue[i])
        target = 1 / (1 + math.exp(-float(best)))
        expected += (bce(float(now.q_halt[i]), float(right[i])) + bce(float(now.q_continue[i]), target)) / 4
    assert float(update.metrics["halt"].detach()) == pytest.approx(expected, rel=1e-4)


def test_slots_finish_at_the_last_step_or_when_they_halt(tiny_model: ModelBuilder, tiny_carry: CarryBuilder) -> None:
    model = tiny_model(guidance="none")
    count = 40
    carry = tiny_carry(model, count, steps=torch.arange(count) % 3, min_steps=torch.arange(count) % 4)
    plain = update_of(model, carry)
    assert torch.equal(plain.carry.finished, carry.steps == 2)
    with torch.no_grad():
        model.decoder.halt.bias[0] -= model.decoder.readout(plain.carry.state.h).q_halt.median()  # half of them halt
        wants = model.wants_to_halt(model.decoder.readout(plain.carry.state.h))
    assert 0 < int(wants.sum()) < count
    halting = update_of(model, carry, halt=True)
    expected = [
        made + 1 == 3 or (halt and made + 1 >= minimum)
        for made, minimum, halt in zip(carry.steps.tolist(), carry.rows.min_steps.tolist(), wants.tolist(), strict=True)
    ]
    assert halting.carry.finished.tolist() == expected


# --- release ----------------------------------------------------------------------------------------------------------


def even_inputs(inputs: Tensor, outputs: Tensor) -> Tensor:
    return inputs[:, 0] % 2 == 0


@pytest.mark.parametrize("guidance", ["none", "fixed", "gaussian"])
@pytest.mark.parametrize("learn", [False, True])
def test_right_slots_are_released_by_chance(
    tiny_model: ModelBuilder, tiny_carry: CarryBuilder, guidance: str, learn: bool
) -> None:
    model = tiny_model(guidance=guidance)
    carry = tiny_carry(model, 200, steps=torch.arange(200) % 3)
    right, last = even_inputs(carry.rows.inputs, carry.rows.inputs), carry.steps == 2
    options = {"prior_share": 0.25, "learn_from_rollouts": learn, "checker": even_inputs}
    never, always, some = (
        update_of(model, carry, release=release, **options).carry.finished for release in (0.0, 1.0, 0.5)
    )
    assert torch.equal(never, last)
    assert torch.equal(always, last | right)
    assert bool(some[last].all())
    assert not bool((some & ~last & ~right).any())
    released = int((some & ~last).sum())
    assert 0.3 * int((right & ~last).sum()) < released < 0.7 * int((right & ~last).sum())


def test_an_example_stays_for_its_lifetime(tiny_model: ModelBuilder, tiny_carry: CarryBuilder) -> None:
    model = tiny_model(guidance="fixed")
    carry = tiny_carry(model, 4, steps=torch.tensor([0, 4, 8, 8]), lifetime=torch.tensor([1, 9, 9, 10]))
    assert update_of(model, carry).carry.finished.tolist() == [True, False, True, False]


# --- value ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("target", ["valid", "token_accuracy"])
def test_value_head_is_charged_when_a_trajectory_ends(
    tiny_model: ModelBuilder, tiny_carry: CarryBuilder, target: str
) -> None:
    model = tiny_model(guidance="none")
    carry = tiny_carry(model, 6, steps=torch.tensor([0, 2, 1, 2, 2, 0]))

    def checker(inputs: Tensor, outputs: Tensor) -> Tensor:
        return inputs[:, 0] % 2 == 0

    update = update_of(model, carry, checker=checker, value_target=target, halt_weight=0, value_weight=0.7)
    with torch.no_grad():
        outputs = model.decoder.logits(update.carry.state.h).argmax(dim=-1)
        value = model.decoder.readout(update.carry.memory).value.sigmoid()
    errors = []
    for i in (1, 3, 4):
        labelled = carry.rows.targets[i] != IGNORE
        accuracy = float((outputs[i] == carry.rows.targets[i])[labelled].float().mean())
        quality = float(carry.rows.inputs[i, 0] % 2 == 0) if target == "valid" else accuracy
        errors.append((float(value[i]) - quality) ** 2)
    assert float(update.metrics["value"].detach()) == pytest.approx(sum(errors) / 3, rel=1e-4)
    # Three of six slots end now, and each does once in three steps: the charge per slot and step is the weight itself.
    charged = 0.7 * 3 * sum(errors) / 6
    assert float(update.loss.detach() - update.metrics["reconstruction"]) == pytest.approx(charged, rel=1e-3)
    share = sum(int(carry.rows.inputs[i, 0]) % 2 == 0 for i in (1, 3, 4)) / 3
    assert float(update.metrics["rollout_accuracy"]) == pytest.approx(share)


def test_nothing_is_charged_or_reported_when_no_trajectory_ends(
    tiny_model: ModelBuilder, tiny_carry: CarryBuilder
) -> None:
    model = tiny_model()
    update = update_of(model, tiny_carry(model, 8), halt_weight=0)
    assert bool(update.metrics["value"].isnan())
    assert bool(update.metrics["rollout_accuracy"].isnan())
    assert bool(update.loss.isfinite())
    found = gradients(model, update.loss)
    assert found["decoder.value.weight"] is None or float(found["decoder.value.weight"].abs().max()) == 0


def test_memory_is_uniform_over_the_steps_of_a_trajectory(tiny_model: ModelBuilder, tiny_carry: CarryBuilder) -> None:
    steps, count = 4, 2000
    model = tiny_model(guidance="none", supervision_steps=steps, transitions=1, low_steps=1, length=2)
    carry = tiny_carry(model, count)
    visited = []
    for _ in range(steps):
        with torch.no_grad():
            carry = update_of(model, carry).carry
        visited.append(carry.state.h)
    kept = torch.stack([(carry.memory == h).flatten(1).all(dim=1) for h in visited])  # [steps, slots]
    assert kept.sum(dim=0).tolist() == [1] * count  # always one of the states visited
    shares = kept.float().mean(dim=1)
    deviation = math.sqrt(0.25 * 0.75 / count)
    assert float((shares - 1 / steps).abs().max()) < 4 * deviation
    assert bool(carry.finished.all())
