"""Puzzles per second with halting and a batch that refills, beside every trajectory at full depth, in one run.

python benchmarks/halting.py nqueens-8 --depth 16 --halt-at 0.99
"""

import argparse
import time
from dataclasses import replace

import torch

from gram.evaluation.metrics import measure
from gram.inference.sample import sample
from gram.machine import keep_freed_memory
from gram.solver import load


def main() -> None:
    """Print one line for each, and the ratio."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model")
    parser.add_argument("--depth", type=int, default=16)
    parser.add_argument("--width", type=int, default=20)
    parser.add_argument("--halt-at", type=float, default=None, help="default: the model's recipe")
    parser.add_argument("--limit", type=int, default=200)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    keep_freed_memory()
    solver = load(arguments.model)
    inputs = solver.task.split("test").distinct(arguments.limit).inputs
    full = replace(solver.options, depth=arguments.depth, width=arguments.width, halt=False)
    halting = replace(full, halt=True, halt_at=arguments.halt_at or full.halt_at)
    rates = []
    for name, options in (("full depth", full), (f"halting at {halting.halt_at}", halting)):
        sample(solver.model, inputs[:4], options)  # warm
        started = time.perf_counter()
        found = sample(solver.model, inputs, options)
        rates.append(len(inputs) / (time.perf_counter() - started))
        figures = measure(solver.task, inputs, found)
        print(
            f"{name}: {rates[-1]:.2f} puzzles/s, mean steps {found.steps.mean():.2f}, "
            f"valid {100 * figures.valid_share.mean():.2f}% of all samples, "
            f"coverage {100 * figures.coverage.mean():.2f}%",
            flush=True,
        )
    print(f"ratio {rates[1] / rates[0]:.2f} (depth {arguments.depth} x width {arguments.width}, {len(inputs)} inputs)")


if __name__ == "__main__":
    main()
