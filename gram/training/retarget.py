"""Learning from rollouts: each one is trained towards the solution nearest to its own output."""

from dataclasses import replace

import numpy as np
import torch
from scipy.optimize import linear_sum_assignment
from torch import Tensor

from gram.models.carry import Carry
from gram.training.slots import SlotFeeder


class Retarget:
    """Replaces the targets of prior rollouts after every step."""

    def __init__(self, feeder: SlotFeeder, reserve: int) -> None:
        self.feeder, self.task, self.examples, self.sharding = feeder, feeder.task, feeder.examples, feeder.sharding
        self.reserve = torch.from_numpy(feeder.examples.targets[feeder.next_rows(reserve)])
        """[reserve, length] targets that wait for a rollout near them, where rollouts exchange theirs"""

    def __call__(self, carry: Carry, outputs: Tensor) -> Carry:
        """Replace the targets of the first slots, whose outputs [slots, length] are rollouts."""
        count = self.sharding.rollouts // self.sharding.size
        if not count:
            return carry
        chosen = self._nearest
        if self.task.repairs:
            chosen = self._repaired
        elif self.task.exchanges:
            chosen = self._exchanged
        targets = carry.rows.targets.clone()
        targets[:count] = chosen(carry, outputs[:count]).to(targets.device)
        return replace(carry, rows=replace(carry.rows, targets=targets))

    def _repaired(self, carry: Carry, outputs: Tensor) -> Tensor:
        seeds = self._chance()[: len(outputs)]
        inputs = carry.rows.inputs[: len(outputs)]
        return torch.from_numpy(self.task.repair(inputs.cpu().numpy(), outputs.cpu().numpy(), seeds))

    def _chance(self) -> np.ndarray:
        """[own slots] random 32-bit numbers, the same for a slot whichever process holds it."""
        return self.feeder.generator.integers(2**32, size=self.sharding.slots)[self.sharding.own]

    def _exchanged(self, carry: Carry, outputs: Tensor) -> Tensor:
        """Reassign the slots' own targets and the reserve, as near to the outputs as possible: [rows, length].

        Every target stays with one slot, or waits until one comes near: the nearest of all training targets would
        favour the plain ones. So what the model draws too rarely piles up in the reserve until it is the nearest.
        """
        rest = torch.zeros_like(carry.rows.targets[len(outputs) :])  # of slots that do not roll out
        drawn, targets = (
            self.sharding.gather(part).cpu()[: self.sharding.rollouts]
            for part in (torch.cat([outputs, rest]), carry.rows.targets)
        )
        choice = torch.cat([targets, self.reserve])
        _, order = linear_sum_assignment(torch.cdist(drawn.float(), choice.float()).square().numpy())
        self.reserve = choice[np.setdiff1d(np.arange(len(choice)), order)]
        return choice[order[self.sharding.own[: len(outputs)]]]

    def _nearest(self, carry: Carry, outputs: Tensor) -> Tensor:
        """Choose the nearest of the training targets that share the slot's input: [rows, length]."""
        rows, groups, targets = carry.rows, self.examples.groups, self.examples.targets
        # The device is read and written once each, whatever the number of slots.
        index, answers = rows.index[: len(outputs)].cpu().numpy(), outputs.cpu().numpy()
        first, after = (np.searchsorted(groups, groups[index], side) for side in ("left", "right"))
        chosen = rows.targets[: len(outputs)].cpu().clone()
        chance = self._chance()  # decides between equally near ones
        for slot in np.flatnonzero(after - first > 1):  # others have their only solution already, perhaps augmented
            solutions = targets[first[slot] : after[slot]]
            agreement = (solutions == answers[slot]).sum(axis=1)
            nearest = np.flatnonzero(agreement == agreement.max())
            chosen[slot] = torch.from_numpy(solutions[nearest[chance[slot] % len(nearest)]])
        return chosen
