"""A queue of commands, several at a time, each in a process of its own: local processes, or jobs of a SLURM cluster.

Both go through submitit. A command must be one that resumes what it finds, as `gram train --resume` does: then a queue
can be stopped and started again at any point, and a job that a cluster preempts is simply put back.
"""

import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import submitit

from gram.errors import GramError
from gram.files import read_json, write_json
from gram.training.shutdown import graceful_shutdown, handling

Launcher = Literal["local", "slurm"]
FOREVER = 60 * 24 * 365
"""Minutes after which submitit's local executor would stop a job."""
A_DAY = 60 * 24
"""Minutes of a SLURM job unless its parameters say otherwise; a job that runs out of time is put back and resumes."""
SHARED = ("name", "timeout_min", "mem_gb", "nodes", "cpus_per_task", "gpus_per_node", "tasks_per_node")
"""Parameters that submitit has for every kind of cluster; others are SLURM's own."""
POLL_SECONDS = 0.1
STOPPED = "Stopped, and all runs were saved: the same command resumes them."


@dataclass(frozen=True)
class Job:
    """One command of a queue."""

    arguments: tuple[str, ...]
    """of `gram`"""
    log: Path
    """file for all that it prints; the id of a cluster's job stands beside it"""
    done: Callable[[], bool]
    """whether its result is there"""
    threads: int = 1


@dataclass(frozen=True)
class Submission:
    """How the jobs of a queue are started."""

    launcher: Launcher = "local"
    at_once: int = 1
    """local processes at a time; a cluster decides by itself"""
    parameters: Mapping[str, Any] = field(default_factory=dict)
    """of submitit's SLURM executor, such as partition=gpu, gpus_per_node=1, timeout_min=600"""

    def executor(self, folder: Path) -> Any:
        """Return submitit's executor, which keeps its files in `folder`; `GramError` if there is no such cluster."""
        folder.mkdir(parents=True, exist_ok=True)
        if self.launcher == "local":
            if self.parameters:
                raise GramError("--slurm sets parameters of SLURM jobs: it needs --launcher slurm.")
            executor = submitit.LocalExecutor(folder)
            # Without this, submitit hides all GPUs from a local job.
            executor.update_parameters(timeout_min=FOREVER, visible_gpus=_gpus(), gpus_per_node=len(_gpus()))
            return executor
        try:
            cluster = submitit.AutoExecutor(folder, cluster="slurm")
            named = {name if name in SHARED else f"slurm_{name}": value for name, value in self.parameters.items()}
            cluster.update_parameters(**{"timeout_min": A_DAY, **named})
        except (RuntimeError, TypeError, NameError, ValueError, AssertionError) as error:
            raise GramError(f"SLURM cannot be used: {' '.join(str(error).split())}.") from error
        return cluster


class Command:
    """What a job runs: `gram` with arguments, its output in a file; SIGTERM is passed on, and it saves itself."""

    def __init__(self, arguments: Sequence[str], log: Path, threads: int, parent: int | None = None) -> None:
        self.arguments, self.log, self.threads = tuple(arguments), log.resolve(), threads
        self.folder, self.parent = Path.cwd(), parent

    def __call__(self) -> int:
        """Run to the end and return the exit code."""
        command = [sys.executable, "-m", "gram", *self.arguments]
        environment = os.environ | {"OMP_NUM_THREADS": str(self.threads)}
        with self.log.open("ab") as file:
            process = subprocess.Popen(command, stdout=file, stderr=subprocess.STDOUT, env=environment, cwd=self.folder)

            with handling(lambda _number, _frame: process.terminate(), signal.SIGTERM):
                while process.poll() is None:
                    if self.parent is not None and not _is_running(self.parent):  # the queue was killed
                        process.terminate()
                    time.sleep(POLL_SECONDS)
        return process.returncode

    def checkpoint(self) -> "submitit.helpers.DelayedSubmission":
        """Put a job that the cluster takes away back into its queue, where it resumes."""
        return submitit.helpers.DelayedSubmission(self)


def _is_running(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    return True


def job_file(log: Path) -> Path:
    """Return the file that names the cluster's job."""
    return log.with_suffix(".job")


def is_on_cluster(log: Path) -> bool:
    """Return whether a job that was sent to a cluster is waiting or running there."""
    path = job_file(log)
    if not path.is_file():
        return False
    about = read_json(path)
    job: submitit.SlurmJob[int] = submitit.SlurmJob(about["folder"], about["id"])
    return not job.done()


def run_queue(jobs: Sequence[Job], submission: Submission, folder: Path, progress: Callable[[int], None]) -> list[Job]:
    """Run the jobs that are not done, and return those that failed; submitit's own files are kept in `folder`.

    Local: wait for all. SIGTERM and Ctrl-C stop them; each saves itself. SLURM: submit them and return at once, with
    the jobs that are already there left alone; the same command later finds their results.
    """
    waiting = [job for job in jobs if not job.done()]
    progress(len(jobs) - len(waiting))
    if not waiting:
        return []
    executor = submission.executor(folder)
    if submission.launcher == "slurm":
        for job in waiting:
            if not is_on_cluster(job.log):
                submitted = _submit(executor, job)
                write_json(job_file(job.log), {"id": submitted.job_id, "folder": str(folder.resolve())}, sealed=False)
        return []
    try:
        return _run_here(waiting, executor, submission.at_once, progress)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _run_here(waiting: list[Job], executor: Any, at_once: int, progress: Callable[[int], None]) -> list[Job]:
    waiting = list(waiting)
    running: list[tuple[Job, Any]] = []
    failed: list[Job] = []
    with graceful_shutdown() as stop:
        try:
            with stop.at_once(STOPPED):
                while waiting or running:
                    while waiting and len(running) < at_once:
                        job = waiting.pop(0)
                        running.append((job, _submit(executor, job)))
                    time.sleep(POLL_SECONDS)
                    for job, submitted in [each for each in running if each[1].done()]:
                        running.remove((job, submitted))
                        progress(1)
                        if not job.done():
                            failed.append(job)
        finally:
            for _, submitted in running:
                os.kill(int(submitted.job_id), signal.SIGTERM)  # its controller, which passes it on
            while any(not submitted.done() for _, submitted in running):
                time.sleep(POLL_SECONDS)
    return failed


def _submit(executor: Any, job: Job) -> Any:
    here = os.getpid() if isinstance(executor, submitit.LocalExecutor) else None
    job.log.parent.mkdir(parents=True, exist_ok=True)
    # Processes that are started here ignore Ctrl-C: submitit would kill a job before it has saved itself.
    with handling(signal.SIG_IGN, signal.SIGINT):
        return executor.submit(Command(job.arguments, job.log, job.threads, here))


def _gpus() -> list[int]:
    import torch

    return list(range(torch.cuda.device_count()))
