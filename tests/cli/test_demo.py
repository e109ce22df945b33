"""What `make demo` tells a newcomer to do next."""

import sys
from pathlib import Path

import pytest

from gram.cli import demo


def test_the_demo_says_how_to_call_the_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    environment = tmp_path / "env"
    environment.mkdir()
    (environment / "gram").touch(mode=0o755)
    monkeypatch.setattr(sys, "executable", str(environment / "python"))
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert demo.command() == "env/gram"
    monkeypatch.setenv("PATH", str(environment))
    assert demo.command() == "gram"
