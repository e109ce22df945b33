"""Several runs of one recipe, side by side: every combination of the given values; interrupted ones are resumed."""

import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Any

from gram.config import load_recipe
from gram.errors import GramError
from gram.evaluation.evaluate import HEADLINES
from gram.files import read_json
from gram.training.run_checkpoint import check_same, is_empty, recipe_of_run
from gram.training.shutdown import PARENT, graceful_shutdown

SEED, THREADS = "train.seed", "train.threads"
RESULT = "test.json"


@dataclass
class Job:
    """One run of a sweep."""

    values: dict[str, str]
    """the dotted keys that differ between the runs"""
    folder: Path
    overrides: list[str]
    """all changes to the recipe file, those that are the same in all runs as well"""
    process: subprocess.Popen[bytes] | None = None

    @property
    def result(self) -> dict[str, Any] | None:
        """The evaluation of the run; None while it is not done."""
        if not (self.folder / RESULT).is_file():
            return None
        try:
            found: dict[str, Any] = read_json(self.folder / RESULT)
        except GramError:  # damaged: resuming the run evaluates it again
            return None
        return found


def plan(overrides: list[str], out: Path, *, threads: int = 1) -> list[Job]:
    """Return one run for every combination of values such as train.seed=0,1,2."""
    fixed: list[str] = []
    varied: dict[str, list[str]] = {}
    for override in overrides:
        key, equals, value = override.partition("=")
        if not equals:
            raise GramError(f"'{override}' is not of the form key=value, such as train.seed=0,1,2.")
        if key == THREADS:
            raise GramError(f"Set the threads of each run with --threads instead of {THREADS}.")
        if "," in value and not value.startswith(("[", "{")):
            if key in varied:
                raise GramError(f"{key} is given twice: give all its values at once, such as train.seed=0,1,2.")
            varied[key] = value.split(",")
        else:
            fixed.append(override)
    if not varied:
        raise GramError("A sweep needs a key with several values, such as train.seed=0,1,2.")
    jobs = []
    for combination in product(*varied.values()):
        values = dict(zip(varied, combination, strict=True))
        pairs = [f"{key}={value}" for key, value in values.items()]
        jobs.append(Job(values, out / "_".join(pairs).replace("/", "-"), [*fixed, *pairs, f"{THREADS}={threads}"]))
    return jobs


def check_jobs(recipe: Path, jobs: list[Job]) -> None:
    """Refuse, before anything is trained, a wrong key, equal runs, and a folder with runs of another recipe."""
    seen: dict[str, Job] = {}
    for job in jobs:
        wanted = load_recipe(recipe, job.overrides)
        if (twin := seen.setdefault(wanted.model_dump_json(), job)) is not job:
            raise GramError(f"{twin.values} and {job.values} are the same run: give each value once.")
        if job.folder.exists() and not is_empty(job.folder):
            try:
                check_same(recipe_of_run(job.folder), wanted)
            except GramError as error:
                raise GramError(f"{job.folder} holds another run, choose another folder with --out. {error}") from error
    if len({job.folder for job in jobs}) < len(jobs):
        raise GramError("Two of the values lead to the same folder name: choose other values.")


def run_jobs(recipe: Path, jobs: list[Job], *, at_once: int, progress: Callable[[int], None]) -> list[Job]:
    """Run what is not done, `at_once` processes at a time; return the runs that failed.

    Each has its output in a file beside its folder. SIGTERM and Ctrl-C stop all of them; each saves itself.
    """
    waiting = [job for job in jobs if job.result is None]
    progress(len(jobs) - len(waiting))
    running: list[Job] = []
    failed: list[Job] = []
    with graceful_shutdown() as stop:
        try:
            with stop.at_once("The sweep was stopped, and all its runs were saved: the same command resumes it."):
                while waiting or running:
                    while waiting and len(running) < at_once:
                        running.append(_start(recipe, waiting.pop(0)))
                    time.sleep(0.1)
                    for job in [job for job in running if _process(job).poll() is not None]:
                        running.remove(job)
                        progress(1)
                        if job.result is None:
                            failed.append(job)
        finally:
            for job in running:
                _process(job).terminate()
            for job in running:
                _process(job).wait()
    return failed


def _process(job: Job) -> subprocess.Popen[bytes]:
    assert job.process is not None
    return job.process


def _start(recipe: Path, job: Job) -> Job:
    command = [sys.executable, "-m", "gram", "train", str(recipe), *job.overrides, "--resume", str(job.folder)]
    job.folder.parent.mkdir(parents=True, exist_ok=True)
    environment = os.environ | {"OMP_NUM_THREADS": job.overrides[-1].partition("=")[2], PARENT: str(os.getpid())}
    with log_of(job).open("ab") as file:
        job.process = subprocess.Popen(command, stdout=file, stderr=subprocess.STDOUT, env=environment)
    return job


def log_of(job: Job) -> Path:
    """Return the file that holds what a run printed."""
    return job.folder.with_name(f"{job.folder.name}.log")


def summary(jobs: list[Job]) -> list[dict[str, Any]]:
    """Return the mean and standard deviation over the seeds, one entry for every combination of the other values."""
    groups: dict[tuple[tuple[str, str], ...], list[dict[str, Any]]] = {}
    for job in jobs:
        if (result := job.result) is not None:
            others = tuple((key, value) for key, value in job.values.items() if key != SEED)
            groups.setdefault(others, []).append(result)
    entries = []
    for others, results in groups.items():
        entry: dict[str, Any] = {"values": dict(others), "runs": len(results)}
        # A task without a checker has no validity.
        known = [name for name in HEADLINES[results[0].get("scoring", "solutions")] if name in results[0]]
        names = [*known, "train_minutes"]
        for name in ("accuracy", *names) if "accuracy" in results[0] else names:
            figures = [float(result[name]) for result in results]
            entry[name] = {
                "mean": statistics.fmean(figures),
                "deviation": statistics.stdev(figures) if len(figures) > 1 else None,
            }
        entries.append(entry)
    return entries
