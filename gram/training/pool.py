"""The pool: many more examples under way than one update takes.

A slot shows its example in every supervision step. If each update takes every slot, the weights see an example in N_sup
consecutive updates and learn the few that are under way. A pool of several layers of slots puts other examples between
two visits: place i of the batch is filled by one of the layers of column i, and each layer has its turn once per round.
"""

from collections.abc import Callable
from dataclasses import fields

import numpy as np
import torch
from torch import Tensor

from gram.models.reasoner import State
from gram.training.distributed import Team
from gram.training.slots import Slots


class Pool:
    """Layers of slots, of which an update takes one per column, in shuffled order.

    A column stays with its process and with its kind of slot (rolling out from the prior or not), so that neither
    sharding nor roles depend on the number of layers.
    """

    def __init__(self, layers: list[Slots], team: Team, seed: int) -> None:
        self.tensors = {
            name: torch.stack([slot_tensors(layer)[name] for layer in layers], dim=1)
            for name in slot_tensors(layers[0])
        }
        """[own slots, layers, ...] by name"""
        self.depth = len(layers)
        self.team = team
        self.generator = np.random.default_rng(seed)
        self.turn = 0
        """batches taken and put back since the run began"""
        self.order = self._shuffled()
        """[layers, slots] which layer of each column the batches of this round take"""

    def take(self) -> Slots:
        """The batch whose turn it is, as a copy."""
        column, layer = self._places()
        return slots_of({name: part[column, layer] for name, part in self.tensors.items()})

    def put(self, slots: Slots) -> None:
        """Give the batch back, and pass the turn on to the next one."""
        column, layer = self._places()
        for name, part in slot_tensors(slots).items():
            self.tensors[name][column, layer] = part
        self.turn += 1
        if self.turn % self.depth == 0:
            self.order = self._shuffled()

    def _places(self) -> tuple[Tensor, Tensor]:
        layer = torch.from_numpy(self.order[self.turn % self.depth][self.team.own])
        return torch.arange(len(layer)), layer

    def _shuffled(self) -> np.ndarray:
        layers = np.repeat(np.arange(self.depth)[:, None], self.team.slots, axis=1)
        return self.generator.permuted(layers, axis=0)

    def map(self, change: Callable[[Tensor], Tensor]) -> dict[str, Tensor]:
        """Every tensor of the pool by name, changed."""
        return {name: change(part) for name, part in self.tensors.items()}


def slot_tensors(slots: Slots) -> dict[str, Tensor]:
    """The slots as tensors by name; the state's two levels are `h` and `l`."""
    parts = {field.name: getattr(slots, field.name) for field in fields(slots) if field.name != "state"}
    parts |= {"h": slots.state.h, "l": slots.state.l}
    return {name: part for name, part in parts.items() if part is not None}


def slots_of(parts: dict[str, Tensor]) -> Slots:
    """The inverse of `slot_tensors`."""
    parts = dict(parts)
    state = State(parts.pop("h"), parts.pop("l", None))
    return Slots(state=state, **parts)
