"""Anytime sampling: waves of trajectories until one solution is verified, all are found, or a budget is used up."""

import re
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from gram.config import SampleOptions
from gram.errors import GramError
from gram.inference.estimate import Estimate
from gram.inference.judge import judge
from gram.inference.sample import Trajectories
from gram.models.base import Steps
from gram.models.reasoner import Reasoner
from gram.models.rollout import Batch
from gram.tasks.base import Task, Tokens

FIRST_WAVE = 20
"""Trajectories of the first wave; a search for one solution begins with a single one, which is mostly enough."""
LARGEST_WAVE = 256
FEWEST = 128
"""Verified samples before "all" may stop: a solution with a probability of 3% is then found in 49 cases of 50."""
MOST = 4096
"""Trajectories after which "all" and "first" stop."""


@dataclass(frozen=True)
class Until:
    """A stopping criterion."""

    kind: Literal["first", "all", "seconds", "samples"]
    amount: float = 0.0

    @classmethod
    def parse(cls, until: "str | float | Until") -> "Until":
        """Read `first`, `all`, `10s` or a float (seconds), `500` or an int (samples)."""
        if isinstance(until, Until):
            return until
        if until in ("first", "all"):
            return cls(until)  # type: ignore[arg-type]
        seconds = isinstance(until, float)
        if isinstance(until, str):
            match = re.fullmatch(r"([0-9]*\.?[0-9]+)(s?)", until.strip())
            if match is None or ("." in match[1] and not match[2]):
                raise GramError(
                    f"`until` must be first, all, seconds such as 10s, or a number of samples, not '{until}'."
                )
            until, seconds = float(match[1]), bool(match[2])
        if not 0 < until < float("inf"):
            raise GramError(f"A budget of {until:g} {'seconds' if seconds else 'samples'} is too small for one step.")
        return cls("seconds" if seconds else "samples", float(until))

    def check(self, task: Task) -> None:
        """Raise `GramError` if it takes a checker, and the task has none."""
        if self.kind in ("first", "all") and not task.has_rules:
            raise GramError(f"Task {task.name} has no checker: give seconds or samples instead of '{self.kind}'.")


class Search:
    """The trajectories found for one puzzle so far, and whether to stop; independent of how trajectories are run."""

    def __init__(
        self, task: Task, given: Tokens, options: SampleOptions, until: Until, *, coverage: float = 0.95
    ) -> None:
        until.check(task)
        if not 0 < coverage <= 1:
            raise GramError(f"coverage must be above 0 and at most 1, not {coverage}.")
        self.task, self.given, self.options, self.until, self.coverage = task, given, options, until, coverage
        self.found = Trajectories.empty(1, replace(options, width=1), task.length).select(np.s_[:, :0])
        """[1, trajectories so far, ...] each with its latest output"""
        self.started = time.monotonic()
        self.seconds = 0.0
        self.reason = ""
        """why it stopped"""

    @property
    def estimate(self) -> Estimate:
        """The estimated number of solutions, from the verified outputs so far."""
        return judge(self.task, self.given, self.found.outputs[0]).estimate

    def waves(self, largest: int = LARGEST_WAVE) -> Iterator[range]:
        """Yield the numbers of the trajectories to run next; `end_wave` follows each wave and may end the search."""
        limit = int(self.until.amount) if self.until.kind == "samples" else MOST
        size, start = min(1 if self.until.kind == "first" else FIRST_WAVE, largest), 0
        while start < limit and not self.reason:
            stop = min(start + size, limit)
            self.make_room(stop - start)
            yield range(start, stop)
            start, size = stop, min(2 * size, largest)
        self.reason = self.reason or f"{self.found.steps.shape[1]} trajectories are the limit"

    def make_room(self, count: int) -> None:
        """Extend `found` by `count` trajectories."""
        more = Trajectories.empty(1, replace(self.options, width=count), self.task.length)
        self.found = self.found.joined(more)

    def record(self, made: Steps) -> None:
        """Record the outputs of a step, and set `reason` if the search can stop."""
        self.found.record(made)
        self.seconds = time.monotonic() - self.started
        if self.until.kind == "first" and judge(self.task, self.given, made.outputs).valid.any():
            self.reason = "a solution was verified"
        if self.until.kind == "seconds" and self.seconds >= self.until.amount:
            if not self.found.steps.max() > 1 and not made.ended.any():
                raise GramError(
                    f"A budget of {self.until.amount:g} seconds is too small: the first step took {self.seconds:.2g}."
                )
            self.reason = f"the budget of {self.until.amount:g} seconds was used up"

    def end_wave(self) -> None:
        """Evaluate a complete wave, and set `reason` if the search can stop."""
        if self.until.kind != "all" or self.reason:
            return
        now = self.estimate
        if now.samples >= FEWEST and now.coverage >= self.coverage:
            self.reason = f"{now.seen} of at most {now.high} solutions were found"


class Anytime(Search):
    """The search for one puzzle: iterate over it to make supervision steps; the results can be read at any time.

    Trajectory i is the same as trajectory i of `sample`, so a longer search never changes what was found before.
    """

    def __init__(
        self,
        model: Reasoner,
        task: Task,
        given: Tokens,
        options: SampleOptions,
        until: Until,
        *,
        puzzle_id: int = 0,
        coverage: float = 0.95,
    ) -> None:
        super().__init__(task, given, options, until, coverage=coverage)
        self.batch = Batch(model, given[None], options, np.array([puzzle_id]))

    def __iter__(self) -> Iterator[Steps]:
        self.started = time.monotonic()
        for wave in self.waves():
            for made in self.batch.run((0, number) for number in wave):
                self.record(made)
                yield made
                if self.reason:
                    return
            self.end_wave()
