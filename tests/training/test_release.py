"""When a slot takes a new example: at the end of its lifetime, or once its answer is right."""

from collections.abc import Callable

import pytest
import torch
from gram.training.objective import Objective
from torch import Tensor

from gram.config import ObjectiveConfig
from gram.models.reasoner import Reasoner
from gram.training.slots import Slots

ModelBuilder = Callable[..., Reasoner]
SlotsBuilder = Callable[..., Slots]


def even_inputs(inputs: Tensor, outputs: Tensor) -> Tensor:
    return inputs[:, 0] % 2 == 0


def finished(model: Reasoner, slots: Slots, release: float, **objective: object) -> Tensor:
    built = Objective(model, ObjectiveConfig(**objective), checker=even_inputs, halt_in_training=False, release=release)
    update = built(slots, 1.0, torch.Generator().manual_seed(0))
    return update.finished


@pytest.mark.parametrize("guidance", ["none", "fixed", "gaussian"])
@pytest.mark.parametrize("learn", [False, True])
def test_right_slots_are_released_by_chance(
    tiny_model: ModelBuilder, tiny_slots: SlotsBuilder, guidance: str, learn: bool
) -> None:
    model = tiny_model(guidance=guidance)
    slots = tiny_slots(model, 200)
    slots.steps = torch.arange(200) % 3
    right, last = even_inputs(slots.inputs, slots.inputs), slots.steps == 2
    options = {"prior_share": 0.25, "learn_from_rollouts": learn}
    assert torch.equal(finished(model, slots, 0.0, **options), last)
    assert torch.equal(finished(model, slots, 1.0, **options), last | right)
    some = finished(model, slots, 0.5, **options)
    assert bool((some[last]).all())
    assert not bool((some & ~last & ~right).any())
    released = int((some & ~last).sum())
    assert 0.3 * int((right & ~last).sum()) < released < 0.7 * int((right & ~last).sum())


def test_an_example_stays_for_its_lifetime(tiny_model: ModelBuilder, tiny_slots: SlotsBuilder) -> None:
    model = tiny_model(guidance="fixed")
    slots = tiny_slots(model, 4)
    slots.steps, slots.lifetime = torch.tensor([0, 4, 8, 8]), torch.tensor([1, 9, 9, 10])
    assert finished(model, slots, 0.0).tolist() == [True, False, True, False]


def test_fixed_noise_moves_the_state_by_sigma(tiny_model: ModelBuilder) -> None:
    model = tiny_model(guidance="fixed", log_sigma_init=-1.5, transitions=1)
    still = tiny_model(guidance="none", transitions=1)
    still.load_state_dict(model.state_dict())
    inputs = torch.zeros(2, model.length, dtype=torch.long)
    state, e_x = model.initial_state(2), model.encoder(inputs)
    noise = torch.randn(1, *state.h.shape)
    moved, plain = (each.step(state, e_x, noise.__getitem__).state.h for each in (model, still))
    torch.testing.assert_close(moved - plain, torch.tensor(-1.5).exp() * noise[0])
    cold = model.step(state, e_x, noise.__getitem__, temperature=0.0).state.h
    assert torch.equal(cold, plain)
