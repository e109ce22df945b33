"""The deal: who is offered an example, which one, and in which order."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from gram.tasks.nqueens import NQueens
from gram.training.distributed import SlotSharding
from gram.training.slots import SlotFeeder
from tests.training.helpers import CountingTask, feeder_of


def everyone(count: int) -> Tensor:
    return torch.ones(count, dtype=torch.bool)


MASKS = st.integers(1, 5).flatmap(
    lambda n: st.lists(st.lists(st.booleans(), min_size=n, max_size=n), min_size=1, max_size=6)
)


@settings(max_examples=25)
@given(masks=MASKS, rows=st.integers(1, 7), seed=st.integers(0, 3))
def test_finished_slots_are_offered_examples_and_the_others_nothing(
    masks: list[list[bool]], rows: int, seed: int
) -> None:
    feeder = feeder_of(rows, len(masks[0]), seed=seed)
    dealt: list[int] = []
    numbers: list[int] = []
    for mask in masks:
        finished = torch.tensor(mask)
        offered = feeder.offer(finished)
        for name, tensor in vars(offered).items():
            assert tensor is None or not tensor[~finished].any(), name
        fresh = offered.index[finished]
        assert torch.equal(offered.inputs[finished], fresh[:, None].expand(-1, 6))
        assert torch.equal(offered.targets[finished], -(fresh + 1)[:, None].expand(-1, 6))  # augmented
        assert set(offered.min_steps[finished].tolist()) <= {0, 2, 3}
        assert set(offered.lifetime[finished].tolist()) <= {3}
        dealt += fresh.tolist()
        numbers += offered.deal[finished].tolist()
    # Epoch after epoch, every row once.
    for start in range(0, len(dealt), rows):
        epoch = dealt[start : start + rows]
        assert len(set(epoch)) == len(epoch)
        assert len(epoch) < rows or sorted(epoch) == list(range(rows))
    assert numbers == list(range(len(dealt)))  # no two deals share their noise
    assert feeder.total == len(dealt)


def history(*, seed: int) -> list[list[int]]:
    feeder = feeder_of(20, 4, seed=seed)
    found = []
    for mask in ([True] * 4, [True, False, True, False], [True] * 4, [False] * 4, [False, True, True, True]):
        offered = feeder.offer(torch.tensor(mask))
        found += [offered.index.tolist(), offered.min_steps.tolist()]
    return found


def test_the_same_seed_deals_the_same_examples() -> None:
    assert history(seed=1) == history(seed=1)
    assert history(seed=1) != history(seed=2)


def test_epochs_come_in_different_orders() -> None:
    feeder = feeder_of(30, 30)
    first, second = (feeder.offer(everyone(30)).index.tolist() for _ in range(2))
    assert sorted(first) == sorted(second) == list(range(30))
    assert first != second != list(range(30))


def test_lifetimes_are_log_uniform_in_their_range() -> None:
    lifetimes = feeder_of(9, 4000, lifetime=(4, 64)).offer(everyone(4000)).lifetime.numpy()
    assert (lifetimes.min(), lifetimes.max()) == (4, 64)
    assert np.quantile(lifetimes, 0.5) == pytest.approx(16, abs=1)  # the middle of the logarithms
    assert bool((feeder_of(9, 5).offer(everyone(5)).lifetime == 3).all())


def test_exploration_draws_a_minimum_from_two_to_the_last_step() -> None:
    count = 8000

    def minimum_steps(explore: float, steps: int) -> np.ndarray:
        offered = feeder_of(3, count, steps=steps, explore=explore).offer(everyone(count))
        return np.bincount(offered.min_steps.numpy(), minlength=steps + 1) / count

    shares = minimum_steps(0.4, steps=5)
    deviation = np.sqrt(0.1 * 0.9 / count)
    assert shares[1] == 0
    assert shares[0] == pytest.approx(0.6, abs=0.025)
    assert np.abs(shares[2:] - 0.1).max() < 4 * deviation
    assert minimum_steps(0.0, steps=5)[0] == 1
    assert minimum_steps(1.0, steps=1)[1] == 1  # a single step is the only possible minimum


def test_what_is_dealt_are_pairs_of_the_task(queens: NQueens) -> None:
    examples = queens.split("train")
    feeder = SlotFeeder(queens, examples, steps=3, explore=0.1, seed=0, sharding=SlotSharding(16))
    offered = feeder.offer(everyone(16))
    assert np.array_equal(offered.inputs.numpy(), examples.inputs[offered.index.numpy()])
    assert bool(queens.verify(offered.inputs.numpy(), offered.targets.numpy()).valid.all())


class Third:
    """A fabric of four processes, as the third of them, that gathers what its test has prepared."""

    world_size, global_rank = 4, 2

    def __init__(self, everyone: Tensor) -> None:
        self.parts = torch.stack([everyone[rank::4] for rank in range(4)])

    def all_gather(self, _own: Tensor) -> Tensor:
        return self.parts


def test_a_process_offers_its_own_slots_what_one_process_would() -> None:
    finished = torch.rand(24, generator=torch.Generator().manual_seed(0)) < 0.6
    alone = feeder_of(40, 24)
    task = CountingTask()
    sharding = SlotSharding(24, 8, Third(finished))  # type: ignore[arg-type]
    shared = SlotFeeder(task, task.examples(40), steps=3, explore=0.5, seed=0, sharding=sharding)
    for _ in range(3):
        whole, own = alone.offer(finished), shared.offer(finished[2::4])
        assert own.tensors().keys() == whole.tensors().keys()
        for name, tensor in own.tensors().items():
            assert torch.equal(tensor, whole.tensors()[name][2::4]), name
