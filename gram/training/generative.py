"""A generative model as the training loop takes it: every step has fresh examples, and nothing is carried."""

import torch
from torch import nn

from gram.models.baselines.model import Generative
from gram.training.slots import Slots
from gram.training.update import Update


class GenerativeObjective(nn.Module):
    """A generative model with its loss, as one module (so that one forward pass is one distributed step)."""

    steps_per_example = 1

    def __init__(self, model: Generative) -> None:
        super().__init__()
        self.model = model

    def prior_rows(self, slots: int) -> int:
        """No slot rolls out."""
        return 0

    def forward(self, slots: Slots, beta: float, generator: torch.Generator) -> Update:
        """The loss of all slots; all of them are done with it."""
        loss, metrics = self.model.law.loss(slots.inputs, slots.targets, generator)
        done = torch.ones_like(slots.steps, dtype=torch.bool)
        return Update(loss, slots.state, done, slots.targets[:0], {**metrics, "loss": loss})
