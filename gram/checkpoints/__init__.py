"""Trained models as folders, and published HRM and TRM checkpoints."""

from gram.checkpoints.folder import load_model, save_model

__all__ = ["load_model", "save_model"]
