"""Scores of what is generated from nothing: how much of it is valid, distinct, and new."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from gram.evaluation.bootstrap import mean_interval
from gram.tasks.base import Task

JUDGED_AT_ONCE = 4096


def score_samples(task: Task, samples: NDArray[Any]) -> dict[str, Any]:
    """Figures of samples [count, length] of the task's one blank input, judged a few thousand at a time.

    Uniqueness is the share of distinct ones among the valid samples, novelty the share of those distinct ones that are
    no training target; both are 0 where nothing is valid. A task without a checker has no validity: there, both are
    shares of all samples.
    """
    blank = task.parse("")
    distinct: set[bytes] = set()
    valid, conflicts = np.zeros(len(samples)), np.zeros(len(samples))
    for start in range(0, len(samples), JUDGED_AT_ONCE):
        some = task.canonical(samples[start : start + JUDGED_AT_ONCE].astype(np.int64))
        verdict = task.verify(np.broadcast_to(blank, some.shape), some)
        counted = verdict.valid if task.has_rules else np.ones(len(some), dtype=bool)
        distinct.update(row.tobytes() for row in some[counted])
        valid[start : start + len(some)], conflicts[start : start + len(some)] = counted, verdict.conflicts
    known = {row.tobytes() for row in np.ascontiguousarray(task.canonical(task.split("train").targets))}
    judged = {"validity": valid, "conflicts": conflicts} if task.has_rules else {}
    return {
        **{name: float(values.mean()) for name, values in judged.items()},
        "intervals": {name: list(mean_interval(values)) for name, values in judged.items()},
        "uniqueness": len(distinct) / max(int(valid.sum()), 1),
        "novelty": len(distinct - known) / max(len(distinct), 1),
        "samples": len(samples),
    }
