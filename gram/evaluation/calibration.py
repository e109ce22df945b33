"""Can the heads be trusted? Halt and value (LPRM) on prior rollouts, against what the checker says."""

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
    """Calibration curve, AUC and Brier score of both heads over all steps of all trajectories; steps must be kept.

    The halt head says whether decoding now is right; the value head whether the trajectory's last output will be.
    """
    if found.step_values is None or found.step_confidence is None:
        raise GramError("Calibration needs what the heads said at every step: sample with keep_steps.")
    valid = judge(task, inputs, found).valid  # [puzzles, width, depth]
    at_the_end = np.broadcast_to(valid[..., -1:], valid.shape)
    return {
        "halt": {"of": "the output now is valid", **_head(found.step_confidence, valid)},
        "value": {"of": "the last output will be valid", **_head(found.step_values, at_the_end)},
    }


def _head(said: NDArray[np.float32], true: NDArray[np.bool_]) -> dict[str, Any]:
    """One head over everything, and its AUC after each step; AUC is None where all outputs are right, or none."""
    flat, truth = said.reshape(-1), true.reshape(-1)
    share, mean = calibration_curve(truth, flat, n_bins=BINS, strategy="uniform")
    by_step = [_auc(said[..., step].reshape(-1), true[..., step].reshape(-1)) for step in range(said.shape[-1])]
    return {
        "auc": _auc(flat, truth),
        "auc_by_step": by_step,
        "brier": float(brier_score_loss(truth, flat)),
        "base_rate": float(truth.mean()),
        "curve": [{"said": float(m), "true": float(s)} for m, s in zip(mean, share, strict=True)],
        "samples": len(flat),
    }


def _auc(said: NDArray[np.float32], true: NDArray[np.bool_]) -> float | None:
    return None if true.all() or not true.any() else float(roc_auc_score(true, said))
