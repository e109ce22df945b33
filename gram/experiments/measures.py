"""What is measured of a trained model, by the name that entries use. Everything that is returned is JSON-ready."""

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import numpy as np
import torch
from rich.console import Console

from gram.errors import GramError
from gram.evaluation.evaluate import evaluate
from gram.evaluation.generation import score_samples
from gram.evaluation.tune import Tuning, tune_settings
from gram.evaluation.votes import score_votes
from gram.experiments.images import image_rows
from gram.experiments.scaling import scaling_study
from gram.inference.judge import judge
from gram.inference.sample import sample, sharing_depths
from gram.inference.stream import blank_input, generate
from gram.plots.latent import latent_paths
from gram.progress import bar
from gram.solver import Solver
from gram.tasks.base import Distinct, Tokens, multimodal_input
from gram.training.log import read_metrics

if TYPE_CHECKING:
    from gram.tasks.arc.task import ARC

RECENT = 10
"""Lines of the training's log over which its last metrics are averaged."""


@dataclass(frozen=True)
class Measured:
    """A trained model that is about to be measured."""

    solver: Solver
    folder: Path | None
    """of its training; None for a shipped model"""
    sampling: dict[str, Any]
    """sampling options that differ from the model's own"""
    console: Console


def solutions(
    measured: Measured, *, limit: int | None = None, split: Any = "test", full_depth: bool = False
) -> dict[str, Any]:
    """Accuracy and coverage in every weighting, with intervals; or pass@k for ARC.

    With `full_depth`, what halts is measured without halting too.
    """
    solver = measured.solver
    options = solver.with_options(**measured.sampling)
    examples = solver.task.split(split)
    total = len(examples.distinct(limit).rows) * options.width * (1 + full_depth)
    with bar(measured.console, "measuring", total) as advance:
        return evaluate(
            solver.model,
            solver.task,
            split,
            options,
            limit=limit,
            examples=examples,
            progress=advance,
            full_depth=full_depth,
        )


def scaling(
    measured: Measured,
    *,
    depths: tuple[int, ...],
    widths: tuple[int, ...],
    limit: int | None = None,
    split: Any = "test",
) -> dict[str, Any]:
    """Accuracy by every rule, and coverage, at each depth x width, and by the number of solutions at each width."""
    return scaling_study(measured.solver, depths, widths, measured.console, limit=limit, split=split)


def generation(measured: Measured, *, count: int) -> dict[str, Any]:
    """Validity, uniqueness and novelty of samples of the blank input."""
    solver = measured.solver
    options = solver.with_options(**measured.sampling)
    with bar(measured.console, "measuring", count) as advance:
        samples = generate(solver, count, options, progress=advance)
    used = options.only(solver.model.supported - {"width", "keep_steps", "keep_states"})
    return {**score_samples(solver.task, samples), **used}


def images(measured: Measured, *, count: int, depths: tuple[int, ...]) -> dict[str, Any]:
    """Inception Score and FID of images, by the shipped classifier; of a recursive model at several depths."""
    solver = measured.solver
    options = solver.with_options(**measured.sampling)
    total = count * len(sharing_depths(solver.model, options, depths))
    with bar(measured.console, "measuring", total) as advance:
        rows = image_rows(solver.task.name, solver, count=count, depths=list(depths), options=options, progress=advance)
    return {"records": [row.as_json() for row in rows], "samples": count}


def elbo(measured: Measured) -> dict[str, Any]:
    """The full negative ELBO beside the surrogate on the validation split, in the course of the training."""
    if measured.folder is None:
        raise GramError("A shipped model has no log of its training: the ELBO curve needs a run.")
    lines, _ = read_metrics(measured.folder)
    curve = [
        {name: line[f"validation_{name}"] for name in ("negative_elbo", "surrogate")} | {"step": line["step"]}
        for line in lines
        if line.get("validation_negative_elbo") is not None
    ]
    return {"curve": curve}


def latent(measured: Measured, *, width: int, depth: int | None = None) -> dict[str, Any]:
    """The latent states of many trajectories of one input in two dimensions, with their losses."""
    solver = measured.solver
    given = multimodal_input(solver.task)
    more = {} if depth is None else {"depth": depth}
    options = solver.with_options(**{**measured.sampling, "width": width, **more})
    paths = latent_paths(solver, given, options)
    return {
        "input": given.tolist(),
        "width": len(paths.valid),
        "depth": options.depth,
        "temperature": options.temperature,
        "points": np.round(paths.points, 3).tolist(),
        "losses": paths.losses.tolist(),
        "valid": paths.valid.tolist(),
        "explained": paths.explained.tolist(),
    }


def process(measured: Measured, *, samples: int, columns: int) -> dict[str, Any]:
    """How a few samples of the blank input come about: their tokens before the first step, and on to the last."""
    solver = measured.solver
    history = _history(solver, samples, measured.sampling)
    steps = sorted(history)
    chosen = sorted({steps[int(place)] for place in np.linspace(0, len(steps) - 1, columns).round()})
    frames = [{"step": step, "tokens": [row.tolist() for row in history[step]]} for step in chosen]
    valid = judge(solver.task, blank_input(solver.task)[0], history[steps[-1]]).valid
    return {"frames": frames, "steps": steps[-1], "valid": valid.tolist(), "checked": solver.task.has_rules}


def _history(solver: Solver, samples: int, sampling: dict[str, Any]) -> dict[int, Tokens]:
    """Outputs [samples, length] by the number of steps made; what a recursive model decodes from z_0 is step 0."""
    blank = blank_input(solver.task)
    if not solver.model.recursive:
        given = torch.from_numpy(np.repeat(blank, samples, axis=0)).to(solver.model.device)
        return solver.model.process(given)
    options = solver.with_options(**{**sampling, "width": samples, "keep_steps": True, "halt": False})
    outputs = sample(solver.model, blank, options).history[0]
    with torch.inference_mode():
        first = solver.reasoner.decoder.logits(solver.reasoner.initial_state(samples).h).argmax(dim=-1)
    return {0: first.cpu().numpy(), **{step + 1: outputs[0][:, step] for step in range(outputs.shape[2])}}


def votes(
    measured: Measured, *, widths: tuple[int, ...], augmentations: tuple[int, ...], limit: int | None = None
) -> dict[str, Any]:
    """ARC: pass@k by the number of samples, and of augmentations of every test input that vote (0: the original)."""
    solver = measured.solver
    task = cast("ARC", solver.task)
    asked = task.split("test").distinct(limit)
    if asked.puzzle_ids is None:
        raise GramError(f"Task {task.name} has no augmentations to vote.")
    number = _augmentation_numbers(task, asked.puzzle_ids)
    wanted = np.flatnonzero(number <= max(augmentations))
    asked = Distinct(asked.inputs[wanted], asked.rows[wanted], asked.puzzle_ids[wanted])
    options = solver.with_options(**{**measured.sampling, "width": max(widths)})
    with bar(measured.console, "measuring", len(wanted) * options.width) as advance:
        found = sample(solver.model, asked.inputs, options, puzzle_ids=asked.puzzle_ids, progress=advance)
    records = []
    for most in augmentations:
        chosen = np.flatnonzero(number[wanted] <= most)
        some = Distinct(asked.inputs[chosen], asked.rows[chosen], cast(Tokens, asked.puzzle_ids)[chosen])
        for width in widths:
            scores = score_votes(task, some, found.select(np.s_[chosen, :width]))
            records.append({"augmentations": most, "width": width, **scores})
    return {"records": records, "depth": options.depth, "temperature": options.temperature}


def _augmentation_numbers(task: "ARC", puzzle_ids: Tokens) -> Tokens:
    """Return which augmentation of its task each id [rows] stands for: 0 for the original."""
    seen: Counter[str] = Counter()
    numbers = []
    for name in task.ids.names:
        numbers.append(seen[name])
        seen[name] += 1
    return np.array(numbers, dtype=np.int64)[puzzle_ids]


def settings_grid(
    measured: Measured,
    *,
    depths: tuple[int, ...],
    temperatures: tuple[float, ...],
    width: int,
    limit: int | None = None,
) -> dict[str, Any]:
    """Accuracy and coverage on the VALIDATION split over depths and temperatures, and the training's last metrics."""
    tuning = Tuning(depths, tuple((t, t) for t in temperatures), limit, accuracy=1)
    tuned = tune_settings(measured.solver, tuning, measured.console, width=width)
    shown = ("depth", "temperature", "accuracy", "accuracy_all_samples", "coverage", "uniform_coverage", "intervals")
    records = [{name: item[name] for name in shown} for item in tuned.tried]
    return {"records": records, "inputs": limit, "width": width, "training": last_metrics(measured.folder)}


def last_metrics(folder: Path | None) -> dict[str, float]:
    """Return the means of a training's metrics over its last lines."""
    if folder is None:
        return {}
    lines, _ = read_metrics(folder)
    names = ("reconstruction", "posterior_accuracy", "rollout_accuracy", "kl_1", "kl_2", "kl_3")
    found = {name: [line[name] for line in lines if line.get(name) is not None][-RECENT:] for name in names}
    return {name: float(np.mean(values)) for name, values in found.items() if values}


MEASURES: dict[str, Callable[..., dict[str, Any]]] = {
    "solutions": solutions,
    "scaling": scaling,
    "generation": generation,
    "images": images,
    "elbo": elbo,
    "latent": latent,
    "process": process,
    "votes": votes,
    "settings_grid": settings_grid,
}
