"""What each rule of choosing makes of the same trajectories, at every depth and width: nothing is sampled twice."""

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
        """What the first `width` trajectories are after `depth` supervision steps: [puzzles, width, ...]."""
        place = np.s_[:, :width, depth - 1]
        return Judged(self.outputs[place], self.values[place], self.confidence[place], self.valid[place])

    def selected(self, rule: Rule) -> NDArray[np.bool_]:
        """[puzzles] whether the answer that a rule chooses is valid."""
        return selected_are_valid(self.outputs, self.values, self.confidence, self.valid, rule)


def judge(task: Task, inputs: Tokens, found: Trajectories) -> Judged:
    """Check every kept output (of every step, if steps were kept) by the task's rules."""
    if not task.has_rules:
        raise GramError(f"Task {task.name} has no checker: its answers cannot be told right from wrong.")
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
    """Accuracy by every rule, and coverage, at each depth x width; one record for each."""
    judged = judge(task, inputs, found)
    solutions = [list_solutions(task, row) for row in inputs]
    records: list[dict[str, float | int | str]] = []
    for depth, width in product(depths, widths):
        here = judged.at(depth, width)
        covered = [coverage_of(some, here.outputs[i][here.valid[i]]) for i, some in enumerate(solutions)]
        accuracy: dict[str, float] = {rule: float(here.selected(rule).mean()) for rule in RULES}
        records.append({"depth": depth, "width": width, "coverage": float(np.mean(covered)), **accuracy})
    return records
