"""The pool: many more active examples than one update uses.

A slot presents its example in every supervision step. If each update uses every slot, the weights see an example in
N_sup consecutive updates and memorise the few active ones. A pool of several layers of slots puts other examples
between two visits: place i of the batch is filled by one of the layers of column i, and each layer is used once per
round.
"""

import numpy as np
import torch
from torch import Tensor

from gram.models.carry import Carry
from gram.training.distributed import SlotSharding


class Pool:
    """Layers of slots, of which an update uses one per column, in shuffled order.

    A column stays with its process and with its role (rolling out from the prior or not), so that neither sharding nor
    roles depend on the number of layers.
    """

    def __init__(self, layer: Carry, depth: int, sharding: SlotSharding, seed: int) -> None:
        self.tensors = {name: torch.stack([part] * depth, dim=1) for name, part in layer.tensors().items()}
        """[own slots, layers, ...] by name"""
        self.depth = depth
        self.sharding = sharding
        self.generator = np.random.default_rng(seed)
        self.turn = 0
        """batches taken and put back since the run began"""
        self.order = self._shuffled()
        """[layers, slots] which layer of each column the batches of this round take"""

    def take(self) -> Carry:
        """Return a copy of the next batch."""
        column, layer = self._places()
        return Carry.of({name: part[column, layer] for name, part in self.tensors.items()})

    def put(self, carry: Carry) -> None:
        """Store the batch, and advance to the next one."""
        column, layer = self._places()
        for name, part in carry.tensors().items():
            self.tensors[name][column, layer] = part
        self.turn += 1
        if self.turn % self.depth == 0:
            self.order = self._shuffled()

    def _places(self) -> tuple[Tensor, Tensor]:
        layer = torch.from_numpy(self.order[self.turn % self.depth][self.sharding.own])
        return torch.arange(len(layer)), layer

    def _shuffled(self) -> np.ndarray:
        layers = np.repeat(np.arange(self.depth)[:, None], self.sharding.slots, axis=1)
        return self.generator.permuted(layers, axis=0)
