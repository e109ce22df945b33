"""Several runs of one recipe, side by side: every combination of the given values; what was interrupted goes on."""

import json
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

from gram.errors import GramError
from gram.evaluation.evaluate import HEADLINES

SEED = "train.seed"


@dataclass
class Job:
    """One run of a sweep."""

    values: dict[str, str]
    """the dotted keys that differ between the runs"""
    folder: Path
    process: subprocess.Popen[bytes] | None = None

    @property
    def done(self) -> bool:
        """Whether it has been evaluated."""
        return (self.folder / "test.json").is_file()


def plan(overrides: list[str], out: Path) -> tuple[list[str], list[Job]]:
    """What is the same in all runs, and the runs: one for every combination of values such as train.seed=0,1,2."""
    fixed, varied = [], {}
    for override in overrides:
        key, equals, value = override.partition("=")
        if not equals:
            raise GramError(f"'{override}' is not of the form key=value, such as train.seed=0,1,2.")
        if "," in value and not value.startswith(("[", "{")):
            varied[key] = value.split(",")
        else:
            fixed.append(override)
    if not varied:
        raise GramError("A sweep needs a key with several values, such as train.seed=0,1,2.")
    combinations = (dict(zip(varied, values, strict=True)) for values in product(*varied.values()))
    return fixed, [Job(values, out / "_".join(f"{k}={v}" for k, v in values.items())) for values in combinations]


def run_jobs(
    recipe: Path, fixed: list[str], jobs: list[Job], *, at_once: int, threads: int, progress: Callable[[int], None]
) -> list[Job]:
    """Run what is not done, `at_once` processes at a time; the runs that failed. Each has its output in `log.txt`."""
    waiting = [job for job in jobs if not job.done]
    progress(len(jobs) - len(waiting))
    running: list[Job] = []
    failed: list[Job] = []
    try:
        while waiting or running:
            while waiting and len(running) < at_once:
                running.append(_start(recipe, fixed, waiting.pop(0), threads))
            time.sleep(0.1)
            for job in [job for job in running if job.process is not None and job.process.poll() is not None]:
                running.remove(job)
                progress(1)
                if not job.done:
                    failed.append(job)
    finally:
        for job in running:  # Ctrl-C or an error: each saves itself and can go on
            assert job.process is not None
            job.process.terminate()
            job.process.wait()
    return failed


def _start(recipe: Path, fixed: list[str], job: Job, threads: int) -> Job:
    overrides = [*fixed, *(f"{key}={value}" for key, value in job.values.items()), f"train.threads={threads}"]
    command = [sys.executable, "-m", "gram", "train", str(recipe), *overrides, "--resume", str(job.folder)]
    job.folder.parent.mkdir(parents=True, exist_ok=True)
    log = job.folder.with_name(f"{job.folder.name}.log")
    environment = os.environ | {"OMP_NUM_THREADS": str(threads)}
    with log.open("ab") as file:
        job.process = subprocess.Popen(command, stdout=file, stderr=subprocess.STDOUT, env=environment)
    return job


def summary(jobs: list[Job]) -> list[dict[str, Any]]:
    """Mean and standard deviation over the seeds, one entry for every combination of the other values."""
    groups: dict[tuple[tuple[str, str], ...], list[dict[str, Any]]] = {}
    for job in jobs:
        if job.done:
            others = tuple((key, value) for key, value in job.values.items() if key != SEED)
            groups.setdefault(others, []).append(json.loads((job.folder / "test.json").read_text()))
    entries = []
    for others, results in groups.items():
        entry: dict[str, Any] = {"values": dict(others), "runs": len(results)}
        names = [*HEADLINES[results[0].get("scoring", "solutions")], "train_minutes"]
        for name in ("accuracy", *names) if "accuracy" in results[0] else names:
            figures = [float(result[name]) for result in results]
            entry[name] = {
                "mean": statistics.fmean(figures),
                "deviation": statistics.stdev(figures) if len(figures) > 1 else None,
            }
        entries.append(entry)
    return entries
