"""Atomic writes, JSON files that detect damage, locks on folders, and the folders of shipped models."""

import errno
import hashlib
import json
import os
import re
import secrets
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from safetensors import SafetensorError

from gram.errors import GramError

CHECKSUM_KEY = "sha256"
"""Key of a JSON file under which the digest of everything else in it stands."""

LEFTOVER = re.compile(r"\..+\.[0-9a-f]{8}")
"""The name of a temporary file."""
CONFIG_FILE = "config.json"
"""The file that makes a folder a trained model."""
PRETRAINED = Path(__file__).parent / "pretrained"
NO_LOCKS = (errno.EBADF, errno.EINVAL, errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP)
"""What a file system that cannot lock a folder answers."""


def natural_order(name: str) -> tuple[str, int, str]:
    """Return the key that sorts nqueens-8 before nqueens-10, and sudoku-9 before sudoku-extreme."""
    return name.rstrip("0123456789"), len(name), name


def shipped_models() -> dict[str, Path]:
    """Return the folders of the models that ship with the package by name, in their natural order."""
    names = sorted((path.parent.name for path in PRETRAINED.glob(f"*/{CONFIG_FILE}")), key=natural_order)
    return {name: PRETRAINED / name for name in names}


def write_whole(path: Path, write: Callable[[Path], object]) -> None:
    """Write a file atomically: to a temporary file next to `path`, which is flushed and then renamed."""
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(4)}")
    # Created here, so that it has the permissions that the umask gives to any new file.
    os.close(os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666))
    mode = temporary.stat().st_mode & 0o777
    try:
        write(temporary)
        temporary.chmod(mode)  # a writer may have replaced the file by one of its own
        with temporary.open("rb") as file:
            os.fsync(file.fileno())
        temporary.replace(path)
    except SafetensorError as error:  # its only way to report a full disk
        raise GramError(f"{path} cannot be written: {' '.join(str(error).split())}.") from error
    finally:
        temporary.unlink(missing_ok=True)


def append_blocks(path: Path, kept: int, blocks: Iterable[bytes]) -> None:
    """Cut a file to its first `kept` bytes and append the blocks, each of which is written before the next is made."""
    with path.open("r+b" if path.exists() else "wb") as file:
        file.truncate(kept)
        file.seek(kept)
        for block in blocks:
            file.write(block)
            file.flush()


def remove_leftovers(folder: Path) -> None:
    """Remove the temporary files that killed calls of `write_whole` have left in a folder and below it."""
    for path in folder.rglob(".*"):
        if LEFTOVER.fullmatch(path.name) and path.is_file():
            path.unlink(missing_ok=True)


def write_json(path: Path, content: dict[str, Any], *, sealed: bool = True) -> None:
    """Write a JSON file atomically; if sealed by a checksum, `read_json` detects any later change."""
    if sealed:
        content = {**content, CHECKSUM_KEY: _digest(content)}
    write_whole(path, lambda target: target.write_text(json.dumps(content, indent=2) + "\n"))


def read_json(path: Path) -> Any:
    """Return the content of a JSON file, without its checksum; raise `GramError` if it is damaged."""
    try:
        content = json.loads(path.read_text())
    except (OSError, ValueError, RecursionError) as error:
        raise GramError(f"{path} is damaged or not a gram model: {error}.") from error
    if isinstance(content, dict) and CHECKSUM_KEY in content:
        stored = content.pop(CHECKSUM_KEY)
        if stored != _digest(content):
            raise GramError(
                f"{path} is damaged: its content does not match its checksum. If you changed it on purpose, remove "
                f"the line '{CHECKSUM_KEY}'."
            )
    return content


def look_up(content: Any, key: str) -> Any:
    """Return content["a"]["b"] for the key a.b; None where there is none."""
    for part in key.split("."):
        if not isinstance(content, dict) or part not in content:
            return None
        content = content[part]
    return content


def _digest(content: dict[str, Any]) -> str:
    as_read = json.loads(json.dumps(content))  # keys become strings, tuples lists
    return hashlib.sha256(json.dumps(as_read, sort_keys=True).encode()).hexdigest()


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Lock a folder against other processes; raise `GramError` if one of them has locked it.

    The lock ends with the process, however that ends. Where the system has no such locks (Windows, some
    network file systems), nothing is locked.
    """
    try:
        import fcntl
    except ImportError:  # Windows
        yield
        return
    handle = os.open(folder, os.O_RDONLY)
    try:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise GramError(f"Another process is working in {folder}: wait until it has ended.") from error
        except OSError as error:
            if error.errno not in NO_LOCKS:
                raise
        yield
    finally:
        os.close(handle)
