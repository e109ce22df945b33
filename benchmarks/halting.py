"""Puzzles per second with halting and a batch that refills, beside every trajectory at full depth, in one run.

    python benchmarks/halting.py nqueens-8                                  # the model's own threshold, 200 inputs
    python benchmarks/halting.py nqueens-8 --depth 16 --halt-at 0.99 --json results/speed/halting.json

Prints seconds, mean steps, accuracy and coverage of both, the ratios of the seconds and of the steps, and whether the
accuracy with halting is within 0.2 points, as `gram tune` requires.
"""

import argparse
import json
import time
from dataclasses import replace
from pathlib import Path

import torch

from gram.evaluation.metrics import measure
from gram.evaluation.tune import HALTING_LOSS
from gram.inference.sample import sample
from gram.machine import keep_freed_memory
from gram.solver import load


def main() -> None:
    """Print one line for each, and the ratios."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model")
    parser.add_argument("--depth", type=int, default=16)
    parser.add_argument("--width", type=int, default=20)
    parser.add_argument("--halt-at", type=float, default=None, help="default: the model's recipe")
    parser.add_argument("--halt-by", choices=("head", "output"), default=None, help="default: the model's")
    parser.add_argument("--limit", type=int, default=200)
    parser.add_argument("--json", type=Path, help="write all numbers to this file")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    keep_freed_memory()
    solver = load(arguments.model)
    inputs = solver.task.split("test").distinct(arguments.limit).inputs
    full = replace(solver.options, depth=arguments.depth, width=arguments.width, halt=False)
    halting = replace(
        full, halt=True, halt_at=arguments.halt_at or full.halt_at, halt_by=arguments.halt_by or full.halt_by
    )
    runs = []
    for name, options in (("full depth", full), (f"halting by {halting.halt_by} at {halting.halt_at}", halting)):
        sample(solver.model, inputs[:4], options)  # warm
        started = time.perf_counter()
        found = sample(solver.model, inputs, options)
        seconds = time.perf_counter() - started
        metrics = measure(solver.task, inputs, found)
        accuracy, coverage = float(metrics.valid_share.mean()), float(metrics.coverage.mean())
        steps = float(found.steps.mean())
        runs.append({"seconds": seconds, "mean_steps": steps, "accuracy_all_samples": accuracy, "coverage": coverage})
        print(
            f"{name}: {seconds:.1f} s, {len(inputs) / seconds:.2f} puzzles/s, mean steps {steps:.2f}, "
            f"valid {accuracy:.2%} of all samples, coverage {coverage:.2%}",
            flush=True,
        )
    ratio, fewer = (runs[0][key] / runs[1][key] for key in ("seconds", "mean_steps"))
    loss = runs[0]["accuracy_all_samples"] - runs[1]["accuracy_all_samples"]
    print(
        f"ratio {ratio:.2f}, {fewer:.2f} times fewer steps, {100 * loss:.2f} points of accuracy lost: "
        f"{'safe' if loss <= HALTING_LOSS else 'not equal'} (depth {arguments.depth} x width {arguments.width}, "
        f"{len(inputs)} inputs)"
    )
    settings = {"model": arguments.model, "inputs": len(inputs), "depth": arguments.depth, "width": arguments.width}
    result = {
        **settings,
        "halt_by": halting.halt_by,
        "halt_at": halting.halt_at,
        "full_depth": runs[0],
        "halting": runs[1],
        "ratio": ratio,
    }
    if arguments.json is not None:
        arguments.json.write_text(json.dumps(result, indent=1) + "\n")


if __name__ == "__main__":
    main()
