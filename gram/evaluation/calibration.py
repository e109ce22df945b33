"""The calibration of the halt and value (LPRM) heads on prior rollouts, against the verdicts of the checker."""

from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.calibration import calibration_curve
from sklearn.metrics import brier_score_loss, roc_auc_score

from gram.errors import GramError
from gram.inference.judge import judge
from gram.inference.sample import Trajectories
from gram.tasks.base import Task, Tokens

BINS = 10


def calibration(task: Task, inputs: Tokens, found: Trajectories) -> dict[str, Any]:
    """Return the calibration curve, AUC and Brier score of both heads, over all steps of all trajectories.

    The trajectories must have kept their steps. The halt head predicts whether the current output is valid, and the
    value head whether the last output of the trajectory will be.
    """
    if not task.has_rules:
        raise GramError(f"Task {task.name} has no checker, so its answers cannot be verified.")
    outputs, values, confidence = found.history
    # One puzzle at a time: a copy of every output might not fit into memory.
    valid = np.stack([judge(task, given, some).valid for given, some in zip(inputs, outputs, strict=True)])
    at_the_end = np.broadcast_to(valid[..., -1:], valid.shape)
    return {
        "halt": {"of": "the output now is valid", **_head(confidence, valid)},
        "value": {"of": "the last output will be valid", **_head(values, at_the_end)},
    }


def _head(predicted: NDArray[np.float32], true: NDArray[np.bool_]) -> dict[str, Any]:
    """Return the scores of one head, and its AUC after each step; it is None if all outputs are valid, or none is."""
    flat, truth = predicted.reshape(-1), true.reshape(-1)
    share, mean = calibration_curve(truth, flat, n_bins=BINS, strategy="uniform")
    by_step = [_auc(predicted[..., step].reshape(-1), true[..., step].reshape(-1)) for step in range(true.shape[-1])]
    return {
        "auc": _auc(flat, truth),
        "auc_by_step": by_step,
        "brier": float(brier_score_loss(truth, flat)),
        "base_rate": float(truth.mean()),
        "curve": [{"predicted": float(m), "true": float(s)} for m, s in zip(mean, share, strict=True)],
        "samples": len(flat),
    }


def _auc(predicted: NDArray[np.float32], true: NDArray[np.bool_]) -> float | None:
    return None if true.all() or not true.any() else float(roc_auc_score(true, predicted))
