"""The training loop, for every model."""

from gram.training.loop import resume, train

__all__ = ["resume", "train"]
