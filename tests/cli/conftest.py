"""The command line in this process, and a tiny model that it has trained."""

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from gram.cli.app import main

TINY = [
    "task.options.size=4",
    "model.dim=16",
    "model.channel_hidden=16",
    "model.token_hidden=16",
    "model.guidance_hidden=16",
    "model.supervision_steps=2",
    "train.slots=8",
    "train.steps=4",
    "train.log_every=2",
    "train.eval_every=4",
    "train.eval_inputs=4",
    "eval.width=2",
    "eval.depth=2",
]

Run = Callable[..., tuple[int, str, str]]


@pytest.fixture
def gram(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    """Run the command in this process: exit code, standard output, standard error."""

    def run(*arguments: str | Path) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["gram", *map(str, arguments)])
        with pytest.raises(SystemExit) as exit_:
            main()
        captured = capsys.readouterr()
        return int(exit_.value.code or 0), captured.out, captured.err

    return run


@pytest.fixture(scope="session")
def tiny_run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model folder made by the real command in a real process."""
    out = tmp_path_factory.mktemp("runs") / "tiny"
    done = subprocess.run(
        [sys.executable, "-m", "gram", "train", "nqueens-8/gram", *TINY, "--out", str(out)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return out


@pytest.fixture(scope="session")
def tiny() -> list[str]:
    """Overrides that make the recipe nqueens-8/gram a matter of a second."""
    return TINY
