"""Depth x width sampling: trajectories, their selection, and search."""
