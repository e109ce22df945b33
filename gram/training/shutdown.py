"""Graceful shutdown by SIGTERM and Ctrl-C: after the current step, or at once if nothing would be lost."""

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

from gram.errors import Interrupted


class Stop:
    """Records whether the run was asked to stop by the user or by the machine's scheduler."""

    def __init__(self) -> None:
        self._signal = 0
        self._message: str | None = None

    @property
    def asked(self) -> int:
        """The number of the signal, or 0."""
        return self._signal

    def __call__(self, number: int, frame: FrameType | None) -> None:
        """Handle a signal."""
        if self._signal == number == signal.SIGINT:
            raise KeyboardInterrupt
        self._signal = number
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
def graceful_shutdown() -> Iterator[Stop]:
    """Let SIGTERM and Ctrl-C ask the run to stop instead of ending the process; a second Ctrl-C ends it."""
    stop = Stop()
    names = (signal.SIGTERM, signal.SIGINT)
    try:
        before = {name: signal.signal(name, stop) for name in names}
    except ValueError:  # signals reach the main thread only
        yield stop
        return
    try:
        yield stop
    finally:
        for name, handler in before.items():
            signal.signal(name, handler)
