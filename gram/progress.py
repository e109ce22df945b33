"""Progress of anything that takes more than a few seconds: a bar in a terminal, plain lines elsewhere."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console

PLAIN_SECONDS = 30.0
"""Seconds between plain lines."""


@contextmanager
def bar(console: Console, label: str, total: int, *, plain: bool = True) -> Iterator[Callable[[int], None]]:
    """Show progress; call what is yielded with the number of things just done.

    Without a terminal a line is printed every half minute (unless `plain` is false), so that a log shows progress too.
    """
    if not console.is_terminal:
        yield _plain_lines(console, label, total) if plain else lambda count: None
        return
    from rich.progress import Progress  # late: a tenth of a second that `gram solve` need not wait for

    with Progress(console=console, transient=True) as progress:
        line = progress.add_task(label, total=total)
        yield lambda count: progress.advance(line, count)


def _plain_lines(console: Console, label: str, total: int) -> Callable[[int], None]:
    done, started = 0, time.monotonic()
    printed = started

    def advance(count: int) -> None:
        nonlocal done, printed
        done, now = done + count, time.monotonic()
        if now - printed >= PLAIN_SECONDS:
            printed = now
            console.print(f"{label}: {done:,} of {total:,} after {now - started:.0f} s", markup=False, highlight=False)

    return advance
