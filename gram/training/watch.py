"""Warnings about problems that a falling loss hides, early enough to stop the run."""

import math

ENOUGH = 0.5
"""Posterior accuracy from which a gap is meaningful."""
GAP = 0.2
"""Rollouts are far behind if their accuracy is below this fraction of the posterior's."""
PATIENCE = 10
"""Consecutive lines of the log before the warning."""


class LeakWatch:
    """Compares the accuracy of the posterior, which sees the answer, with that of the prior, which is used.

    If only the posterior is correct, it transmits the answer through the noise, and the loss falls although nothing is
    learned. The metrics are those of the training log.
    """

    def __init__(self) -> None:
        self.behind = 0
        self.best = 0.0
        self.warned = False

    def notice(self, means: dict[str, float]) -> str | None:
        """Process one line of the log; return the warning, once, when it is due."""
        posterior, rollout = means.get("posterior_accuracy", 0.0), means.get("rollout_accuracy", math.nan)
        if rollout != rollout or not any(name.startswith("kl_") for name in means):  # NaN, or a model without guidance
            return None
        risen = rollout > self.best + 0.01
        self.best = max(self.best, rollout)
        far = posterior >= ENOUGH and rollout < GAP * posterior and not risen
        self.behind = self.behind + 1 if far else 0
        if self.behind < PATIENCE or self.warned:
            return None
        self.warned = True
        return (
            f"Warning: the accuracy is {posterior:.0%} for the posterior and {rollout:.0%} for prior rollouts, and it "
            "does not rise: the posterior leaks the answer. Raise objective.beta (with objective.kl_scope last it "
            "leaks below about 3 per labelled token; the paper's is about 4.5), or set objective.kl_scope to all."
        )


SOLVED = 0.3
"""Training accuracy from which a gap to validation is meaningful."""
KEPT = 0.6
"""Validation is far behind if its accuracy is below this fraction of the training accuracy."""


class MemorisationWatch:
    """Compares the active training examples with inputs that were never trained on.

    A slot presents its example in consecutive updates, and the weights may memorise the active examples instead of the
    rules. Training accuracy is then far above validation accuracy, although the loss looks good.
    """

    def __init__(self) -> None:
        self.recent: list[float] = []
        """rollout accuracy of the log's lines since the last validation"""
        self.behind = 0
        self.warned = False

    def notice(self, metrics: dict[str, float]) -> str | None:
        """Process one line of the log; return the warning, once, after two validations that are far behind."""
        if (rollout := metrics.get("rollout_accuracy", math.nan)) == rollout:
            self.recent.append(rollout)
        if (validation := metrics.get("validation_accuracy_all_samples")) is None or not self.recent:
            return None
        training, self.recent = sum(self.recent) / len(self.recent), []
        far = training >= SOLVED and validation < KEPT * training
        self.behind = self.behind + 1 if far else 0
        if self.behind < 2 or self.warned:
            return None
        self.warned = True
        return (
            f"Warning: {training:.0%} of the training examples are solved, and {validation:.0%} of the validation "
            "inputs: the model memorises the training examples. Raise train.pool, so that an example is not used in "
            "consecutive updates, or train on more data."
        )
