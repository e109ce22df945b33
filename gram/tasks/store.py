"""Sources of data: a file of the user, a verified download, or a cached build.

`GRAM_DATA` names a folder that is searched before anything is downloaded. `GRAM_CACHE` names the folder of downloads
and builds; the system's cache folder by default.
"""

import hashlib
import json
import os
import zipfile
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gram.errors import GramError
from gram.files import write_whole

Arrays = dict[str, NDArray[Any]]
UNREADABLE = (OSError, ValueError, TypeError, AttributeError, EOFError, zipfile.BadZipFile, zlib.error)
"""what reading a damaged .npz file may raise"""


def cache_folder() -> Path:
    """Return the folder of downloads and builds."""
    import pooch

    return Path(os.environ.get("GRAM_CACHE") or pooch.os_cache("gram"))


def find_file(*names: str) -> Path | None:
    """Return the first of these paths that is a file below `GRAM_DATA`; None if it is not set or has none of them."""
    folder = os.environ.get("GRAM_DATA")
    if not folder:
        return None
    if not Path(folder).is_dir():
        raise GramError(f"GRAM_DATA names {folder}, which is not a folder.")
    return next((Path(folder) / name for name in names if (Path(folder) / name).is_file()), None)


def file_hash(path: Path, algorithm: str = "sha256") -> str:
    """Return the digest of a file."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, algorithm).hexdigest()


def check_sum(path: Path, known_hash: str) -> None:
    """Raise `GramError` unless the file has the hash `algorithm:digest`."""
    algorithm, digest = known_hash.split(":")
    found = file_hash(path, algorithm)
    if found != digest:
        raise GramError(f"{path} is damaged or another file: its {algorithm} is {found}, not {digest}. Remove it.")


def download(url: str, name: str, known_hash: str | None) -> Path:
    """Return the file `name` below `GRAM_DATA`, or the one at `url`, downloaded once into the cache under this name.

    A partial or wrong download is never used. The hash is `algorithm:digest`, such as md5:…; None only for a file that
    is checked in another way.
    """
    target = find_file(name) or cache_folder() / name
    if target.is_file():
        if known_hash is not None:
            check_sum(target, known_hash)
        return target
    import pooch

    try:
        # pooch writes to a temporary file and moves it into place when its hash is right
        found = pooch.retrieve(url, known_hash, fname=target.name, path=target.parent, progressbar=True)
    except (OSError, ValueError) as error:  # no network, an error of the server, another hash
        reason = " ".join(str(error).split())
        raise GramError(
            f"Could not download {url} ({reason}). Put it into a folder as {name} and set GRAM_DATA to that folder."
        ) from error
    return Path(found)


def cached_arrays(name: str, settings: dict[str, Any], build: Callable[[], Arrays]) -> Arrays:
    """Return arrays that are built once for these settings and cached on disk.

    `name` and `settings`, all that the result depends on, are the key: change the name when the building changes.
    """
    key = hashlib.sha256(json.dumps(settings, sort_keys=True).encode()).hexdigest()[:16]
    path = cache_folder() / "built" / f"{name}-{key}.npz"
    if path.is_file():
        try:
            with path.open("rb") as source, np.load(source) as stored:  # numpy leaves a damaged one open
                return _Stored(path, dict(stored))
        except UNREADABLE as error:
            raise GramError(f"The cached data {path} cannot be read ({error}): remove it.") from error
    arrays = build()
    path.parent.mkdir(parents=True, exist_ok=True)
    write_whole(path, lambda target: save_arrays(target, arrays))
    return arrays


def save_arrays(path: Path, arrays: Arrays) -> None:
    """Write a compressed .npz file, whatever its name ends in."""
    with path.open("wb") as file:
        np.savez_compressed(file, **arrays)  # type: ignore[arg-type]


class _Stored(dict[str, NDArray[Any]]):
    """Arrays of the cache; a missing one means that the file is damaged."""

    def __init__(self, path: Path, arrays: Arrays) -> None:
        super().__init__(arrays)
        self.path = path

    def __missing__(self, name: str) -> NDArray[Any]:
        raise GramError(f"The cached data {self.path} has no array '{name}': remove it.")
