"""`gram reproduce` in real processes: ended in the middle of a training, and resumed by the same command."""

import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from gram.files import locked
from gram.training.run_checkpoint import checkpoints_of

REPOSITORY = Path(__file__).parents[2]
STEPS = 1200
CHANGES = (
    "task.options.size=5",
    "model.dim=16",
    "model.channel_hidden=16",
    "model.token_hidden=16",
    "model.guidance_hidden=16",
    "model.supervision_steps=2",
    f"train.steps={STEPS}",
    f"train.eval_every={STEPS}",
    "train.save_every=20",
    "train.slots=8",
    "train.eval_inputs=4",
)
RUN = "nqueens-8-stochasticity-only"


def start(folder: Path, launcher: str, output: Path) -> subprocess.Popen[bytes]:
    """Start the command in a folder; what it prints goes to a file, because its jobs would keep a pipe open."""
    changes = [part for change in CHANGES for part in ("--set", change)]
    line = [sys.executable, "-m", "gram", "reproduce", "ablation-mechanism", "--only", RUN, "--launcher", launcher]
    with output.open("a") as file:
        return subprocess.Popen(
            [*line, *changes],
            cwd=folder,
            stdout=file,
            stderr=subprocess.STDOUT,
            env=os.environ | {"PYTHONPATH": str(REPOSITORY)},
        )


@pytest.mark.slow
@pytest.mark.timeout(1800)
@pytest.mark.parametrize(("number", "launcher"), [(signal.SIGTERM, "local"), (signal.SIGKILL, "none")])
def test_the_same_command_resumes_what_was_ended(tmp_path: Path, number: signal.Signals, launcher: str) -> None:
    folder, output = tmp_path / "runs" / "reproduce" / f"{RUN}-seed0", tmp_path / "output.txt"
    log = folder.with_name(f"{folder.name}.log") if launcher == "local" else output
    result = tmp_path / "results" / "ablation-mechanism" / f"{RUN}-seed0.json"
    deadline = time.monotonic() + 900
    first = start(tmp_path, launcher, output)
    try:
        while not checkpoints_of(folder):
            assert time.monotonic() < deadline
            assert first.poll() is None, output.read_text()
            time.sleep(0.02)
        first.send_signal(number)
        first.wait(timeout=300)
    finally:
        first.kill()
    with locked(folder):  # nobody works there any more
        assert not result.exists()
    if number == signal.SIGTERM:  # it was passed on to the training, which saved itself
        assert first.returncode == 128 + signal.SIGTERM
        assert "the same command resumes them" in " ".join(output.read_text().split())
        assert "Interrupted and saved after step" in log.read_text()

    second = start(tmp_path, launcher, output)
    try:
        assert second.wait(timeout=900) == 0, output.read_text()
    finally:
        second.kill()
    resumed = re.search(rf"Resuming after step (\d+) of {STEPS}", log.read_text())
    assert resumed is not None
    assert 20 <= int(resumed[1]) < STEPS
    lines = (folder / "metrics.jsonl").read_text().splitlines()
    assert [json.loads(line)["step"] for line in lines if '"loss"' in line] == list(range(20, STEPS + 1, 20))
    assert json.loads(result.read_text())["training"]["steps"] == STEPS
    assert (result.parent / "table.md").is_file()
