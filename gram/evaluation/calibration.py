"""The calibration of the halt and value (LPRM) heads on prior rollouts, against the verdicts of the checker."""

from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.calibration import calibration_curve
from sklearn.metrics import brier_score_loss, roc_auc_score

from gram.errors import GramError
from gram.evaluation.selection import judge
from gram.inference.sample import Trajectories
from gram.tasks.base import Task, Tokens

BINS = 10


def calibration(task: Task, inputs: Tokens, found: Trajectories) -> dict[str, Any]:
    """Return the calibration curve, AUC and Brier score of both heads, over all steps of all trajectories.

    The trajectories must have kept their steps. The halt head predicts whether the current output is valid, and the
    value head whether the last output of the trajectory will be.
    """
    if found.step_values is None or found.step_confidence is None:
        raise GramError("Calibration needs the predictions of every step: sample with keep_steps.")
    valid = judge(task, inputs, found).valid  # [puzzles, width, depth]
    at_the_end = np.broadcast_to(valid[..., -1:], valid.shape)
    return {
        "halt": {"of": "the output now is valid", **_head(found.step_confidence, valid)},
        "value": {"of": "the last output will be valid", **_head(found.step_values, at_the_end)},
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
