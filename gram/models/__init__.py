"""Every model: the recursive reasoner, its parts and its losses, and the generative baselines.

A model knows no task and no training loop.
"""

from gram.models.build import Model, Trained, build_model
from gram.models.reasoner import Reasoner, State

__all__ = ["Model", "Reasoner", "State", "Trained", "build_model"]
