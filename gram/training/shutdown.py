"""SIGTERM and Ctrl-C ask a run to stop: after the step that it is at, or at once where nothing would be lost."""

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

from gram.errors import Interrupted


class Stop:
    """Whether the user, or the machine's scheduler, has asked the run to stop."""

    asked = 0
    """number of the signal"""

    def __init__(self) -> None:
        self._message: str | None = None

    def __call__(self, number: int, frame: FrameType | None) -> None:
        """Take a signal."""
        if self.asked == number == signal.SIGINT:
            raise KeyboardInterrupt
        self.asked = number
        if self._message is not None:
            raise Interrupted(self._message, number)

    @contextmanager
    def at_once(self, message: str) -> Iterator[None]:
        """Raise `Interrupted` with this message as soon as a signal comes, while nothing that is done needs saving."""
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
