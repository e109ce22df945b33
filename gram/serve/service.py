"""The state of the service: which models are ready, how many requests are pending, and whether it is stopping."""

import asyncio
import logging
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from gram.errors import GramError
from gram.serve.errors import Overloaded, Refused
from gram.serve.metrics import Metrics
from gram.serve.schemas import Ask
from gram.serve.settings import Settings

if TYPE_CHECKING:
    from gram.serve.desk import Conversation, Desk

log = logging.getLogger("gram.serve")


class Service:
    """Loads the models in a thread of its own, and accepts requests while there is room."""

    def __init__(self, settings: Settings, on_failure: Callable[[GramError], None] | None = None) -> None:
        """Prepare; `on_failure` is called, in the loading thread, if a model cannot be loaded."""
        self.settings, self.on_failure = settings, on_failure
        self.metrics = Metrics()
        self.desk: Desk | None = None
        self.ready: dict[str, dict[str, Any]] = {}
        """descriptions of the models that are ready"""
        self.pending = 0
        self.stopping = False
        self.checkers = ThreadPoolExecutor(2, thread_name_prefix="gram-check")
        self.loader = threading.Thread(target=self._load, name="gram-load", daemon=True)

    def start(self) -> None:
        """Start loading the models."""
        self.loader.start()

    def stop(self) -> None:
        """Stop the threads."""
        self.stopping = True
        self.loader.join()
        self.checkers.shutdown(cancel_futures=True)
        if self.desk is not None:
            self.desk.engine.stop()

    def drain(self) -> None:
        """Accept no new requests, and let the active ones end soon."""
        self.stopping = True
        if self.desk is not None:
            self.desk.engine.hurry(self.settings.limits.drain)

    def _load(self) -> None:
        from gram.serve.desk import Desk  # imports torch, which takes seconds: the page is there before

        try:
            desk = Desk(self.settings, self.metrics)
            desk.engine.start()
            self.desk = desk
            for name in self.settings.models:
                if self.stopping:
                    return
                desk.load(name)
                self.ready[name] = desk.describe(name)
                log.info("a model is ready", extra={"model": name})
        except (GramError, OSError) as error:
            log.error("a model could not be loaded: %s", error)
            if self.on_failure is not None:
                self.on_failure(GramError(str(error)))

    @property
    def is_ready(self) -> bool:
        """Whether all models are ready."""
        return len(self.ready) == len(self.settings.models) and not self.stopping

    def models(self) -> list[dict[str, Any]]:
        """Describe all models; those that are not ready yet by their names."""
        return [self.ready.get(name, {"name": name, "status": "loading"}) for name in self.settings.models]

    def tasks(self) -> list[dict[str, Any]]:
        """Describe the tasks of the models that are ready."""
        return [] if self.desk is None else self.desk.tasks()

    async def open(self, ask: Ask, request_id: str) -> "Conversation":
        """Check a request and submit it to the engine; raise `Refused` or `Overloaded` if that is not possible."""
        if ask.model not in self.settings.models:
            raise Refused(f"There is no model '{ask.model}'. The models are {', '.join(self.settings.models)}.")
        if self.stopping:
            raise Overloaded("The service is stopping.")
        if self.desk is None or ask.model not in self.ready:
            raise Overloaded(f"{ask.model} is still loading.")
        order = await asyncio.get_running_loop().run_in_executor(self.checkers, self.desk.order, ask, request_id)
        return self.desk.converse(order)

    @contextmanager
    def place(self) -> Iterator[None]:
        """Hold a place in the queue; raise `Overloaded` if there is none."""
        if self.pending >= self.settings.limits.queue:
            raise Overloaded("The service is full.", 1 if self.desk is None else self.desk.retry_after())
        self.pending += 1
        self.metrics.pending.set(self.pending)
        try:
            yield
        finally:
            self.pending -= 1
            self.metrics.pending.set(self.pending)
