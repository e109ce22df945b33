"""The options of commands that run many jobs: `sweep` and `reproduce`."""

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from gram.cli.common import console, say
from gram.config import parse_options
from gram.errors import GramError
from gram.experiments.queue import Job, Launcher, Submission, run_queue
from gram.progress import bar


@dataclass(frozen=True)
class Launching:
    """Where and how many runs are trained at once."""

    jobs: Annotated[int, typer.Option(min=1, help="Runs at once. Default: one per core.")] = os.cpu_count() or 1
    threads: Annotated[int, typer.Option(min=1, help="Threads of each run.")] = 1
    launcher: Annotated[
        Launcher, typer.Option(help="local: processes on this machine; slurm: jobs of a cluster, through submitit.")
    ] = "local"
    slurm: Annotated[
        str, typer.Option(help="Parameters of SLURM jobs, such as partition=gpu,gpus_per_node=1,timeout_min=600.")
    ] = ""

    def run(self, jobs: Sequence[Job], folder: Path) -> list[Job]:
        """Run what is not done, and return what failed; submitit keeps its files in `folder`."""
        parameters = parse_options(self.slurm.split(",")) if self.slurm else {}
        submission = Submission(self.launcher, self.jobs, parameters)
        with bar(console, "runs", len(jobs)) as advance:
            failed = run_queue(jobs, submission, folder, advance)
        if self.launcher == "slurm" and any(not job.done() for job in jobs):
            say("The runs are in the cluster's queue: the same command shows what is done, and sends what is missing.")
        return failed


def check_none_failed(failed: Sequence[Job], total: int) -> None:
    """Raise `GramError` that names the log of the first failure, if there is one."""
    if failed:
        raise GramError(f"{len(failed)} of {total} runs failed: see {failed[0].log}.")
