"""Slots: the batch that carries its state across optimiser steps.

Each optimiser step is one supervision step for every slot. A slot whose example is finished takes a fresh example and
the initial state; the others go on from where they were.
"""

from dataclasses import dataclass
from typing import Protocol

import numpy as np
import torch
from scipy.optimize import linear_sum_assignment
from torch import Tensor

from gram.models.reasoner import State
from gram.tasks.base import Examples, Task, Tokens
from gram.training.distributed import Team


class Carrier(Protocol):
    """What slots need of a model."""

    length: int

    def initial_state(self, batch: int) -> State:
        """z_0 for `batch` rows."""


@dataclass
class Slots:
    """Examples under way; the first axis of everything is the slot."""

    index: Tensor
    """[slots] row of the training split"""
    inputs: Tensor
    """[slots, length]"""
    targets: Tensor
    """[slots, length]"""
    state: State
    """z where each slot stands"""
    steps: Tensor
    """[slots] supervision steps made"""
    min_steps: Tensor
    """[slots] steps before which the slot may not halt (exploration)"""
    lifetime: Tensor
    """[slots] supervision steps after which the example is done"""
    memory: Tensor
    """[slots, tokens, dim] one state of the trajectory, uniform over its steps: what the value head learns from"""
    puzzle_ids: Tensor | None = None
    """[slots] which puzzle's own embedding stands in front; for models that have such embeddings"""


class SlotFeeder:
    """Fills slots from a training split in a seeded order, epoch after epoch.

    In a run of several processes each follows the deal of all slots, and fills its own.
    """

    def __init__(
        self,
        task: Task,
        examples: Examples,
        *,
        steps: int,
        lifetime: tuple[int, int] | None = None,
        explore: float,
        seed: int,
        team: Team,
        puzzle_ids: bool = False,
        reserve: int = 0,
    ) -> None:
        self.task = task
        self.examples = examples
        self.team = team
        self.max_steps = steps
        self.lifetime = lifetime
        self.puzzle_ids = puzzle_ids
        self.explore = explore
        self.generator = np.random.default_rng(seed)
        self.order = np.zeros(0, dtype=np.int64)
        """rows of this epoch in the order of the deal"""
        self.dealt = 0
        """how many of them are dealt"""
        self.reserve = torch.from_numpy(examples.targets[self._next_rows(reserve)])
        """[reserve, length] targets that wait for a rollout near them, where rollouts exchange theirs"""

    def _next_rows(self, count: int) -> Tokens:
        """The next rows [count] of the deal; a new epoch begins where one ends."""
        taken = [self.order[self.dealt : self.dealt + count]]
        self.dealt += len(taken[0])
        while (missing := count - sum(map(len, taken))) > 0:
            self.order = self.generator.permutation(len(self.examples))
            taken.append(self.order[:missing])
            self.dealt = len(taken[-1])
        return np.concatenate(taken)

    def start(self, model: Carrier, device: torch.device) -> Slots:
        """Fill every slot; ages are random so that every optimiser step sees all supervision steps."""
        count = len(self.team.own)
        state = model.initial_state(count)
        empty = torch.zeros(count, model.length, dtype=torch.long, device=device)
        zeros = torch.zeros(count, dtype=torch.long, device=device)
        # z_0 until a first state is drawn: a slot that starts at an age may not draw one before its trajectory ends.
        memory = state.h.clone()
        ids = zeros.clone() if self.puzzle_ids else None
        slots = Slots(zeros, empty, empty.clone(), state, zeros.clone(), zeros.clone(), zeros.clone(), memory, ids)
        self.refill(slots, torch.ones(count, dtype=torch.bool, device=device), model)
        ages = torch.from_numpy(self.generator.random(self.team.slots)[self.team.own]).to(device)
        slots.steps = (ages * slots.lifetime).long()
        return slots

    def refill(self, slots: Slots, finished: Tensor, model: Carrier) -> None:
        """Put a fresh example and z_0 into every slot where `finished` [own slots] is true."""
        everyone = self.team.gather(finished).cpu().numpy()
        count = int(everyone.sum())
        if count == 0:
            return
        rows = self._next_rows(count)
        inputs, targets = self.task.augment(self.examples.inputs[rows], self.examples.targets[rows], self.generator)
        minimum, lifetime = self._minimum_steps(count), self._lifetimes(count)
        mine = (np.cumsum(everyone) - 1)[self.team.own][everyone[self.team.own]]  # which of the fresh ones are its own
        device = finished.device
        slots.index[finished] = torch.from_numpy(rows[mine]).to(device)
        slots.inputs[finished] = torch.from_numpy(inputs[mine]).to(device)
        slots.targets[finished] = torch.from_numpy(targets[mine]).to(device)
        if slots.puzzle_ids is not None and self.examples.puzzle_ids is not None:
            slots.puzzle_ids[finished] = torch.from_numpy(self.examples.puzzle_ids[rows[mine]]).to(device)
        slots.steps[finished] = 0
        slots.min_steps[finished] = torch.from_numpy(minimum[mine]).to(device)
        slots.lifetime[finished] = torch.from_numpy(lifetime[mine]).to(device)
        slots.state = State.where(finished, model.initial_state(len(finished)), slots.state)

    def retarget(self, slots: Slots, outputs: Tensor) -> None:
        """Give the first slots the solution of their input that is nearest to their own outputs [rows, length]."""
        chosen = self._nearest
        if self.task.repairs:
            chosen = self._repaired
        elif self.task.exchanges:
            chosen = self._exchanged
        slots.targets[: len(outputs)] = chosen(slots, outputs).to(slots.targets.device)

    def _repaired(self, slots: Slots, outputs: Tensor) -> Tensor:
        seeds = self.generator.integers(2**32, size=self.team.slots)[self.team.own][: len(outputs)]
        inputs = slots.inputs[: len(outputs)]
        return torch.from_numpy(self.task.repair(inputs.cpu().numpy(), outputs.cpu().numpy(), seeds))

    def _exchanged(self, slots: Slots, outputs: Tensor) -> Tensor:
        """[rows, length] the slots' own targets and the reserve, dealt anew as near to the outputs as they can be.

        Every target stays with one slot, or waits until one comes near: the nearest of all training targets would
        favour the plain ones. So what the model draws too rarely piles up in the reserve until it is the nearest.
        """
        rest = torch.zeros_like(slots.targets[len(outputs) :])  # of slots that do not roll out
        drawn = self.team.gather(torch.cat([outputs, rest])).cpu()[: self.team.prior]
        targets = torch.cat([self.team.gather(slots.targets).cpu()[: self.team.prior], self.reserve])
        _, order = linear_sum_assignment(torch.cdist(drawn.float(), targets.float()).square().numpy())
        self.reserve = targets[np.setdiff1d(np.arange(len(targets)), order)]
        return targets[torch.from_numpy(order)[torch.from_numpy(self.team.own[: len(outputs)])]]

    def _nearest(self, slots: Slots, outputs: Tensor) -> Tensor:
        """[rows, length] the nearest of the training targets that share the slot's input."""
        groups, targets = self.examples.groups, self.examples.targets
        # The device is read and written once each, whatever the number of slots.
        rows, answers = slots.index[: len(outputs)].cpu().numpy(), outputs.cpu().numpy()
        first, after = (np.searchsorted(groups, groups[rows], side) for side in ("left", "right"))
        chosen = slots.targets[: len(outputs)].cpu()
        chance = self.generator.random(self.team.slots)[self.team.own]  # decides between equally near ones
        for slot in np.flatnonzero(after - first > 1):  # others have their only solution already, perhaps augmented
            solutions = targets[first[slot] : after[slot]]
            agreement = (solutions == answers[slot]).sum(axis=1)
            nearest = np.flatnonzero(agreement == agreement.max())
            chosen[slot] = torch.from_numpy(solutions[nearest[int(chance[slot] * len(nearest))]])
        return chosen

    def _lifetimes(self, count: int) -> Tokens:
        """[count] supervision steps that fresh examples stay: always N_sup, or log-uniform in a range."""
        if self.lifetime is None:
            return np.full(count, self.max_steps)
        low, high = np.log(self.lifetime)
        return np.exp(self.generator.uniform(low, high, count)).round().astype(np.int64)

    def _minimum_steps(self, count: int) -> np.ndarray:
        """With probability `explore` a random minimum in 2..N_sup, else 0."""
        explored = self.generator.random(count) < self.explore
        low = min(2, self.max_steps)
        return np.where(explored, self.generator.integers(low, self.max_steps + 1, count), 0)
