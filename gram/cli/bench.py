"""The speed of training and sampling, compared with the machine's matrix multiply in the same run."""

import resource
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from statistics import median
from typing import Any

import torch
from torch.utils.flop_counter import FlopCounterMode

from gram.config import Recipe, SampleOptions
from gram.inference.sample import sample
from gram.models.multiply import multiply
from gram.tasks import make_task
from gram.training.fit import resolve_recipe
from gram.training.launch import make_fabric, prepare_machine
from gram.training.step import Trainer

MATRIX = 1024
MULTIPLIES = 10
WARM_UP = 3
REPEATS = 3


def matmul_speed(
    device: torch.device, repeats: int = MULTIPLIES, clock: Callable[[], float] = time.perf_counter
) -> float:
    """Measure the GFLOP/s of a large float32 matrix multiply, by the library that is fastest here."""
    a, b = (torch.randn(MATRIX, MATRIX, device=device) for _ in range(2))
    multiply(a, b)

    def work() -> None:
        for _ in range(repeats):
            multiply(a, b)

    return repeats * 2 * MATRIX**3 / _seconds(work, device, clock) / 1e9


def bench(recipe: Recipe, *, steps: int, puzzles: int) -> dict[str, Any]:
    """Train `steps` steps and sample `puzzles` test inputs; return all measurements, JSON-ready.

    Of a task without inputs as many samples are drawn, where a recipe's own width of 1,000 would take minutes.
    """
    config = recipe.train
    device = prepare_machine(config)
    task = make_task(recipe.task.name, **recipe.task.options)
    fabric = make_fabric(device, config.precision)
    trainer = Trainer(resolve_recipe(recipe, task), task, task.split("train"), fabric)
    for _ in range(WARM_UP):
        trainer.step()
    flops = count_flops(trainer.step)
    timed = _timed_steps(trainer, steps)
    per_step = min(timed["seconds"])
    result = {
        "recipe_task": task.name,
        "device": str(fabric.device),
        "threads": torch.get_num_threads(),
        "slots": config.slots,
        "steps_per_second": 1 / per_step,
        "supervision_steps_per_second": config.slots / per_step,
        "examples_per_second": config.slots / per_step / trainer.model.steps_per_example,
        "gflop_per_step": flops / 1e9,
        "gflop_per_second": flops / 1e9 / per_step,
        "matmul_peak_gflop_per_second": max(timed["peaks"]),
        "share_of_peak": share_of_peak(flops, timed),
        "time_shares": {name: value / sum(timed["seconds"]) for name, value in timed["parts"].items()},
        "peak_memory_megabytes": peak_memory(fabric.device),  # of training: sampling comes after
    }
    inputs, options = task.split("test").distinct(puzzles), recipe.eval
    answers = len(inputs.rows)
    if task.scoring == "generation":
        answers = min(puzzles, options.width)
        options = replace(options, width=answers)
    result["inference"] = {**_inference(trainer, inputs, options, answers), "width": options.width}
    return result


def count_flops(work: Callable[[], Any]) -> int:
    """Count the floating-point operations of the multiplies in `work`, forward and backward, with torch."""
    with FlopCounterMode(display=False) as counter:
        work()
    return int(counter.get_total_flops())


def peak_memory(device: torch.device) -> float:
    """Return the peak memory so far in megabytes, of the GPU or of the process."""
    if device.type == "cuda":
        return torch.cuda.max_memory_allocated(device) / 2**20
    unit = 2**20 if sys.platform == "darwin" else 2**10  # bytes there, kibibytes elsewhere
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / unit


def _timed_steps(trainer: Trainer, steps: int) -> dict[str, Any]:
    """Time every step, with the peak speed next to it, and split the total time into parts.

    The forward pass is also split by whether it is tracked for the gradient.
    """
    names = ("forward without gradient", "forward with gradient", "backward", "optimiser", "data")
    parts = dict.fromkeys(names, 0.0)
    device = trainer.fabric.device
    clocked: list[tuple[Any, str, str]] = [
        (trainer, "forward_backward", "forward with gradient"),
        (trainer.fabric, "backward", "backward"),
        (trainer, "clip", "optimiser"),
        (trainer, "apply", "optimiser"),
        (trainer.feeder, "offer", "data"),
        (trainer.pool, "take", "data"),
    ]
    for owner, method, name in clocked:
        _clock(owner, method, device, parts, partial(str, name))
    if trainer.model.recursive:
        untracked = "forward without gradient"
        for network in ("low", "high") if trainer.model.high is not None else ("low",):
            _clock(trainer.model, network, device, parts, lambda: "" if torch.is_grad_enabled() else untracked)
    timed = beside_peak(trainer.step, device, steps)
    parts["forward with gradient"] -= parts["forward without gradient"] + parts["backward"] + parts["data"]
    return timed | {"parts": parts}


def beside_peak(work: Callable[[], Any], device: torch.device, repeats: int) -> dict[str, Any]:
    """Time `work` several times, each with the speed of a matrix multiply just before and after.

    The speed of a machine changes over time (other work, heat), but hardly from one moment to the next.
    """
    seconds, peaks = [], []
    before = matmul_speed(device)
    for _ in range(repeats):
        seconds.append(_seconds(work, device))
        after = matmul_speed(device)
        peaks.append((before + after) / 2)
        before = after
    return {"seconds": seconds, "peaks": peaks}


def share_of_peak(flops: int, timed: dict[str, Any]) -> float:
    """Return the median fraction of the peak speed."""
    return float(median([flops / 1e9 / s / peak for s, peak in zip(timed["seconds"], timed["peaks"], strict=True)]))


def _seconds(work: Callable[[], Any], device: torch.device, clock: Callable[[], float] = time.perf_counter) -> float:
    started = clock()
    work()
    _wait(device)
    return clock() - started


def _clock(owner: Any, method: str, device: torch.device, parts: dict[str, float], name: Callable[[], str]) -> None:
    """Add up in `parts` the time that calls of a method take."""
    plain = getattr(owner, method)

    def timed(*arguments: Any, **options: Any) -> Any:
        part = name()
        started = time.perf_counter()
        result = plain(*arguments, **options)
        if part:
            _wait(device)
            parts[part] += time.perf_counter() - started
        return result

    # Not by assignment: torch modules register what is assigned to them.
    object.__setattr__(owner, method, timed)


def _inference(trainer: Trainer, asked: Any, options: SampleOptions, answers: int) -> dict[str, Any]:
    steps = []

    def draw() -> None:
        drawn = sample(trainer.ema, asked.inputs, options, puzzle_ids=asked.puzzle_ids)
        steps.append(int(drawn.steps.max()))

    threads = torch.get_num_threads()
    torch.set_num_threads(1)  # torch counts in the calling thread only, and with one thread all rows are sampled there
    flops = count_flops(draw)
    torch.set_num_threads(threads)
    timed = beside_peak(draw, trainer.fabric.device, REPEATS)
    seconds = min(timed["seconds"])
    return {
        "puzzles_per_second": answers / seconds,
        "depth": steps[-1],  # also of models that have no such option: the tokens of AR, the steps of diffusion
        "gflop_per_second": flops / 1e9 / seconds,
        "share_of_peak": share_of_peak(flops, timed),
    }


def _wait(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize(device)
