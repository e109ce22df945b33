"""Metrics of a model on a split of its task."""
