"""Progress bars for anything that takes more than a few seconds."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console


@contextmanager
def bar(console: Console, label: str, total: int) -> Iterator[Callable[[int], None]]:
    """Show a progress bar; call what it yields with the number of things done."""
    from rich.progress import Progress  # late: a tenth of a second that `gram solve` need not wait for

    with Progress(console=console, transient=True) as progress:
        line = progress.add_task(label, total=total)
        yield lambda count: progress.advance(line, count)
