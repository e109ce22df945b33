"""Slots: who is refilled, with what, and in which order."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pytest
import torch
from gram.models.baselines.model import Generative
from gram.training.objective import Objective
from hypothesis import given, settings
from hypothesis import strategies as st

from gram.config import GenerativeConfig
from gram.models.reasoner import Reasoner, State
from gram.tasks.base import Examples, Tokens
from gram.tasks.images import Digits
from gram.tasks.nqueens import NQueens
from gram.training.distributed import Team
from gram.training.slots import SlotFeeder, Slots

ModelBuilder = Callable[..., Reasoner]
VAE = GenerativeConfig(name="vae", options={"hidden": 4, "latent": 2})
CPU = torch.device("cpu")
FIELDS = ("index", "inputs", "targets", "steps", "min_steps", "lifetime", "memory")


@dataclass
class CountingTask:
    """Row i is filled with the number i, so that every row can be recognised; augmentation negates the target."""

    length: int = 6
    repairs: bool = False
    exchanges: bool = False

    def examples(self, rows: int) -> Examples:
        tokens = np.repeat(np.arange(rows)[:, None], self.length, axis=1)
        return Examples(tokens, tokens + 1, np.arange(rows))

    def augment(self, inputs: Tokens, targets: Tokens, generator: np.random.Generator) -> tuple[Tokens, Tokens]:
        generator.random()  # it may use the generator
        return inputs, -targets


def feeder_of(rows: int, slots: int, *, seed: int = 0, steps: int = 3, explore: float = 0.5) -> SlotFeeder:
    task = CountingTask()
    return SlotFeeder(task, task.examples(rows), steps=steps, explore=explore, seed=seed, team=Team(slots))


def scrambled(slots: Slots, model: Reasoner) -> Slots:
    """Slots as they look in the middle of training: nothing at its initial value."""
    generator = torch.Generator().manual_seed(0)
    h, low = (torch.randn(slots.state.h.shape, generator=generator) for _ in range(2))
    slots.state = State(h, None if model.config.state == "flat" else low)
    slots.memory = torch.randn(h.shape, generator=generator)
    slots.steps = slots.steps + 1
    return slots


MASKS = st.integers(1, 5).flatmap(
    lambda n: st.lists(st.lists(st.booleans(), min_size=n, max_size=n), min_size=1, max_size=6)
)


@settings(max_examples=25)
@given(masks=MASKS, rows=st.integers(1, 7), seed=st.integers(0, 3), flat=st.booleans())
def test_refill_restarts_finished_slots_and_leaves_the_others(
    tiny_model: ModelBuilder, masks: list[list[bool]], rows: int, seed: int, flat: bool
) -> None:
    model = tiny_model(state="flat" if flat else "hierarchical")
    feeder = feeder_of(rows, len(masks[0]), seed=seed)
    slots = feeder.start(model, CPU)
    dealt = slots.index.tolist()
    for mask in masks:
        slots = scrambled(slots, model)
        before = {name: getattr(slots, name).clone() for name in FIELDS}
        state = slots.state
        finished = torch.tensor(mask)
        feeder.refill(slots, finished, model)
        for name in FIELDS:
            assert torch.equal(getattr(slots, name)[~finished], before[name][~finished]), name
        initial = model.initial_state(len(mask))
        for now, was, z_0 in zip(slots.state, state, initial, strict=True):
            if now is None:
                assert flat
                continue
            assert torch.equal(now[~finished], was[~finished])
            assert torch.equal(now[finished], z_0[finished])
        fresh = slots.index[finished]
        assert torch.equal(slots.inputs[finished], fresh[:, None].expand(-1, 6))
        assert torch.equal(slots.targets[finished], -(fresh + 1)[:, None].expand(-1, 6))  # augmented
        assert not slots.steps[finished].any()
        assert set(slots.min_steps[finished].tolist()) <= {0, 2, 3}
        dealt += fresh.tolist()
    # Epoch after epoch, every row once.
    for start in range(0, len(dealt), rows):
        epoch = dealt[start : start + rows]
        assert len(set(epoch)) == len(epoch)
        assert len(epoch) < rows or sorted(epoch) == list(range(rows))


def deal(model: Reasoner, *, seed: int) -> list[list[int]]:
    feeder = feeder_of(20, 4, seed=seed)
    slots = feeder.start(model, CPU)
    history = [slots.index.tolist(), slots.steps.tolist()]
    for mask in ([True, False, True, False], [True] * 4, [False] * 4, [False, True, True, True]):
        feeder.refill(slots, torch.tensor(mask), model)
        history += [slots.index.tolist(), slots.min_steps.tolist()]
    return history


def test_the_same_seed_deals_the_same_examples(tiny_model: ModelBuilder) -> None:
    model = tiny_model()
    assert deal(model, seed=1) == deal(model, seed=1)
    assert deal(model, seed=1) != deal(model, seed=2)


def test_epochs_come_in_different_orders(tiny_model: ModelBuilder) -> None:
    model = tiny_model()
    feeder = feeder_of(30, 30)
    slots = feeder.start(model, CPU)
    first = slots.index.tolist()
    feeder.refill(slots, torch.ones(30, dtype=torch.bool), model)
    second = slots.index.tolist()
    assert sorted(first) == sorted(second) == list(range(30))
    assert first != second != list(range(30))


def test_ages_at_the_start_are_spread_over_all_steps(tiny_model: ModelBuilder) -> None:
    slots = feeder_of(10, 300, steps=5).start(tiny_model(), CPU)
    counts = np.bincount(slots.steps.numpy(), minlength=5)
    assert len(counts) == 5  # 0..4: none is finished before its first update
    assert counts.min() > 30


def test_lifetimes_are_log_uniform_in_their_range(tiny_model: ModelBuilder) -> None:
    task = CountingTask()
    feeder = SlotFeeder(task, task.examples(9), steps=3, lifetime=(4, 64), explore=0, seed=0, team=Team(4000))
    slots = feeder.start(tiny_model(), CPU)
    lifetimes = slots.lifetime.numpy()
    assert (lifetimes.min(), lifetimes.max()) == (4, 64)
    assert np.quantile(lifetimes, 0.5) == pytest.approx(16, abs=1)  # the middle of the logarithms
    assert bool((slots.steps < slots.lifetime).all())
    assert bool((feeder_of(9, 5).start(tiny_model(), CPU).lifetime == 3).all())


def test_memory_of_an_aged_slot_is_never_a_state_that_cannot_occur(tiny_model: ModelBuilder, queens: NQueens) -> None:
    model = tiny_model(vocab_size=queens.vocab_size, length=queens.length, guidance="none")
    feeder = SlotFeeder(queens, queens.split("train"), steps=3, explore=0, seed=0, team=Team(32))
    slots = feeder.start(model, CPU)
    from gram.config import ObjectiveConfig

    objective = Objective(model, ObjectiveConfig(), checker=None, halt_in_training=False)
    with torch.no_grad():
        objective(slots, 1.0, torch.Generator().manual_seed(0))
    assert bool((slots.memory.abs().amax(dim=(1, 2)) > 0).all())


def test_exploration_draws_a_minimum_from_two_to_the_last_step(tiny_model: ModelBuilder) -> None:
    model, count = tiny_model(length=1), 8000
    task = CountingTask(length=1)

    def minimum_steps(explore: float, steps: int) -> np.ndarray:
        feeder = SlotFeeder(task, task.examples(3), steps=steps, explore=explore, seed=0, team=Team(count))
        return np.bincount(feeder.start(model, CPU).min_steps.numpy(), minlength=steps + 1) / count

    shares = minimum_steps(0.4, steps=5)
    deviation = np.sqrt(0.1 * 0.9 / count)
    assert shares[1] == 0
    assert shares[0] == pytest.approx(0.6, abs=0.025)
    assert np.abs(shares[2:] - 0.1).max() < 4 * deviation
    assert minimum_steps(0.0, steps=5)[0] == 1
    assert minimum_steps(1.0, steps=1)[1] == 1  # a single step is the only possible minimum


def test_slots_are_real_pairs_of_the_task(tiny_model: ModelBuilder, queens: NQueens) -> None:
    model = tiny_model(vocab_size=queens.vocab_size, length=queens.length)
    examples = queens.split("train")
    feeder = SlotFeeder(queens, examples, steps=3, explore=0.1, seed=0, team=Team(16))
    slots = feeder.start(model, CPU)
    assert np.array_equal(slots.inputs.numpy(), examples.inputs[slots.index.numpy()])
    assert bool(queens.verify(slots.inputs.numpy(), slots.targets.numpy()).valid.all())


@settings(max_examples=25)
@given(seed=st.integers(0, 50), wrong=st.integers(0, 4))
def test_retargeting_takes_the_nearest_solution_of_the_same_input(
    tiny_model: ModelBuilder, queens: NQueens, seed: int, wrong: int
) -> None:
    model = tiny_model(vocab_size=queens.vocab_size, length=queens.length)
    feeder = SlotFeeder(queens, queens.split("train"), steps=2, explore=0, seed=seed, team=Team(6))
    slots = feeder.start(model, CPU)
    kept = slots.targets[4:].clone()
    generator = np.random.default_rng(seed)
    solutions = [queens.solutions(inputs) for inputs in slots.inputs[:4].numpy()]
    outputs = np.stack([generator.choice(found) for found in solutions])
    for output in outputs:
        output[generator.choice(queens.length, wrong, replace=False)] = 0
    feeder.retarget(slots, torch.from_numpy(outputs))
    for target, found, output in zip(slots.targets[:4].numpy(), solutions, outputs, strict=True):
        assert (target == found).all(axis=1).any()
        assert (target != output).sum() == (found != output).sum(axis=1).min()
    assert torch.equal(slots.targets[4:], kept)


def test_retargeting_leaves_the_only_solution_as_it_was_augmented(tiny_model: ModelBuilder) -> None:
    feeder = feeder_of(5, 3)
    slots = feeder.start(tiny_model(), CPU)
    before = slots.targets.clone()
    feeder.retarget(slots, torch.zeros_like(before))
    assert torch.equal(slots.targets, before)


def test_equally_near_solutions_are_chosen_by_chance(tiny_model: ModelBuilder) -> None:
    task = CountingTask(length=2)
    rows = Examples(np.zeros((2, 2), dtype=np.int64), np.array([[1, 2], [2, 1]]), np.zeros(2, dtype=np.int64))
    feeder = SlotFeeder(task, rows, steps=2, explore=0, seed=0, team=Team(64))
    slots = feeder.start(tiny_model(length=2), CPU)
    feeder.retarget(slots, torch.zeros(64, 2, dtype=torch.long))
    assert 10 < int((slots.targets[:, 0] == 1).sum()) < 54


def test_rollouts_of_images_exchange_their_targets() -> None:
    task = Digits()
    feeder = SlotFeeder(task, task.split("train"), steps=2, explore=0.0, seed=0, team=Team(6, prior=4))
    slots = feeder.start(Generative(VAE, vocab_size=3, length=64), CPU)
    before = slots.targets.clone()
    order = [2, 0, 3, 1]
    drawn = before[order].clone()
    drawn[:, 5] = 3 - drawn[:, 5]  # nearly the targets of other slots
    feeder.retarget(slots, drawn)
    assert torch.equal(slots.targets[:4], before[order])
    assert torch.equal(slots.targets[4:], before[4:])
    feeder.retarget(slots, torch.ones_like(drawn))
    assert sorted(slots.targets[:4].tolist()) == sorted(before[:4].tolist())  # whatever was drawn, none is lost


def test_an_exchange_with_the_reserve_loses_no_target() -> None:
    task = Digits()
    examples = task.split("train")
    feeder = SlotFeeder(task, examples, steps=2, explore=0.0, seed=0, team=Team(6, prior=4), reserve=20)
    slots = feeder.start(Generative(VAE, vocab_size=3, length=64), CPU)

    def pool() -> list[list[int]]:
        return sorted([*slots.targets[:4].tolist(), *feeder.reserve.tolist()])

    before, waiting = pool(), feeder.reserve.clone()
    drawn = torch.stack([slots.targets[3], waiting[7], waiting[0], slots.targets[1]])
    drawn[:, 5] = 3 - drawn[:, 5]
    feeder.retarget(slots, drawn)
    assert (slots.targets[:4] != drawn).sum() <= 4  # each has found the one that it nearly is
    assert len(feeder.reserve) == 20
    assert pool() == before
