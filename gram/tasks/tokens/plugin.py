"""A plugin: code of the user that verifies, draws and reads rows of tokens, and declares their structure.

It is run only on request.
"""

from importlib import metadata
from pathlib import Path
from typing import Any

from gram.errors import GramError
from gram.tasks.base import Structure, checked_structure
from gram.tasks.outside import guarded, import_file
from gram.tasks.store import find_file

PLUGINS = "gram.tasks.tokens"
"""entry point group of the plugins that are installed as packages"""
FUNCTIONS = ("verify", "render", "parse")
PARTS = (*FUNCTIONS, "constraints", "symbols")


class Plugin:
    """The functions and declarations of a plugin; none without one."""

    def __init__(self, name: str | None) -> None:
        """Import a Python file (.py), or load an entry point of the group `gram.tasks.tokens`."""
        self.name = name
        self._module = None if name is None else guarded(f"The plugin {name} cannot be loaded", _load, name)
        if name is not None and not any(self.has(part) for part in PARTS):
            raise GramError(f"The plugin {name} defines none of {', '.join(PARTS)}.")

    def has(self, part: str) -> bool:
        """Return whether there is such a function or declaration."""
        return hasattr(self._module, part) and (part not in FUNCTIONS or callable(getattr(self._module, part)))

    def call(self, part: str, *arguments: Any) -> Any:
        """Call a function of the plugin; whatever it raises becomes a `GramError`."""
        return guarded(f"Function {part} of the plugin {self.name} has failed", getattr(self._module, part), *arguments)

    def structure(self, *, length: int, vocab_size: int) -> Structure:
        """Return the constraints and symbols that are declared; raise `GramError` unless they fit the rows."""
        constraints, symbols = getattr(self._module, "constraints", {}), getattr(self._module, "symbols", ())
        try:
            return checked_structure(constraints, symbols, length=length, vocab_size=vocab_size)
        except GramError as error:
            raise GramError(f"The plugin {self.name} has a wrong declaration: {error}") from error


def _load(name: str) -> Any:
    if name.endswith(".py"):
        return import_file(found(name))
    known = metadata.entry_points(group=PLUGINS)
    if name not in known.names:
        installed = ", ".join(sorted(known.names)) or "none"
        raise GramError(
            f"There is no plugin {name!r}: give a file that ends in .py, or an installed one ({installed})."
        )
    return known[name].load()


def found(path: str) -> Path:
    """Return the file or published folder of this name, here or below `GRAM_DATA`."""
    here = Path(path).expanduser()
    if here.exists():
        return here
    below_data = find_file(path, f"{path}/train/dataset.json")
    if below_data is None:
        raise GramError(f"There is no {path}, neither here nor below GRAM_DATA.")
    return below_data.parents[1] if below_data.name == "dataset.json" else below_data
