"""A cache of one's own for every test."""

from pathlib import Path

import pytest


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GRAM_CACHE", str(tmp_path / "cache"))
    monkeypatch.delenv("GRAM_DATA", raising=False)
