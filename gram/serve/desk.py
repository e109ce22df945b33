"""The link between requests and models: checks a request, submits it to the engine, and returns the results.

Everything that needs torch is behind this module, so that the page appears while it is still being imported.
"""

import asyncio
import math
from collections.abc import AsyncIterator
from contextlib import suppress
from typing import Any

import numpy as np

from gram.errors import GramError
from gram.inference.anytime import Until
from gram.machine import keep_freed_memory
from gram.models.base import Steps
from gram.serve.answers import Watch, answer, encode, event, small
from gram.serve.boards import HOW, blank, board_of, is_generated, parse
from gram.serve.engine import Engine
from gram.serve.errors import Overloaded, Refused, sentence
from gram.serve.metrics import Metrics
from gram.serve.run import Order, Outcome
from gram.serve.schemas import Ask, SolveRequest
from gram.serve.settings import Limits, Settings
from gram.solver import Solver, load

MOST_SECONDS = 60
"""A client is never told to wait longer than this."""


class Desk:
    """The models that are ready, and the engine that runs them."""

    def __init__(self, settings: Settings, metrics: Metrics) -> None:
        keep_freed_memory()
        self.settings = settings
        self.engine = Engine(metrics, threads=settings.threads)
        self.solvers: dict[str, Solver] = {}

    def load(self, name: str) -> None:
        """Load a model and run it once, so that everything is compiled."""
        solver = load(self.settings.models[name], device=self.settings.device)
        _ = solver.reasoner  # refuses a model that has no supervision steps to batch
        given = np.ones(solver.task.length, dtype=np.int64)
        solver.solve(given, width=1, depth=1)
        solver.task.solutions(given)
        self.engine.add_model(name, solver)
        self.solvers[name] = solver

    def describe(self, name: str) -> dict[str, Any]:
        """Describe a model that is ready, in the form of `schemas.Model`."""
        solver = self.solvers[name]
        return {
            "name": name,
            "status": "ready",
            "task": solver.task.name,
            "kind": "generate" if is_generated(solver.task) else "solve",
            "board": board_of(solver.task),
            "random": solver.reasoner.guidance.noisy,
            "parameters": solver.model.parameter_count,
            "defaults": {name: getattr(solver.options, name) for name in ("width", "depth", "temperature", "halt")},
        }

    def tasks(self) -> list[dict[str, Any]]:
        """Describe the tasks of the models that are ready, in the form of `schemas.TaskInfo`."""
        found: dict[str, dict[str, Any]] = {}
        for name, solver in list(self.solvers.items()):
            task, board = solver.task, board_of(solver.task)
            entry: dict[str, Any] = {
                "name": task.name,
                "kind": "generate" if is_generated(task) else "solve",
                "how": HOW[board["kind"]],
                "board": board,
                "vocab_size": task.vocab_size,
                "length": task.length,
                "has_rules": task.has_rules,
                "models": [],
            }
            found.setdefault(task.name, entry)["models"].append(name)
        return list(found.values())

    def order(self, ask: Ask, request_id: str) -> Order:
        """Check a request for a model that is ready; raise `Refused` with one sentence if it is invalid."""
        limits, solver = self.settings.limits, self.solvers[ask.model]
        try:
            for name, value, most in (("width", ask.width, limits.width), ("depth", ask.depth, limits.depth)):
                if value is not None and value > most:
                    raise GramError(f"{name} must be at most {most} here, not {value}.")
            given = parse(solver.task, ask.puzzle) if isinstance(ask, SolveRequest) else blank(solver.task)
            usual = {"width": min(solver.options.width, limits.width), "depth": min(solver.options.depth, limits.depth)}
            asked = {name: getattr(ask, name) for name in ("width", "depth", "temperature", "halt")}
            chosen = usual | {name: value for name, value in asked.items() if value is not None}
            options = solver.with_options(seed=ask.seed, **chosen)
            until = None if ask.until is None else _until(solver, ask.until, limits)
        except GramError as error:
            raise Refused(sentence(str(error))) from error
        return Order(request_id, ask.model, given, options, until, limits.seconds, ask.stream, ask.latent)

    def retry_after(self) -> int:
        """Estimate the seconds until a request can be accepted."""
        seconds = sum(lane.seconds_left for lane in list(self.engine.lanes.values()))
        return max(1, min(MOST_SECONDS, math.ceil(seconds / 2)))

    def converse(self, order: Order) -> "Conversation":
        """Submit a request to the engine."""
        return Conversation(self, order)


class Conversation:
    """A request in the engine, as seen by the event loop."""

    def __init__(self, desk: Desk, order: Order) -> None:
        self.desk, self.order = desk, order
        self.loop = asyncio.get_running_loop()
        self.news: asyncio.Queue[object] = asyncio.Queue()
        self.cancelled = desk.engine.submit(order, self._notify)
        """to be set when the client leaves, which frees the request's rows"""

    def _notify(self, item: object) -> None:
        """Forward an item; called in the engine's thread."""
        if isinstance(item, Steps):
            item = small(item)
        with suppress(RuntimeError):  # the loop has been closed, so nobody waits
            self.loop.call_soon_threadsafe(self.news.put_nowait, item)

    async def answer(self) -> bytes:
        """Wait for the answer; raise the exception of the engine if there is one."""
        while True:
            item = await self.news.get()
            if isinstance(item, Outcome):
                return encode(answer(self.order, item))
            if isinstance(item, GramError):
                raise item if isinstance(item, Refused) else Refused(sentence(str(item)))

    async def events(self) -> AsyncIterator[bytes]:
        """Yield the events of a streamed request: start, one per step and block, and the result or an error."""
        watch = Watch(self.desk.solvers[self.order.model].task, self.order)
        yield watch.start()
        while True:
            item = await self.news.get()
            if isinstance(item, Steps):
                yield watch.step(item)
            elif isinstance(item, Outcome):
                yield event("result", answer(self.order, item))
                return
            elif isinstance(item, GramError):
                status = item.status if isinstance(item, Refused) else 422
                content = {"error": sentence(str(item)), "status": status, "request_id": self.order.request_id}
                if isinstance(item, Overloaded):
                    content["retry_after"] = item.retry_after
                yield event("error", content)
                return


def _until(solver: Solver, text: str, limits: Limits) -> Until:
    until = Until.parse(text)
    if until.kind == "samples" and (until.amount != int(until.amount) or until.amount > limits.width):
        raise GramError(f"until must be a whole number of samples up to {limits.width} here, not {text}.")
    if until.kind == "seconds" and until.amount > limits.seconds:
        raise GramError(f"until must be at most {limits.seconds:g} seconds here, not {text}.")
    until.check(solver.task)
    return until
