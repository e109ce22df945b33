"""One active request: its remaining trajectories, and the results of its steps."""

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from threading import Event
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from gram.config import SampleOptions
from gram.inference.anytime import Search, Until
from gram.models.base import Steps
from gram.result import Result
from gram.solver import Solver
from gram.tasks.base import Tokens

BLOCK = 32
"""Trajectories whose steps are reported together."""


@dataclass(frozen=True)
class Order:
    """A request that has been checked."""

    request_id: str
    model: str
    given: Tokens
    options: SampleOptions
    until: Until | None
    seconds: float
    """until what has been found must do"""
    stream: bool = False
    latent: bool = False


class Outcome(NamedTuple):
    """How a request ended."""

    result: Result
    numbers: Tokens
    """[width] of the trajectories in the result"""
    seconds: float
    """from the first step to the last"""


class Block:
    """Trajectories that were started together; a step is reported when all of them have made it.

    So what is reported, and when a search stops, does not depend on what else is in the batch.
    """

    def __init__(self, numbers: range) -> None:
        self.first = numbers.start
        self.waiting = list(reversed(numbers))
        self.reached = np.zeros(len(numbers), dtype=np.int64)
        self.ended = np.zeros(len(numbers), dtype=np.bool_)
        self.reported = 0
        self.parts: dict[int, list[Steps]] = {}

    @property
    def done(self) -> bool:
        """Whether all of it has been reported."""
        return bool(self.ended.all()) and not self.parts

    def take(self, made: Steps) -> None:
        """Store the results of some rows, which may be at different steps."""
        places = made.trajectory - self.first
        self.reached[places], self.ended[places] = made.step, made.ended
        for step in np.unique(made.step).tolist():
            self.parts.setdefault(step, []).append(rows_of(made, made.step == step))

    def ready(self) -> Iterator[Steps]:
        """Yield each step that the whole block has made, once."""
        slowest = np.where(self.ended, np.iinfo(np.int64).max, self.reached).min()
        while self.parts and self.reported < slowest:
            self.reported += 1
            yield joined(self.parts.pop(self.reported))


def rows_of(made: Steps, chosen: NDArray[np.bool_]) -> Steps:
    """Select rows of a step."""
    rows: dict[str, Any] = {name: part[chosen] for name, part in vars(made).items()}
    rows["puzzle"] = np.zeros_like(rows["puzzle"])  # to the request, its one puzzle has the number 0
    return Steps(**rows)


def joined(parts: list[Steps]) -> Steps:
    """Put rows of one step together, in order of their numbers."""
    order = np.argsort(np.concatenate([part.trajectory for part in parts]))
    names = (name for name in vars(parts[0]) if name != "h")
    rows: dict[str, Any] = {name: np.concatenate([getattr(part, name) for part in parts])[order] for name in names}
    return Steps(**rows, h=torch.cat([part.h for part in parts])[torch.from_numpy(order)])


class Run:
    """One request in the engine. Any thread may set `cancelled`; all else belongs to the engine's thread."""

    def __init__(
        self, solver: Solver, order: Order, cancelled: Event, rows: int, notify: Callable[[object], None]
    ) -> None:
        """Prepare the request; `rows` is how many trajectories the batch holds.

        `notify` is called in the engine's thread: for a streamed request with the `Steps` of each block, in order of
        the trajectories' numbers, and in the end with the `Outcome`, or with the exception that it met.
        """
        self.solver, self.order, self.cancelled, self.notify = solver, order, cancelled, notify
        self.until = order.until or Until("samples", order.options.width)
        self.search = Search(solver.task, order.given, order.options, self.until)
        self.blocks: list[Block] = []
        self.begun = False
        self.deadline = time.monotonic() + order.seconds
        if self.until.kind == "samples":
            count = 1 if solver.model.is_deterministic(order.options) else int(self.until.amount)
            self.search.make_room(count)
            self.blocks = [Block(range(start, min(start + BLOCK, count))) for start in range(0, count, BLOCK)]
            self.waves: Iterator[range] = iter(())
        else:
            self.waves = self.search.waves(rows)
            self._next_wave()

    @property
    def finished(self) -> bool:
        """Whether nothing is left to do."""
        return not self.blocks

    @property
    def remaining(self) -> int:
        """The maximum number of remaining row-steps, as far as is known."""
        return sum(int((self.order.options.depth - block.reached[~block.ended]).sum()) for block in self.blocks)

    def begin(self, most: int) -> tuple[list[int], bool]:
        """Take at most `most` trajectories of one block to start with; and whether the block has more of them."""
        if not self.begun:
            self.begun, self.search.started = True, time.monotonic()
        for block in self.blocks:
            if block.waiting:
                chosen = [block.waiting.pop() for _ in range(min(most, len(block.waiting)))]
                return chosen, bool(block.waiting)
        return [], False

    @property
    def waits(self) -> bool:
        """Whether it has trajectories that have not begun."""
        return any(block.waiting for block in self.blocks)

    def take(self, made: Steps) -> None:
        """Process the results of a step for the rows of this request."""
        for block in self.blocks:
            inside = (made.trajectory >= block.first) & (made.trajectory < block.first + len(block.reached))
            if not inside.any():
                continue
            block.take(rows_of(made, inside))
            for ready in block.ready():
                self.search.record(ready)
                if self.order.stream:
                    self.notify(ready)
                if self.search.reason:
                    self.blocks = []
                    return
        self.blocks = [block for block in self.blocks if not block.done]
        if not self.blocks:
            self.search.end_wave()
            self._next_wave()

    def _next_wave(self) -> None:
        wave = next(self.waves, None)
        self.blocks = [] if wave is None else [Block(wave)]

    def stop(self, reason: str) -> bool:
        """End the request with the results so far; return whether there are any."""
        self.blocks, self.search.reason = [], reason
        return bool((self.search.found.steps > 0).any())

    def outcome(self) -> Outcome:
        """Verify and return the results, without trajectories that were never started."""
        numbers = np.flatnonzero(self.search.found.steps[0])
        self.search.found = self.search.found.select(np.s_[:, numbers])
        return Outcome(self.solver.result(self.search), numbers, self.search.seconds)
