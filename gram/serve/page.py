"""The files of the page, read once at the start: no request reaches the file system."""

import hashlib
from importlib import resources
from typing import NamedTuple

TYPES = {
    ".html": "text/html; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".svg": "image/svg+xml",
}
PAGES = {"/": "index.html", "/docs": "docs.html"}
"""Paths that stand for a file."""


class Asset(NamedTuple):
    """A file of the page."""

    content: bytes
    media_type: str
    etag: str


def read_assets() -> dict[str, Asset]:
    """Return every file of the page by its path."""
    folder = resources.files("gram.serve") / "static"
    assets: dict[str, Asset] = {}
    for file in folder.iterdir():
        suffix = "." + file.name.rpartition(".")[2]
        if suffix in TYPES:
            content = file.read_bytes()
            etag = f'"{hashlib.sha256(content).hexdigest()[:16]}"'
            assets[f"/static/{file.name}"] = Asset(content, TYPES[suffix], etag)
    for path, name in PAGES.items():
        assets[path] = assets[f"/static/{name}"]
    return assets
