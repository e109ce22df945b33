"""What commands share besides options: they parse numbers, print lines and write JSON alike."""

import json
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from rich.console import Console

from gram.errors import GramError, Interrupted
from gram.files import write_whole

console = Console()


def refuse_ignored(*cases: tuple[bool, str]) -> None:
    """Raise `GramError` with the reason of the first true case: an option that would be ignored was given."""
    for ignored, reason in cases:
        if ignored:
            raise GramError(reason)


def numbers(name: str, text: str, kind: Callable[[str], Any] = int, *, least: int = 1) -> list[Any]:
    """Parse numbers separated by commas; sorted, each once. Whole numbers must be at least `least`."""
    try:
        found = sorted({kind(part) for part in text.split(",")})
    except ValueError as error:
        raise GramError(f"--{name} takes numbers separated by commas, such as 8,16, not '{text}'.") from error
    if kind is int and found[0] < least:
        raise GramError(f"--{name} must be at least {least}, not {found[0]}.")
    return found


def say(text: str) -> None:
    """Print a line that may contain a path, without markup and line breaks."""
    console.print(text, markup=False, highlight=False, soft_wrap=True)


def write_json(path: Path | None, content: Any) -> None:
    """Write JSON to the file of `--json`, if one was given."""
    if path is not None:
        text = json.dumps(content, indent=2) + "\n"
        if path.exists() and not path.is_file():  # a device such as /dev/stdout
            path.write_text(text)
        else:
            write_whole(path, lambda target: target.write_text(text))
        say(f"Metrics and settings: {path}")


@contextmanager
def resumable(advice: str) -> Iterator[None]:
    """Let Ctrl-C end the command with a sentence on how to resume."""
    try:
        yield
    except KeyboardInterrupt as error:
        raise Interrupted(f"Interrupted. {advice}", signal.SIGINT) from error
