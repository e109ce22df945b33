"""The thread that runs the models: in every supervision step, the batch of a model has rows of any request."""

import logging
import queue
import threading
import time
from collections import deque
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import torch

from gram.errors import GramError
from gram.models.base import Steps
from gram.models.rollout import Batch, automatic_chunk
from gram.serve.errors import ModelFailed, Overloaded
from gram.serve.metrics import Metrics
from gram.serve.run import Order, Run, rows_of
from gram.solver import Solver

SKETCH = 16
"""Numbers that stand for a latent state: a random projection, which keeps distances roughly."""
SMOOTHING = 0.1
"""Weight of the latest step in the measured speed."""

log = logging.getLogger("gram.serve")


class Lane:
    """One model with its batch, and the requests that it is working on."""

    def __init__(self, name: str, solver: Solver, metrics: Metrics) -> None:
        self.name, self.solver, self.metrics = name, solver, metrics
        self.rows = automatic_chunk(solver.reasoner)
        self.runs: dict[int, Run] = {}
        self.turns: deque[int] = deque()
        """Requests with trajectories that have not begun; the first one is next."""
        self.speed = 0.0
        """row-steps per second, lately"""
        self.batch = self._empty()
        model = solver.reasoner
        generator = torch.Generator().manual_seed(0)
        size = model.tokens * model.config.dim
        self.projection = (torch.randn(size, SKETCH, generator=generator) / size**0.5).to(self.batch.device)

    def _empty(self) -> Batch:
        return Batch(self.solver.reasoner, np.zeros((0, self.solver.task.length), dtype=np.int64), self.solver.options)

    def add(self, order: Order, cancelled: threading.Event, notify: Callable[[object], None]) -> None:
        """Add a request."""
        run = Run(self.solver, order, cancelled, self.rows, notify)
        number = self.batch.admit(order.given, order.options)
        self.runs[number] = run
        self.turns.append(number)

    def step(self) -> None:
        """Advance all rows by one supervision step, and notify the requests."""
        for number, run in list(self.runs.items()):
            if run.cancelled.is_set():
                self._remove(number)
            elif time.monotonic() > run.deadline:
                self._cut_short(number, run)
        self._fill()
        if len(self.batch.puzzle):
            self._advance()

    def _fill(self) -> None:
        """Start waiting trajectories while there is room: a block of each request in turn, so that none waits long."""
        jobs: list[tuple[int, int]] = []
        while self.turns and (room := self.rows - len(self.batch.puzzle) - len(jobs)) > 0:
            number = self.turns[0]
            begun, block_has_more = self.runs[number].begin(room)
            jobs += [(number, trajectory) for trajectory in begun]
            if not block_has_more:
                self.turns.popleft()
                if self.runs[number].waits:
                    self.turns.append(number)
        self.batch.add(jobs)
        self.metrics.rows.labels(self.name).set(len(self.batch.puzzle))

    def _advance(self) -> None:
        started = time.perf_counter()
        made = self.batch.advance()
        numbers = sorted(set(made.puzzle.tolist()))
        latent = {number for number in numbers if self.runs[number].order.latent}
        sketch = (made.h.flatten(1) @ self.projection).cpu() if latent else made.h[:, 0, :0]
        for number in numbers:
            kept = replace(made, h=sketch if number in latent else sketch[:, :0])
            self._tell(number, rows_of(kept, made.puzzle == number))
        staying = [number in self.runs for number in made.puzzle.tolist()]
        self.batch.keep(~made.ended[staying])  # the rows of requests that are over have left already
        self._measure(len(made.step), time.perf_counter() - started)

    def _tell(self, number: int, made: Steps) -> None:
        run = self.runs[number]
        waited = run.waits
        try:
            run.take(made)
        except GramError as error:
            self._remove(number)
            run.notify(error)
            return
        if run.finished:
            self._remove(number)
            run.notify(run.outcome())
        elif run.waits and not waited:
            self.turns.append(number)  # its next wave

    def _measure(self, rows: int, seconds: float) -> None:
        self.speed += (SMOOTHING if self.speed else 1.0) * (rows / seconds - self.speed)
        self.metrics.step_seconds.labels(self.name).observe(seconds)
        self.metrics.row_steps.labels(self.name).inc(rows)

    def _cut_short(self, number: int, run: Run) -> None:
        self._remove(number)
        if run.stop(f"{run.order.seconds:g} seconds are the limit"):
            run.notify(run.outcome())
        else:
            run.notify(Overloaded("The service is too busy: the request's time was over before its first step."))

    def _remove(self, number: int) -> None:
        self.batch.release(number)
        del self.runs[number]
        if number in self.turns:
            self.turns.remove(number)

    def fail(self, error: Exception) -> None:
        """Fail all requests, because the model raised an exception."""
        runs, self.runs = list(self.runs.values()), {}
        self.turns.clear()
        self.batch = self._empty()
        self.metrics.model_errors.labels(self.name).inc()
        ids = [run.order.request_id for run in runs]
        log.error("the model raised", exc_info=error, extra={"model": self.name, "requests": ids})
        for run in runs:
            run.notify(ModelFailed())

    @property
    def seconds_left(self) -> float:
        """The maximum time of the current requests, at the latest speed."""
        remaining = sum(run.remaining for run in list(self.runs.values()))
        return remaining / self.speed if self.speed else 1.0


class Engine:
    """Lanes, and the thread that steps them in turn."""

    def __init__(self, metrics: Metrics, *, threads: int = 1) -> None:
        self.metrics, self.threads = metrics, threads
        self.lanes: dict[str, Lane] = {}
        self.inbox: queue.SimpleQueue[Callable[[], None] | None] = queue.SimpleQueue()
        self.stopped = threading.Event()
        self.thread = threading.Thread(target=self._work, name="gram-engine", daemon=True)

    def start(self) -> None:
        """Start the thread."""
        self.thread.start()

    def stop(self) -> None:
        """Stop the thread after its current step; active requests are abandoned."""
        self.stopped.set()
        self.inbox.put(None)
        self.thread.join()

    def add_model(self, name: str, solver: Solver) -> None:
        """Serve one more model."""
        self.lanes[name] = Lane(name, solver, self.metrics)

    def submit(self, order: Order, notify: Callable[[object], None]) -> threading.Event:
        """Submit a request; `notify` is called in the engine's thread (see `Run`). Setting the event cancels it."""
        cancelled = threading.Event()

        def enter() -> None:
            if cancelled.is_set():
                return
            try:
                self.lanes[order.model].add(order, cancelled, notify)
            except GramError as error:
                notify(error)

        self.inbox.put(enter)
        return cancelled

    def hurry(self, seconds: float) -> None:
        """Let every request end within `seconds`."""

        def shorten() -> None:
            for lane in self.lanes.values():
                for run in lane.runs.values():
                    run.deadline = min(run.deadline, time.monotonic() + seconds)

        self.inbox.put(shorten)

    def _work(self) -> None:
        torch.set_num_threads(self.threads)
        while not self.stopped.is_set():
            busy = [lane for lane in list(self.lanes.values()) if lane.runs]
            self._read_inbox(wait=not busy)
            for lane in list(self.lanes.values()):
                if lane.runs:
                    try:
                        lane.step()
                    except Exception as error:  # whatever a model raises must not end the thread
                        lane.fail(error)

    def _read_inbox(self, *, wait: bool) -> None:
        try:
            while (task := self.inbox.get(block=wait)) is not None:
                task()
                wait = False
        except queue.Empty:
            return
