"""Watching a run: what goes wrong behind a falling loss is named while the run is young enough to be stopped."""

import math

ENOUGH = 0.5
"""Posterior accuracy from which on a gap means something."""
GAP = 0.2
"""Rollouts that are right less than this share of the posterior's time are far behind."""
PATIENCE = 10
"""Lines of the log in a row that must say so."""


class LeakWatch:
    """Compares what the posterior, which sees the answer, and the prior, which is used, achieve.

    If only the posterior is right, it carries the answer through the noise instead of leading the way to it, and the
    loss falls without anything being learned. The figures are those of the training log.
    """

    def __init__(self) -> None:
        self.behind = 0
        self.best = 0.0
        self.warned = False

    def notice(self, means: dict[str, float]) -> str | None:
        """Take in one line of the log; the warning, once, when it is due."""
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
            f"Warning: the posterior is right {posterior:.0%} of the time, rollouts from the prior {rollout:.0%}, and "
            "that does not rise: the posterior leaks the answer. Raise objective.beta (with objective.kl_scope last it "
            "leaks below about 3 per labelled token; the paper's is about 4.5), or set objective.kl_scope to all."
        )


SOLVED = 0.3
"""Training accuracy from which on a gap to validation means something."""
KEPT = 0.6
"""Validation accuracy below this fraction of it is far behind."""


class MemorisationWatch:
    """Compares the examples under way with inputs that were never trained on.

    A slot shows its example in one update after the other, and the weights may learn the examples under way instead of
    the rules. Training accuracy then runs far ahead of validation accuracy, and the loss looks good.
    """

    def __init__(self) -> None:
        self.recent: list[float] = []
        """rollout accuracy of the log's lines since the last validation"""
        self.behind = 0
        self.warned = False

    def notice(self, figures: dict[str, float]) -> str | None:
        """Take in one line of the log; the warning, once, after two validations in a row that are far behind."""
        if (rollout := figures.get("rollout_accuracy", math.nan)) == rollout:
            self.recent.append(rollout)
        if (validation := figures.get("validation_accuracy_all_samples")) is None or not self.recent:
            return None
        training, self.recent = sum(self.recent) / len(self.recent), []
        far = training >= SOLVED and validation < KEPT * training
        self.behind = self.behind + 1 if far else 0
        if self.behind < 2 or self.warned:
            return None
        self.warned = True
        return (
            f"Warning: {training:.0%} of the training examples are solved, and {validation:.0%} of the validation "
            "inputs: the weights learn the examples by heart. Raise train.pool, so that an example is not shown in "
            "consecutive updates, or train on more of them."
        )
