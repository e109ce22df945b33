"""Graceful shutdown by SIGTERM and Ctrl-C: after the current step, or at once if nothing would be lost."""

import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from types import FrameType
from typing import Any

from gram.errors import Interrupted


class Stop:
    """Records whether the run was asked to stop by the user or by the machine's scheduler."""

    def __init__(self) -> None:
        self.asked = 0
        """the number of the signal, or 0"""
        self._message: str | None = None

    def __call__(self, number: int, frame: FrameType | None) -> None:
        """Handle a signal."""
        if self.asked == number == signal.SIGINT:
            raise KeyboardInterrupt
        self.asked = number
        if self._message is not None:
            raise Interrupted(self._message, number)

    @contextmanager
    def at_once(self, message: str) -> Iterator[None]:
        """Raise `Interrupted` with this message as soon as a signal arrives, because nothing needs to be saved."""
        self._message = message
        try:
            if self.asked:
                raise Interrupted(message, self.asked)
            yield
        finally:
            self._message = None
        if self.asked:  # the signal came where Python swallows exceptions, in a destructor for example
            raise Interrupted(message, self.asked)


@contextmanager
def handling(handler: Callable[[int, FrameType | None], Any] | signal.Handlers, *signals: int) -> Iterator[None]:
    """Handle some signals in another way for a while; only the main thread, which receives them, can."""
    before: dict[int, Any] = {}
    with suppress(ValueError):  # in another thread
        before = {number: signal.signal(number, handler) for number in signals}
    try:
        yield
    finally:
        for number, old in before.items():
            signal.signal(number, old)


@contextmanager
def graceful_shutdown() -> Iterator[Stop]:
    """Let SIGTERM and Ctrl-C ask the run to stop instead of ending the process; a second Ctrl-C ends it."""
    stop = Stop()
    with handling(stop, signal.SIGTERM, signal.SIGINT):
        yield stop
