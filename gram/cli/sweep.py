"""Several runs of one recipe, side by side: every combination of the given values; interrupted ones are resumed."""

import statistics
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Any

from gram.config import load_recipe
from gram.errors import GramError
from gram.evaluation.evaluate import HEADLINES
from gram.experiments import queue
from gram.files import read_json
from gram.training.run_checkpoint import check_same, is_empty, read_run

SEED, THREADS = "train.seed", "train.threads"
RESULT = "test.json"


@dataclass(frozen=True)
class SweepRun:
    """One run of a sweep."""

    values: dict[str, str]
    """the dotted keys that differ between the runs"""
    folder: Path
    overrides: list[str]
    """all changes to the recipe file, those that are the same in all runs as well"""

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


def plan(overrides: list[str], out: Path, *, threads: int = 1) -> list[SweepRun]:
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
        jobs.append(SweepRun(values, out / "_".join(pairs).replace("/", "-"), [*fixed, *pairs, f"{THREADS}={threads}"]))
    return jobs


def check_jobs(recipe: Path, jobs: list[SweepRun]) -> None:
    """Refuse, before anything is trained, a wrong key, equal runs, and a folder with runs of another recipe."""
    seen: dict[str, SweepRun] = {}
    for job in jobs:
        wanted = load_recipe(recipe, job.overrides)
        if (twin := seen.setdefault(wanted.model_dump_json(), job)) is not job:
            raise GramError(f"{twin.values} and {job.values} are the same run: give each value once.")
        if job.folder.exists() and not is_empty(job.folder):
            try:
                check_same(read_run(job.folder).recipe, wanted)
            except GramError as error:
                raise GramError(f"{job.folder} holds another run, choose another folder with --out. {error}") from error
    if len({job.folder for job in jobs}) < len(jobs):
        raise GramError("Two of the values lead to the same folder name: choose other values.")


def queued(recipe: Path, run: SweepRun) -> queue.Job:
    """Return the run as a job of the queue: its output goes into a file beside its folder."""
    arguments = ("train", str(recipe), *run.overrides, "--resume", str(run.folder))
    threads = int(run.overrides[-1].partition("=")[2])
    log = run.folder.with_name(f"{run.folder.name}.log")
    return queue.Job(arguments, log, lambda: run.result is not None, threads)


def summary(jobs: list[SweepRun]) -> list[dict[str, Any]]:
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
            values = [float(result[name]) for result in results]
            entry[name] = {
                "mean": statistics.fmean(values),
                "deviation": statistics.stdev(values) if len(values) > 1 else None,
            }
        entries.append(entry)
    return entries
