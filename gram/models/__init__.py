"""Every model: the contract, the recursive reasoner with its parts and losses, and the baselines.

A model depends on no task and on no training loop.
"""

from gram.models.base import Model, Trained
from gram.models.carry import Carry, State
from gram.models.reasoner import Reasoner
from gram.models.registry import build_model

__all__ = ["Carry", "Model", "Reasoner", "State", "Trained", "build_model"]
