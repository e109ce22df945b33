"""Code outside the package: import a Python file, and turn whatever goes wrong in it into a `GramError`."""

from collections.abc import Callable
from importlib import util
from pathlib import Path
from typing import Any

from gram.errors import GramError


def import_file(path: Path) -> Any:
    """Import a Python file as a separate module."""
    if not path.is_file():
        raise GramError(f"There is no file {path}.")
    spec = util.spec_from_file_location(f"gram_outside_{path.stem}", path)
    if spec is None or spec.loader is None:
        raise GramError(f"{path} is no Python file.")
    module = util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def guarded(what: str, function: Callable[..., Any], *arguments: Any) -> Any:
    """Call a function of someone else's; whatever it raises becomes a `GramError` that begins with `what`."""
    try:
        return function(*arguments)
    except GramError:
        raise
    except (Exception, SystemExit) as error:  # it may fail in any way, and must not end the command silently
        message = " ".join(str(error).split()).rstrip(".")
        raise GramError(f"{what}: {type(error).__name__}{': ' if message else ''}{message}.") from error
