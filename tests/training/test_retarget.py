"""Learning from rollouts: each slot's new target is the solution that is nearest to where it stands."""

from dataclasses import replace

import numpy as np
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from gram.models.carry import Carry, Rows
from gram.tasks.base import Examples, Task
from gram.tasks.images import Digits
from gram.tasks.nqueens import NQueens
from gram.tasks.sudoku.generated import SudokuGeneration
from gram.training.distributed import SlotSharding
from gram.training.retarget import Retarget
from gram.training.slots import SlotFeeder
from tests.training.helpers import CountingTask


def start(
    task: Task, examples: Examples, slots: int, rollouts: int, *, seed: int = 0, reserve: int = 0
) -> tuple[Retarget, Carry]:
    """Slots that all hold their first example."""
    sharding = SlotSharding(slots, rollouts)
    feeder = SlotFeeder(task, examples, steps=2, explore=0.0, seed=seed, sharding=sharding)
    retarget = Retarget(feeder, reserve)
    rows = feeder.offer(torch.ones(slots, dtype=torch.bool))
    return retarget, Carry(rows, torch.zeros(slots).long(), torch.zeros(slots, dtype=torch.bool))


@settings(max_examples=25)
@given(seed=st.integers(0, 50), wrong=st.integers(0, 4))
def test_retargeting_takes_the_nearest_solution_of_the_same_input(queens: NQueens, seed: int, wrong: int) -> None:
    retarget, carry = start(queens, queens.split("train"), 6, 4, seed=seed)
    generator = np.random.default_rng(seed)
    solutions = [queens.solutions(inputs) for inputs in carry.rows.inputs[:4].numpy()]
    outputs = np.stack([generator.choice(found) for found in solutions])
    for output in outputs:
        output[generator.choice(queens.length, wrong, replace=False)] = 0
    drawn = torch.cat([torch.from_numpy(outputs), torch.zeros_like(carry.rows.targets[4:])])
    after = retarget(carry, drawn)
    for target, found, output in zip(after.rows.targets[:4].numpy(), solutions, outputs, strict=True):
        assert (target == found).all(axis=1).any()
        assert (target != output).sum() == (found != output).sum(axis=1).min()
    assert torch.equal(after.rows.targets[4:], carry.rows.targets[4:])
    untouched = {name: tensor for name, tensor in vars(after.rows).items() if name != "targets" and tensor is not None}
    assert all(torch.equal(tensor, getattr(carry.rows, name)) for name, tensor in untouched.items())


def test_without_rollouts_nothing_changes(queens: NQueens) -> None:
    retarget, carry = start(queens, queens.split("train"), 6, 0)
    assert retarget(carry, carry.rows.targets) is carry


def test_retargeting_leaves_the_only_solution_as_it_was_augmented() -> None:
    task = CountingTask()
    retarget, carry = start(task, task.examples(5), 3, 3)
    after = retarget(carry, torch.zeros_like(carry.rows.targets))
    assert bool((after.rows.targets < 0).all())
    assert torch.equal(after.rows.targets, carry.rows.targets)


def test_equally_near_solutions_are_chosen_by_chance() -> None:
    task = CountingTask(length=2)
    rows = Examples(np.zeros((2, 2), dtype=np.int64), np.array([[1, 2], [2, 1]]), np.zeros(2, dtype=np.int64))
    retarget, carry = start(task, rows, 64, 64)
    after = retarget(carry, torch.zeros(64, 2, dtype=torch.long))
    assert 10 < int((after.rows.targets[:, 0] == 1).sum()) < 54


def with_rest(drawn: torch.Tensor, rows: Rows) -> torch.Tensor:
    """Outputs of all slots, of which the first are `drawn`."""
    return torch.cat([drawn, torch.zeros_like(rows.targets[len(drawn) :])])


def test_rollouts_of_images_exchange_their_targets() -> None:
    task = Digits()
    retarget, carry = start(task, task.split("train"), 6, 4)
    before = carry.rows.targets
    order = [2, 0, 3, 1]
    drawn = before[order].clone()
    drawn[:, 5] = 3 - drawn[:, 5]  # nearly the targets of other slots
    carry = retarget(carry, with_rest(drawn, carry.rows))
    assert torch.equal(carry.rows.targets[:4], before[order])
    assert torch.equal(carry.rows.targets[4:], before[4:])
    carry = retarget(carry, torch.ones_like(before))
    assert sorted(carry.rows.targets[:4].tolist()) == sorted(before[:4].tolist())  # whatever is drawn, none is lost


def test_an_exchange_with_the_reserve_loses_no_target() -> None:
    task = Digits()
    retarget, carry = start(task, task.split("train"), 6, 4, reserve=20)

    def pool(carry: Carry) -> list[list[int]]:
        return sorted([*carry.rows.targets[:4].tolist(), *retarget.reserve.tolist()])

    before, waiting, targets = pool(carry), retarget.reserve.clone(), carry.rows.targets
    drawn = torch.stack([targets[3], waiting[7], waiting[0], targets[1]])
    drawn[:, 5] = 3 - drawn[:, 5]
    after = retarget(replace(carry), with_rest(drawn, carry.rows))
    assert (after.rows.targets[:4] != drawn).sum() <= 4  # each has found the one that it nearly is
    assert len(retarget.reserve) == 20
    assert pool(after) == before


def test_slots_take_repaired_boards_as_targets() -> None:
    task = SudokuGeneration(size=4, train_boards=20, validation_boards=2, test_boards=2)
    retarget, carry = start(task, task.split("train"), 4, 2)
    after = retarget(carry, torch.full((4, 16), 3)).rows.targets
    assert torch.equal(after[2:], carry.rows.targets[2:])
    repaired = after[:2].numpy()
    assert task.verify(np.ones_like(repaired), repaired).valid.all()
    assert ((repaired == 3).sum(axis=1) == 4).all()
