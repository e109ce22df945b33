"""What one optimiser step leaves behind, whatever the model."""

from dataclasses import dataclass

from torch import Tensor

from gram.models.reasoner import State


@dataclass
class Update:
    """The result of one supervision step for every slot."""

    loss: Tensor
    """of the last piece of the slots; the gradients of the pieces before it have been computed"""
    state: State
    finished: Tensor
    """[slots] this slot's example is done"""
    rollouts: Tensor
    """[rows, length] what the slots that roll out by themselves now answer: the first ones, or all without guidance"""
    metrics: dict[str, Tensor]
    """Scalars for the log; NaN where nothing was measured in this step"""
