"""Progress of anything that takes more than a few seconds: bars in a terminal, plain lines elsewhere."""

import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from rich.console import Console, RenderableType

if TYPE_CHECKING:
    from rich.progress import Progress, TaskID

Advance = Callable[[int], None]
"""Called with the number of things just done."""
PLAIN_SECONDS = 30.0
"""Seconds between plain lines."""


@contextmanager
def bar(console: Console, label: str, total: int, *, plain: bool = True) -> Iterator[Advance]:
    """Show progress; call what is yielded with the number of things just done.

    Without a terminal, print a line every half minute and at the end (none if `plain` is false).
    """
    if not console.is_terminal:
        yield _plain_lines(console, label, total) if plain else lambda count: None
        return
    from rich.progress import Progress  # late: a tenth of a second that `gram solve` need not wait for

    with Progress(console=console, transient=True) as progress:
        line = progress.add_task(label, total=total)
        yield lambda count: progress.advance(line, count)


def _plain_lines(console: Console, label: str, total: int) -> Advance:
    done, started = 0, time.monotonic()
    printed = started

    def advance(count: int) -> None:
        nonlocal done, printed
        done, now = done + count, time.monotonic()
        if count and (done == total or now - printed >= PLAIN_SECONDS):
            printed = now
            console.print(f"{label}: {done:,} of {total:,} after {now - started:.0f} s", markup=False, highlight=False)

    return advance


class TrainingBar:
    """The steps of a training with the latest metrics below them, and bars of the evaluations between them."""

    def __init__(self, console: Console, total: int, done: int) -> None:
        self.console, self.total, self.done = console, total, done
        self.progress: Progress | None = None
        self.line: TaskID | None = None
        self.shown = ""

    def __enter__(self) -> "TrainingBar":
        if self.console.is_terminal:
            self.progress = _with_text_below(self.console, lambda: self.shown)
            self.progress.start()
            self.line = self.progress.add_task("training", total=self.total, completed=self.done)
        return self

    def __exit__(self, *_: object) -> None:
        if self.progress is not None:
            self.progress.stop()

    def advance(self, metrics: str) -> None:
        """Count a step; `metrics` is the new text, often empty."""
        self.done, self.shown = self.done + 1, metrics or self.shown
        if self.progress is not None and self.line is not None:
            self.progress.advance(self.line)
        elif metrics:
            self.console.print(f"step {self.done} of {self.total}: {metrics}", markup=False, highlight=False)

    @contextmanager
    def part(self, label: str, total: int) -> Iterator[Advance]:
        """Show the progress of an evaluation between two steps."""
        if self.progress is None:
            with bar(self.console, label, total) as advance:
                yield advance
            return
        progress, line = self.progress, self.progress.add_task(label, total=total)
        try:
            yield lambda count: progress.advance(line, count)
        finally:
            progress.remove_task(line)


def _with_text_below(console: Console, text: Callable[[], str]) -> "Progress":
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
    from rich.text import Text

    class Bars(Progress):
        """Bars with a text below them, because next to them it would be cut at 80 columns."""

        def get_renderables(self) -> Iterable[RenderableType]:
            yield self.make_tasks_table(self.tasks)
            yield Text(text())

    columns = (TextColumn("{task.description}"), BarColumn(bar_width=30), MofNCompleteColumn(), TimeRemainingColumn())
    return Bars(*columns, console=console)
