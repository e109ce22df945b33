"""The contract of `gram.models.base.Model`, kept by every kind of model in the same words."""

from collections.abc import Callable
from dataclasses import fields, replace

import numpy as np
import pytest
import torch

from gram.config import Recipe, SampleOptions, parse_recipe
from gram.models import objective, rollout
from gram.models.base import Model, StepContext, StepResult
from gram.models.carry import Carry, Rows
from gram.models.reasoner import Reasoner
from gram.models.registry import MODELS, build_model

SMALL = {"dim": 16, "layers": 1, "heads": 2, "hidden": 16}
REASONER = {"dim": 16, "layers": 1, "heads": 2, "channel_hidden": 16, "token_hidden": 16, "guidance_hidden": 16}
KINDS: dict[str, dict[str, object]] = {
    "reasoner": {**REASONER, "supervision_steps": 3},
    "reasoner without guidance": {**REASONER, "supervision_steps": 3, "guidance": "none"},
    "reasoner with fixed noise": {**REASONER, "supervision_steps": 3, "guidance": "fixed"},
    "ar": {**SMALL, "kind": "ar"},
    "mdlm": {**SMALL, "kind": "mdlm", "sample_steps": 8},
    "d3pm": {**SMALL, "kind": "d3pm", "steps": 10, "time_dim": 8},
    "d3pm absorbing": {**SMALL, "kind": "d3pm", "noise": "absorbing", "steps": 10, "time_dim": 8},
    "vae": {"kind": "vae", "hidden": 16, "latent": 4},
}
LENGTH, VOCABULARY, SLOTS = 4, 3, 8


@pytest.fixture(params=KINDS)
def model(request: pytest.FixtureRequest) -> Model:
    recipe: Recipe = parse_recipe({"model": KINDS[request.param]}, source="the test")
    torch.manual_seed(0)
    return build_model(recipe, vocab_size=VOCABULARY, length=LENGTH)


def rows_of(number: int, steps: int) -> Rows:
    """Examples to learn: every answer is one row of two tokens, 1 and 2, and its input the same."""
    generator = np.random.default_rng(number)
    tokens = torch.from_numpy(1 + generator.integers(0, 2, (SLOTS, 1)).repeat(LENGTH, axis=1))
    zeros = torch.zeros(SLOTS, dtype=torch.long)
    index = torch.arange(SLOTS)
    return Rows(tokens, tokens, SLOTS * number + index, zeros + steps, zeros, index)


def trained(model: Model, updates: int, *, lr: float = 1e-2) -> list[float]:
    """Losses of some updates through nothing but the contract."""
    optimizer = torch.optim.AdamW(model.parameters(), lr=lr)
    carry, losses = model.init_carry(SLOTS), []
    for number in range(updates):
        result = model.training_step(rows_of(number, model.steps_per_example), carry, StepContext())
        optimizer.zero_grad()
        result.loss.backward()
        optimizer.step()
        carry = result.carry
        losses.append(float(result.loss.detach()))
    return losses


def test_every_kind_is_here() -> None:
    assert {str(settings.get("kind", "reasoner")) for settings in KINDS.values()} == set(MODELS)


def test_a_fresh_carry_has_empty_slots_that_take_anything(model: Model) -> None:
    carry = model.init_carry(SLOTS)
    assert bool(carry.finished.all())
    assert carry.steps.tolist() == [-1] * SLOTS
    assert all(len(tensor) == SLOTS for tensor in carry.tensors().values())
    assert (carry.state is not None) == model.recursive
    assert 0 <= model.rollout_rows(SLOTS) <= SLOTS


def test_a_step_takes_the_offer_and_carries_it_on(model: Model) -> None:
    offered, context = rows_of(0, model.steps_per_example), StepContext(seed=3)
    result: StepResult = model.training_step(offered, model.init_carry(SLOTS), context)
    assert torch.equal(result.carry.rows.inputs, offered.inputs)
    assert torch.equal(result.carry.rows.deal, offered.deal)
    assert bool((result.carry.steps == 1).all())
    assert result.outputs.shape == (SLOTS, LENGTH)
    assert result.loss.requires_grad
    assert not any(tensor.requires_grad for tensor in [*result.metrics.values(), *result.carry.tensors().values()])
    assert float(result.metrics["loss"]) == pytest.approx(float(result.loss.detach()))
    # The same seed and the same deal give the same loss; a carry is never changed in place.
    again = model.training_step(offered, model.init_carry(SLOTS), context)
    assert torch.equal(again.loss, result.loss)
    later = model.training_step(rows_of(1, model.steps_per_example), result.carry, context)
    for name, tensor in Carry.of(result.carry.tensors()).part(slice(None)).tensors().items():
        assert torch.equal(tensor, again.carry.tensors()[name]), name
    kept = ~result.carry.finished
    assert torch.equal(later.carry.rows.deal[kept], offered.deal[kept])
    assert bool((later.carry.rows.deal[~kept] >= SLOTS).all())


def test_training_lowers_the_loss(model: Model) -> None:
    losses = trained(model, 150)  # a VAE leaves its first plateau when its noise allows
    assert sum(losses[-10:]) < 0.7 * sum(losses[:10])


def test_jobs_are_rolled_out_once_each(model: Model) -> None:
    inputs = np.ones((3, LENGTH), dtype=np.int64)
    inputs[1] = 2
    jobs = [(2, 0), (0, 1), (1, 3), (0, 0)]
    options = SampleOptions(depth=2, seed=4)
    model.check(options)
    ended = []
    for made in model.roll_out(inputs, jobs, options, chunk=3):
        assert made.outputs.shape == (len(made.puzzle), LENGTH)
        assert bool(((made.outputs >= 0) & (made.outputs < VOCABULARY)).all())
        assert made.h.shape == (len(made.puzzle), *model.state_shape)
        assert not (made.halted & ~made.ended).any()
        ended += list(zip(made.puzzle[made.ended].tolist(), made.trajectory[made.ended].tolist(), strict=True))
    assert sorted(ended) == sorted(jobs)
    first, second = ([made.outputs.tolist() for made in model.roll_out(inputs, jobs, options)] for _ in range(2))
    assert first == second


def test_supported_options_are_sampling_options(model: Model) -> None:
    assert {"width", "seed"} <= model.supported <= {field.name for field in fields(SampleOptions)}
    assert ("depth" in model.supported) == model.recursive
    assert (model.sampling_steps is not None) == ("steps" in model.supported)
    assert isinstance(model.is_deterministic(SampleOptions()), bool)


def test_the_likelihood_of_what_was_learned_rises(model: Model) -> None:
    rows = rows_of(1000, 1)
    before = model.log_likelihood(rows.inputs, rows.targets, seed=1)
    assert before.shape == (SLOTS,)
    assert torch.equal(model.log_likelihood(rows.inputs, rows.targets, seed=1), before)
    exact, meaning = model.likelihood_meaning
    if exact:
        assert bool((before <= 0).all())
        assert torch.equal(model.log_likelihood(rows.inputs, rows.targets, seed=2), before)
    assert meaning
    trained(model, 60)
    after = model.log_likelihood(rows.inputs, rows.targets, seed=1)
    assert float(after.mean()) > float(before.mean())
    for value in model.validation_metrics(rows.inputs, rows.targets, seed=1).values():
        assert np.isfinite(value)


def test_a_model_without_noise_draws_none(monkeypatch: pytest.MonkeyPatch) -> None:
    recipe = parse_recipe({"model": KINDS["reasoner without guidance"]}, source="the test")
    model = build_model(recipe, vocab_size=VOCABULARY, length=LENGTH)

    def refuse(*_: object) -> None:
        raise AssertionError("a deterministic model draws no noise")

    for module in (objective, rollout):
        monkeypatch.setattr(module, "normal", refuse)
    rows = rows_of(0, 3)
    model.training_step(rows, model.init_carry(SLOTS), StepContext())
    model.log_likelihood(rows.inputs, rows.targets)
    assert list(model.roll_out(rows.inputs.numpy(), [(0, 0)], SampleOptions(depth=2)))


# --- a loop of one's own ----------------------------------------------------------------------------------------------


def test_a_training_loop_of_ones_own_learns(tiny_model: Callable[..., Reasoner]) -> None:
    model = tiny_model(vocab_size=4, length=5, dim=32, heads=2)
    generator = torch.Generator().manual_seed(0)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    carry, losses = model.init_carry(32), []
    for _ in range(250):
        inputs = torch.randint(4, (32, 5), generator=generator)
        loss, carry, metrics = model(inputs, inputs.flip(1), carry)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(float(metrics["reconstruction"]))
    assert sum(losses[-10:]) < 0.2 * sum(losses[:10])
    held_out = torch.randint(4, (20, 5), generator=generator)
    jobs = [(number, 0) for number in range(20)]
    made = list(model.roll_out(held_out.numpy(), jobs, SampleOptions(depth=3)))[-1]
    order = np.argsort(made.puzzle)
    assert (made.outputs[order] == held_out.flip(1).numpy()).mean() > 0.8


def test_a_loop_of_ones_own_keeps_slots_until_their_example_is_done(tiny_model: Callable[..., Reasoner]) -> None:
    model = tiny_model()
    carry = model.init_carry(4)
    first, second = (torch.full((4, 6), number) for number in (1, 2))
    _, carry, _ = model(first, first, carry)
    carry = replace(carry, finished=torch.tensor([True, False, True, False]))
    _, carry, _ = model(second, second, carry)
    assert carry.rows.inputs[:, 0].tolist() == [2, 1, 2, 1]
    assert carry.steps.tolist() == [1, 2, 1, 2]
