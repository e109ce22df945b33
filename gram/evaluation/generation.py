"""Metrics of unconditional generation: how many samples are valid, distinct and new."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from gram.evaluation.bootstrap import mean_interval
from gram.inference.judge import judge
from gram.tasks.base import Task

JUDGED_AT_ONCE = 4096


def score_samples(task: Task, samples: NDArray[Any]) -> dict[str, Any]:
    """Return the metrics of samples [count, length] of the blank input, verified a few thousand at a time.

    Uniqueness is the fraction of the valid samples that are distinct. Novelty is the fraction of the distinct ones that
    are no training target. Both are 0 if nothing is valid. For a task without a checker there is no validity, and both
    are fractions of all samples. Without the training data on this machine, there is no novelty.
    """
    blank = task.parse("")
    distinct: set[bytes] = set()
    valid, conflicts = np.zeros(len(samples)), np.zeros(len(samples))
    for start in range(0, len(samples), JUDGED_AT_ONCE):
        place = slice(start, start + JUDGED_AT_ONCE)
        some = judge(task, blank, samples[place].astype(np.int64))
        valid[place], conflicts[place] = some.valid if task.has_rules else 1, some.conflicts
        distinct.update(row.tobytes() for row in some.outputs[valid[place] > 0])
    judged = {"validity": valid, "conflicts": conflicts} if task.has_rules else {}
    return {
        **{name: float(values.mean()) for name, values in judged.items()},
        "intervals": {name: list(mean_interval(values)) for name, values in judged.items()},
        "uniqueness": len(distinct) / max(int(valid.sum()), 1),
        **({"novelty": _novelty(task, distinct)} if task.data_is_here else {}),
        "samples": len(samples),
    }


def _novelty(task: Task, distinct: set[bytes]) -> float:
    known = {row.tobytes() for row in np.ascontiguousarray(task.canonical(task.split("train").targets))}
    return len(distinct - known) / max(len(distinct), 1)
