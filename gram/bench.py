"""How fast a recipe trains and samples here, beside what the machine's matrix multiply can do in the same run."""

import resource
import sys
import time
from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from torch.utils.flop_counter import FlopCounterMode

from gram.config import Recipe
from gram.inference.rollout import SampleOptions, sample
from gram.machine import choose_device, keep_freed_memory
from gram.tasks import make_task
from gram.training.fit import fitted
from gram.training.launch import make_fabric
from gram.training.trainer import Trainer

PARTS = ("forward", "backward", "clip", "apply", "feed")
"""The methods of `Trainer` that a step is made of."""
MATRIX = 1024
WARM_UP = 3


def matmul_peak(device: torch.device, seconds: float = 1.0) -> float:
    """GFLOP/s of a large float32 matrix multiply: the best of many, for other work may disturb some."""
    a, b = (torch.randn(MATRIX, MATRIX, device=device) for _ in range(2))
    out = torch.empty_like(a)
    best, end = float("inf"), time.perf_counter() + seconds
    while time.perf_counter() < end:
        started = time.perf_counter()
        torch.mm(a, b, out=out)
        _wait(device)
        best = min(best, time.perf_counter() - started)
    return 2 * MATRIX**3 / best / 1e9


def bench(recipe: Recipe, *, steps: int, puzzles: int) -> dict[str, Any]:
    """Train `steps` steps and sample `puzzles` test inputs; every figure, JSON-ready."""
    config = recipe.train
    if config.threads:
        torch.set_num_threads(config.threads)
    keep_freed_memory()
    task = make_task(recipe.task.name, **recipe.task.options)
    fabric = make_fabric(choose_device(config.device), config.precision)
    trainer = Trainer(fitted(recipe, task), task, task.split("train"), fabric)
    for _ in range(WARM_UP):
        trainer.step()
    flops = count_flops(trainer.step)
    peak = matmul_peak(fabric.device)
    timed = _timed_steps(trainer, steps)
    per_step = timed["seconds"] / steps
    result = {
        "recipe_task": task.name,
        "device": str(fabric.device),
        "threads": torch.get_num_threads(),
        "slots": config.slots,
        "steps_per_second": 1 / per_step,
        "supervision_steps_per_second": config.slots / per_step,
        "examples_per_second": config.slots / per_step / trainer.objective.steps_per_example,
        "gflop_per_step": flops / 1e9,
        "gflop_per_second": flops / 1e9 / per_step,
        "matmul_peak_gflop_per_second": peak,
        "share_of_peak": flops / 1e9 / per_step / peak,
        "time_shares": {name: value / timed["seconds"] for name, value in timed["parts"].items()},
        "peak_memory_megabytes": peak_memory(fabric.device),  # of training: sampling comes after
    }
    options = SampleOptions(**recipe.eval.model_dump())
    inputs = task.split("test").distinct(puzzles)
    result["inference"] = _inference(trainer, inputs, options, peak)
    return result


def count_flops(work: Callable[[], Any]) -> int:
    """Floating-point operations of the multiplies in `work`, forward and backward, as torch counts them."""
    with FlopCounterMode(display=False) as counter:
        work()
    return int(counter.get_total_flops())


def peak_memory(device: torch.device) -> float:
    """The most memory that was in use so far: of the GPU, or of the process."""
    if device.type == "cuda":
        return torch.cuda.max_memory_allocated(device) / 2**20
    unit = 2**20 if sys.platform == "darwin" else 2**10  # bytes there, kibibytes elsewhere
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / unit


def _timed_steps(trainer: Trainer, steps: int) -> dict[str, Any]:
    """The whole time, and how it splits; the forward pass also by whether it is tracked for the gradient."""
    parts = dict.fromkeys(("forward without gradient", "forward with gradient", "backward", "optimiser", "data"), 0.0)
    names = {"forward": "forward with gradient", "clip": "optimiser", "apply": "optimiser", "feed": "data"}
    device = trainer.fabric.device
    for method in PARTS:
        _clock(trainer, method, device, parts, partial(str, names.get(method, method)))
    _clock(
        trainer.model,
        "propose",
        device,
        parts,
        lambda: "" if torch.is_grad_enabled() else "forward without gradient",
    )
    started = time.perf_counter()
    for _ in range(steps):
        trainer.step()
    _wait(device)
    seconds = time.perf_counter() - started
    parts["forward with gradient"] -= parts["forward without gradient"]
    return {"seconds": seconds, "parts": parts}


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


def _inference(trainer: Trainer, asked: Any, options: SampleOptions, peak: float) -> dict[str, Any]:
    def draw() -> None:
        sample(trainer.ema, asked.inputs, options, puzzle_ids=asked.puzzle_ids)

    flops = count_flops(draw)
    started = time.perf_counter()
    draw()
    seconds = time.perf_counter() - started
    rate = flops / 1e9 / seconds
    return {
        "puzzles_per_second": len(asked.rows) / seconds,
        "depth": options.depth,
        "width": options.width,
        "gflop_per_second": rate,
        "share_of_peak": rate / peak,
    }


def _wait(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize(device)
