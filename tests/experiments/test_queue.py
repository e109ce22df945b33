"""The queue: local processes through submitit, and jobs of a SLURM cluster that is only played."""

import os
import signal
import stat
import subprocess
import sys
import time
from pathlib import Path

import pytest

from gram.errors import GramError
from gram.experiments.queue import Command, Job, Submission, is_on_cluster, run_queue

REPOSITORY = Path(__file__).parents[2]


def job(folder: Path, name: str, *arguments: str) -> Job:
    log = folder / f"{name}.log"
    return Job(arguments, log, lambda: log.is_file() and "accuracy" in log.read_text())


def test_what_is_not_done_runs_and_failures_are_returned(tmp_path: Path) -> None:
    good, bad = job(tmp_path, "good", "models"), job(tmp_path, "bad", "solve", "no-such-model", "x")
    done = Job(("models",), tmp_path / "done.log", lambda: True)
    counted: list[int] = []
    failed = run_queue([good, bad, done], Submission(at_once=2), tmp_path / "jobs", counted.append)
    assert failed == [bad]
    assert sum(counted) == 3
    assert "There is no model 'no-such-model'" in bad.log.read_text()
    assert not done.log.exists()
    assert not (tmp_path / "jobs").exists()  # submitit's files are gone
    assert run_queue([good, done], Submission(), tmp_path / "jobs", counted.append) == []


def test_the_command_passes_sigterm_on_and_has_its_threads(tmp_path: Path) -> None:
    code = (
        "from gram.experiments.queue import Command; from pathlib import Path;"
        f"print(Command(['serve', 'nqueens-8', '--port', '0'], Path({str(tmp_path / 'a.log')!r}), 1)(), flush=True)"
    )
    process = subprocess.Popen(
        [sys.executable, "-c", code],
        stdout=subprocess.PIPE,
        text=True,
        env=os.environ | {"PYTHONPATH": str(REPOSITORY)},
    )
    deadline = time.monotonic() + 120
    while not (tmp_path / "a.log").is_file() or not (tmp_path / "a.log").read_text():
        assert time.monotonic() < deadline
        assert process.poll() is None
        time.sleep(0.1)
    process.send_signal(signal.SIGTERM)
    said, _ = process.communicate(timeout=60)
    assert said.strip().lstrip("-").isdigit()  # it has ended, and so has what it started


def test_slurm_parameters_need_slurm(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(GramError, match="needs --launcher slurm"):
        Submission(parameters={"partition": "gpu"}).executor(tmp_path)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(GramError, match="SLURM cannot be used"):
        Submission("slurm").executor(tmp_path)


@pytest.fixture
def cluster(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Programs named sbatch, srun and sacct: the first keeps what it is given, the last says that it is running."""
    folder = tmp_path / "bin"
    folder.mkdir()
    programs = {
        "sbatch": f'cp "$1" {tmp_path}/submitted-$(ls {tmp_path} | wc -l).sh; echo "Submitted batch job 12"',
        "srun": "exit 0",
        "sacct": 'echo "JobID|State|NodeList"; echo "12|RUNNING|node"',
    }
    for name, text in programs.items():
        path = folder / name
        path.write_text(f"#!/bin/sh\n{text}\n")
        path.chmod(path.stat().st_mode | stat.S_IEXEC)
    monkeypatch.setenv("PATH", f"{folder}:{os.environ['PATH']}")
    return tmp_path


def test_jobs_go_to_the_cluster_once(cluster: Path) -> None:
    work = job(cluster, "train", "models")
    submission = Submission("slurm", parameters={"partition": "gpu", "timeout_min": 90, "gpus_per_node": 2})
    for _ in range(2):  # the second finds it in the cluster's queue
        assert run_queue([work], submission, cluster / "jobs", lambda count: None) == []
    (script,) = cluster.glob("submitted-*.sh")
    text = script.read_text()
    for line in ("#SBATCH --partition=gpu", "#SBATCH --time=90", "#SBATCH --gpus-per-node=2"):
        assert line in text
    assert is_on_cluster(work.log)
    assert not is_on_cluster(cluster / "other.log")
    with pytest.raises(GramError, match="SLURM cannot be used"):
        Submission("slurm", parameters={"colour": "blue"}).executor(cluster / "jobs")


def test_a_preempted_job_is_put_back_as_it_is(tmp_path: Path) -> None:
    command = Command(["models"], tmp_path / "a.log", 2)
    again = command.checkpoint()
    assert again.function is command
