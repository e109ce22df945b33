"""Warnings about problems that a falling loss hides, early enough to stop the run."""

import math
from collections.abc import Sequence

ENOUGH, SOLVED = 0.5, 0.3
"""Posterior accuracy, and training accuracy, from which a gap is meaningful."""
GAP, KEPT = 0.2, 0.6
"""Prior rollouts, and validation, are far behind if their accuracy is below this fraction of that."""
PATIENCE, VALIDATIONS = 10, 2
"""Consecutive lines of the log, and validations, that are far behind before the warning."""


class Watch:
    """Counts how often in a row an accuracy is far behind another; its state is part of a run's checkpoint."""

    def __init__(self) -> None:
        self.behind, self.warned = 0, False

    def due(self, far: bool, patience: int) -> bool:
        """Count one comparison; return whether the warning is due, which happens once."""
        self.behind = self.behind + 1 if far else 0
        due = self.behind >= patience and not self.warned
        self.warned |= due
        return due


class LeakWatch(Watch):
    """Compares the accuracy of the posterior, which sees the answer, with that of the prior, which is used.

    If only the posterior is correct, it transmits the answer through the noise, and nothing is learned.
    """

    best = 0.0

    def notice(self, metrics: dict[str, float]) -> str | None:
        """Process one line of the log; return the warning, once, when it is due."""
        posterior, rollout = metrics.get("posterior_accuracy", 0.0), metrics.get("rollout_accuracy", math.nan)
        if math.isnan(rollout) or not any(name.startswith("kl_") for name in metrics):  # or a model without guidance
            return None
        risen, self.best = rollout > self.best + 0.01, max(self.best, rollout)
        if not self.due(posterior >= ENOUGH and rollout < GAP * posterior and not risen, PATIENCE):
            return None
        return (
            f"Warning: the accuracy is {posterior:.0%} for the posterior and {rollout:.0%} for prior rollouts, and it "
            "does not rise: the posterior leaks the answer. Raise objective.beta (with objective.kl_scope last it "
            "leaks below about 3 per labelled token; the paper's is about 4.5), or set objective.kl_scope to all."
        )


class MemorisationWatch(Watch):
    """Compares the active training examples with inputs that were never trained on.

    A slot presents its example in consecutive updates, and the weights may memorise it instead of the rules.
    """

    recent: Sequence[float] = ()
    """rollout accuracy of the log's lines since the last validation"""

    def notice(self, metrics: dict[str, float]) -> str | None:
        """Process one line of the log; return the warning, once, after two validations that are far behind."""
        if not math.isnan(rollout := metrics.get("rollout_accuracy", math.nan)):
            self.recent = [*self.recent, rollout]
        if (validation := metrics.get("validation_accuracy_all_samples")) is None or not self.recent:
            return None
        training, self.recent = sum(self.recent) / len(self.recent), ()
        if not self.due(training >= SOLVED and validation < KEPT * training, VALIDATIONS):
            return None
        return (
            f"Warning: {training:.0%} of the training examples are solved, and {validation:.0%} of the validation "
            "inputs: the model memorises the training examples. Raise train.pool, so that an example is not used in "
            "consecutive updates, or train on more data."
        )
