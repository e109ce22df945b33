"""The answers to one puzzle: what was sampled, what was verified, and which answer was selected."""

from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from gram.config import SampleOptions, settings_text
from gram.inference.estimate import Estimate, estimate
from gram.inference.judge import judge
from gram.inference.sample import Trajectories
from gram.inference.select import MEANING, Rule, select
from gram.tasks.base import Task, Tokens

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@dataclass(frozen=True)
class Result:
    """The answers to one puzzle."""

    task: Task
    given: Tokens
    """[length] the puzzle"""
    options: SampleOptions
    trajectories: Trajectories
    """one puzzle, all trajectories"""
    valid: np.ndarray[Any, np.dtype[np.bool_]]
    """[width] the task's checker accepts this trajectory's output"""
    distinct: Tokens
    """[solutions, length] the different verified solutions, most frequent first"""
    counts: np.ndarray[Any, np.dtype[np.int64]]
    """[solutions] how many trajectories found each"""
    settings: dict[str, Any]
    """those of the options that the model supports"""
    best: Tokens
    """[length] the answer"""
    verified: bool
    """the checker accepts `best`, whoever chose it; if not, it is only the model's best guess"""
    chosen_by: str
    """how `best` was chosen"""
    estimate: Estimate | None = None
    """of the number of all solutions, where the task can verify them"""
    stopped: str = ""
    """why an anytime search ended"""

    def __str__(self) -> str:
        unverified = "NOT a solution (best guess)" if self.task.has_rules else "answer, not checked"
        status = "verified solution" if self.verified else unverified
        return f"{status}, chosen by {self.chosen_by}:\n{self.task.render(self.best, self.given)}"

    def __repr__(self) -> str:
        status = "verified" if self.verified else "not verified"
        found = f"{len(self.distinct)} distinct solutions in {len(self.valid)} trajectories"
        return f"Result({self.task.name}: {status}, {found}, {settings_text(self.settings)})"

    def _repr_html_(self) -> str:
        """Show the answer, and what it is worth, in a notebook."""
        status, _, board = str(self).partition("\n")
        return f"<div><b>{escape(status)}</b><pre>{escape(board)}</pre><small>{escape(repr(self))}</small></div>"

    def plot(self, path: str | Path | None = None) -> "Figure":
        """Plot the boards over the supervision steps (solve with `keep_steps=True`), or the distinct solutions.

        The figure is written to `path`, if given, and returned; a notebook shows it.
        """
        from gram.plots.boards import result_figure  # late: matplotlib takes a second to import

        return result_figure(self, None if path is None else Path(path))


def judge_puzzle(
    task: Task,
    given: Tokens,
    options: SampleOptions,
    trajectories: Trajectories,
    rule: Rule,
    *,
    settings: dict[str, Any],
) -> Result:
    """Verify the trajectories of one puzzle, given [length], and select its answer by a rule."""
    judged = judge(task, given, trajectories.outputs[0])
    outputs, valid = judged.outputs, judged.valid
    solutions, counts = judged.solutions
    best = select(outputs, trajectories.values[0], trajectories.confidence[0], valid, rule)
    found = rule if rule != "verified" or valid.any() else "vote"  # nothing was verified
    return Result(
        task,
        given,
        options,
        trajectories,
        valid,
        solutions,
        counts,
        settings=settings,
        best=outputs[best],
        verified=bool(valid[best]),
        chosen_by=f"{MEANING[found]}, among {len(outputs)} trajectories ({int(valid.sum())} verified)",
        estimate=estimate(counts) if task.has_rules else None,
    )
