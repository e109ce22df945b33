"""The terms of L_GRAM, each as a function of its inputs; `gram.models.objective` puts them together.

Reconstruction and KL are divided by the same count of labelled tokens, so beta = 1 is the ELBO per labelled token,
unless `objective.kl_reduction` sums the KL instead.
"""

from functools import partial

import torch
import torch.nn.functional as F
from torch import Tensor

from gram.models.coders import Readout
from gram.models.guidance import Gaussian, kl_divergence
from gram.tasks.base import IGNORE


def log_stablemax(logits: Tensor) -> Tensor:
    """Return log(s(x) / sum s(x)) with s(x) = x + 1 above 0 and 1 / (1 - x) below; in float64 as published."""
    logits = logits.double()
    s = torch.where(logits < 0, 1 / (1 - logits + 1e-30), logits + 1)
    return torch.log(s / s.sum(dim=-1, keepdim=True))


def token_cross_entropy(logits: Tensor, targets: Tensor, kind: str) -> Tensor:
    """Return the cost [rows, length] of targets by logits [rows, length, vocabulary]; 0 where unlabelled."""
    if kind == "softmax":
        return F.cross_entropy(
            logits.float().flatten(0, 1), targets.flatten(), ignore_index=IGNORE, reduction="none"
        ).view(targets.shape)
    labelled = targets != IGNORE
    chosen = log_stablemax(logits).gather(-1, torch.where(labelled, targets, 0)[..., None])[..., 0]
    return torch.where(labelled, -chosen, 0.0).float()


def labelled_count(targets: Tensor) -> Tensor:
    """Return the number of labelled tokens [rows] of targets [rows, length], at least 1."""
    return (targets != IGNORE).sum(dim=-1).clamp_min(1)


def reconstruction_loss(logits: Tensor, targets: Tensor, kind: str) -> Tensor:
    """Return -log p(y | h) per labelled token: [rows]."""
    return token_cross_entropy(logits, targets, kind).sum(dim=-1) / labelled_count(targets)


def balanced_kl(q: Gaussian, p: Gaussian, balance: float) -> Tensor:
    """Return `balance` KL(stop(q) || p) + (1 - balance) KL(q || stop(p)): [rows, tokens].

    Both terms have the same value, so one KL with scaled gradients is exactly their sum.
    """
    return kl_divergence(q.scale_gradient(1 - balance), p.scale_gradient(balance))


def exactly_right(outputs: Tensor, targets: Tensor) -> Tensor:
    """Return whether every labelled token is correct: [rows]."""
    return ((outputs == targets) | (targets == IGNORE)).all(dim=-1)


def token_accuracy(outputs: Tensor, targets: Tensor) -> Tensor:
    """Return the fraction of labelled tokens that are correct: [rows]."""
    return ((outputs == targets) & (targets != IGNORE)).sum(dim=-1) / labelled_count(targets)


def squared_error(logits: Tensor, targets: Tensor) -> Tensor:
    """Return (p - target)^2 per row, where p is the sigmoid of the logit, because targets lie in [0, 1]."""
    return (logits.sigmoid() - targets).square()


def halt_loss(readout: Readout, right: Tensor, continue_target: Tensor | None, kind: str = "bce") -> Tensor:
    """Return the error of q_halt as a prediction of `right`, plus (Q-learning) that of q_continue: [rows].

    The paper writes a squared error of Q-values; it is taken of their sigmoids, because both targets are probabilities
    and the model halts where sigmoid(q_halt) > 1/2.
    """
    error = squared_error if kind == "squared" else partial(F.binary_cross_entropy_with_logits, reduction="none")
    loss = error(readout.q_halt, right.float())
    return loss if continue_target is None else loss + error(readout.q_continue, continue_target)
