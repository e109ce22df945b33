"""The accuracy of every selection rule on the same trajectories, at every depth and width."""

from itertools import product

import numpy as np

from gram.evaluation.metrics import list_solutions, measure
from gram.inference.sample import Trajectories
from gram.tasks.base import Task, Tokens


def study(
    task: Task, inputs: Tokens, found: Trajectories, depths: list[int], widths: list[int]
) -> list[dict[str, float | int | str]]:
    """Return one record per depth x width: the accuracy of every rule, and the coverage."""
    solutions = [list_solutions(task, row) for row in inputs]
    records: list[dict[str, float | int | str]] = []
    for depth, width in product(depths, widths):
        here = measure(task, inputs, found.at_depth(depth).select(np.s_[:, :width]), solutions=solutions)
        accuracy: dict[str, float] = {rule: float(valid.mean()) for rule, valid in here.selected.items()}
        records.append({"depth": depth, "width": width, "coverage": float(here.coverage.mean()), **accuracy})
    return records
