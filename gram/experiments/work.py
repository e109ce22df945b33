"""Take one run of an entry from data to its result file: train or resume, tune, measure, write."""

import json
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any

from rich.console import Console

from gram.checkpoints.folder import change_eval_settings
from gram.evaluation.tune import Tuning, tune_settings
from gram.experiments.entry import Entry, Run, Scale
from gram.experiments.measures import MEASURES, Measured
from gram.experiments.results import (
    provenance,
    result_path,
    shipped_model,
    training_folder,
    training_recipe,
    write_result,
)
from gram.files import read_json, write_json
from gram.solver import Solver, load
from gram.training import loop

TUNED_FILE = "tuned.json"


def execute(
    entry: Entry, runs: Sequence[Run], seed: int, scale: Scale, console: Console, *, threads: int, extra: Sequence[str]
) -> None:
    """Train what these runs share (or resume it), and measure and write each of them."""
    first = runs[0]
    if first.shipped:
        for run in runs:
            solver = load(run.shipped)
            solver.check_data()
            _measure(entry, run, seed, scale, console, solver, None, {"weights": shipped_model(run)[1]})
        return
    folder = training_folder(first, seed)
    recipe = training_recipe(first, seed, threads=threads, extra=extra)
    if not (folder / loop.TEST_FILE).is_file():
        with _cpu_time(folder):
            loop.resume(folder, console, recipe)
    tuned = None if first.tuning is None else _tuned(folder, first.tuning, console)
    ended = read_json(folder / loop.TEST_FILE)
    training = {"steps": ended["train_steps"], "minutes": ended["train_minutes"], "cpu_minutes": _cpu_minutes(folder)}
    about: dict[str, Any] = {"settings": recipe.model_dump(mode="json"), "training": training, "tuning": tuned}
    if extra:
        about["extra"] = list(extra)  # the command alone does not say it
    for run in runs:
        _measure(entry, run, seed, scale, console, load(folder), folder, about)


def _measure(
    entry: Entry,
    run: Run,
    seed: int,
    scale: Scale,
    console: Console,
    solver: Solver,
    folder: Path | None,
    about: dict[str, Any],
) -> None:
    measured = Measured(solver, folder, dict(run.sampling), console)
    metrics = MEASURES[run.measure or entry.measure](measured, **{**entry.measuring, **run.measuring})
    task = {
        "task": solver.task.name,
        "split_hash": solver.task.split_hash(),
        "parameters": solver.model.parameter_count,
    }
    content = {**provenance(entry, run, seed, scale), **task, **about, "metrics": metrics}
    path = result_path(entry, run, seed)
    write_result(path, content)
    console.print(f"Result: {path}", markup=False, highlight=False, soft_wrap=True)


def _tuned(folder: Path, tuning: Tuning, console: Console) -> dict[str, Any]:
    """Choose depth and temperature on the validation split as `gram tune` does, once, and write them into the model."""
    path = folder / TUNED_FILE
    if path.is_file():
        found: dict[str, Any] = read_json(path)
        return found
    tuned = tune_settings(load(folder), tuning, console)
    change_eval_settings(folder, **tuned.settings)
    shown = (*tuned.settings, "accuracy_all_samples", "coverage")
    content = {
        "rule": asdict(tuning),
        "chosen": {name: tuned.chosen[name] for name in shown},
        "tried": [{name: item[name] for name in shown} for item in tuned.tried],
    }
    write_json(path, content)
    return content


@contextmanager
def _cpu_time(folder: Path) -> Iterator[None]:
    """Add the CPU seconds of this part of a training, with its start and validations, to a file beside its folder."""
    started = time.process_time()
    try:
        yield
    finally:
        with _time_file(folder).open("a") as file:
            file.write(json.dumps({"cpu_seconds": round(time.process_time() - started, 1)}) + "\n")


def _cpu_minutes(folder: Path) -> float | None:
    """Return the CPU minutes of a training over all its parts; a part that was killed is not counted."""
    path = _time_file(folder)
    if not path.is_file():
        return None
    return sum(float(json.loads(line)["cpu_seconds"]) for line in path.read_text().splitlines()) / 60


def _time_file(folder: Path) -> Path:
    return folder.with_name(f"{folder.name}.time")
