"""The accuracy of every selection rule on the same trajectories, at every depth and width."""

from dataclasses import dataclass
from itertools import product

import numpy as np
from numpy.typing import NDArray

from gram.errors import GramError
from gram.evaluation.metrics import coverage_of, list_solutions
from gram.inference.sample import Trajectories
from gram.inference.select import RULES, Rule, selected_are_valid
from gram.tasks.base import Task, Tokens


@dataclass(frozen=True)
class Judged:
    """Canonical outputs and verdicts; the first axes are puzzle, trajectory, and depth where every step was kept."""

    outputs: Tokens
    values: NDArray[np.float32]
    confidence: NDArray[np.float32]
    valid: NDArray[np.bool_]

    def at(self, depth: int, width: int) -> "Judged":
        """Return the first `width` trajectories after `depth` supervision steps: [puzzles, width, ...]."""
        place = np.s_[:, :width, depth - 1]
        return Judged(self.outputs[place], self.values[place], self.confidence[place], self.valid[place])

    def selected(self, rule: Rule) -> NDArray[np.bool_]:
        """Return whether the answer that a rule selects is valid: [puzzles]."""
        return selected_are_valid(self.outputs, self.values, self.confidence, self.valid, rule)


def judge(task: Task, inputs: Tokens, found: Trajectories) -> Judged:
    """Verify every output, and those of every step if steps were kept."""
    if not task.has_rules:
        raise GramError(f"Task {task.name} has no checker, so its answers cannot be verified.")
    if found.step_outputs is None or found.step_values is None or found.step_confidence is None:
        outputs, values, confidence = found.outputs, found.values, found.confidence
    else:
        outputs, values, confidence = found.step_outputs, found.step_values, found.step_confidence
    canonical, valid = np.empty_like(outputs), np.empty(outputs.shape[:-1], dtype=np.bool_)
    for puzzle, some in enumerate(outputs):  # one by one: a copy of everything might not fit
        rows = task.canonical(some.reshape(-1, some.shape[-1]))
        canonical[puzzle] = rows.reshape(some.shape)
        given = np.broadcast_to(inputs[puzzle], rows.shape)
        valid[puzzle] = task.verify(given, rows).valid.reshape(some.shape[:-1])
    return Judged(canonical, values, confidence, valid)


def study(
    task: Task, inputs: Tokens, found: Trajectories, depths: list[int], widths: list[int]
) -> list[dict[str, float | int | str]]:
    """Return one record per depth x width: the accuracy of every rule, and the coverage."""
    judged = judge(task, inputs, found)
    solutions = [list_solutions(task, row) for row in inputs]
    records: list[dict[str, float | int | str]] = []
    for depth, width in product(depths, widths):
        here = judged.at(depth, width)
        covered = [coverage_of(some, here.outputs[i][here.valid[i]]) for i, some in enumerate(solutions)]
        accuracy: dict[str, float] = {rule: float(here.selected(rule).mean()) for rule in RULES}
        records.append({"depth": depth, "width": width, "coverage": float(np.mean(covered)), **accuracy})
    return records
