"""Slots: the batch that carries its state across optimiser steps.

Each optimiser step is one supervision step for every slot. A slot whose example is finished takes a fresh example and
the initial state; the others go on from where they were.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from gram.nn.reasoner import Reasoner, State
from gram.tasks.base import Examples, Task


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
    memory: Tensor
    """[slots, tokens, dim] one state of the trajectory, uniform over its steps: what the value head learns from"""
    puzzle_ids: Tensor | None = None
    """[slots] which puzzle's own embedding stands in front; for models that have such embeddings"""


class SlotFeeder:
    """Fills slots from a training split in a seeded order, epoch after epoch."""

    def __init__(self, task: Task, examples: Examples, *, slots: int, steps: int, explore: float, seed: int) -> None:
        self.task = task
        self.examples = examples
        self.count = slots
        self.max_steps = steps
        self.explore = explore
        self.generator = np.random.default_rng(seed)
        self._order = self._rows()

    def _rows(self) -> Iterator[int]:
        while True:
            yield from self.generator.permutation(len(self.examples)).tolist()

    def start(self, model: Reasoner, device: torch.device) -> Slots:
        """Fill every slot; ages are random so that every optimiser step sees all supervision steps."""
        state = model.initial_state(self.count)
        empty = torch.zeros(self.count, model.length, dtype=torch.long, device=device)
        zeros = torch.zeros(self.count, dtype=torch.long, device=device)
        # z_0 until a first state is drawn: a slot that starts at an age may not draw one before its trajectory ends.
        memory = state.h.clone()
        ids = zeros.clone() if model.config.puzzle_tokens else None
        slots = Slots(zeros, empty, empty.clone(), state, zeros.clone(), zeros.clone(), memory, ids)
        self.refill(slots, torch.ones(self.count, dtype=torch.bool, device=device), model)
        ages = self.generator.integers(0, self.max_steps, self.count)
        slots.steps = torch.from_numpy(ages).to(device)
        return slots

    def refill(self, slots: Slots, finished: Tensor, model: Reasoner) -> None:
        """Put a fresh example and z_0 into every slot where `finished` [slots] is true."""
        count = int(finished.sum())
        if count == 0:
            return
        rows = np.fromiter((next(self._order) for _ in range(count)), dtype=np.int64, count=count)
        inputs, targets = self.task.augment(self.examples.inputs[rows], self.examples.targets[rows], self.generator)
        device = finished.device
        slots.index[finished] = torch.from_numpy(rows).to(device)
        slots.inputs[finished] = torch.from_numpy(inputs).to(device)
        slots.targets[finished] = torch.from_numpy(targets).to(device)
        if slots.puzzle_ids is not None and self.examples.puzzle_ids is not None:
            slots.puzzle_ids[finished] = torch.from_numpy(self.examples.puzzle_ids[rows]).to(device)
        slots.steps[finished] = 0
        slots.min_steps[finished] = torch.from_numpy(self._minimum_steps(count)).to(device)
        slots.state = State.where(finished, model.initial_state(len(finished)), slots.state)

    def retarget(self, slots: Slots, outputs: Tensor) -> None:
        """Give the first slots the solution of their input that is nearest to their own outputs [rows, length]."""
        groups, targets = self.examples.groups, self.examples.targets
        # The device is read and written once each, whatever the number of slots.
        rows, answers = slots.index[: len(outputs)].cpu().numpy(), outputs.cpu().numpy()
        first, after = (np.searchsorted(groups, groups[rows], side) for side in ("left", "right"))
        chosen = slots.targets[: len(outputs)].cpu()
        for slot in np.flatnonzero(after - first > 1):  # others have their only solution already, perhaps augmented
            solutions = targets[first[slot] : after[slot]]
            agreement = (solutions == answers[slot]).sum(axis=1)
            # Less than one token's worth of chance decides between equally near ones.
            nearest = np.argmax(agreement + self.generator.random(len(agreement)))
            chosen[slot] = torch.from_numpy(solutions[nearest])
        slots.targets[: len(outputs)] = chosen.to(slots.targets.device)

    def _minimum_steps(self, count: int) -> np.ndarray:
        """With probability `explore` a random minimum in 2..N_sup, else 0."""
        explored = self.generator.random(count) < self.explore
        low = min(2, self.max_steps)
        return np.where(explored, self.generator.integers(low, self.max_steps + 1, count), 0)
