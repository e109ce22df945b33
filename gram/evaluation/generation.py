"""Scores of what is generated from nothing: how much of it is valid, distinct, and new."""

from typing import Any

import numpy as np

from gram.inference.rollout import Trajectories
from gram.tasks.base import Task, Tokens


def score_samples(task: Task, blank: Tokens, trajectories: Trajectories) -> dict[str, Any]:
    """Figures of all samples of the one blank input [1, length]; the trajectories are [1, samples].

    Uniqueness is the share of distinct ones among the valid samples, novelty the share of those distinct ones that are
    no training target; both are 0 where nothing is valid.
    """
    samples = task.canonical(trajectories.outputs[0])
    verdict = task.verify(np.broadcast_to(blank[0], samples.shape), samples)
    distinct = np.unique(samples[verdict.valid], axis=0)
    known = {row.tobytes() for row in np.ascontiguousarray(task.canonical(task.split("train").targets))}
    new = sum(row.tobytes() not in known for row in distinct)
    valid = int(verdict.valid.sum())
    return {
        "validity": valid / len(samples),
        "uniqueness": len(distinct) / max(valid, 1),
        "novelty": new / max(len(distinct), 1),
        "conflicts": float(verdict.conflicts.mean()),
        "samples": len(samples),
        "mean_steps": float(trajectories.steps.mean()),
    }
