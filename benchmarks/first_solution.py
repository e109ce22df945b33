"""Seconds until a verified solution, puzzle after puzzle on one thread: quantiles, and how many were solved.

GRAM_DATA=... python benchmarks/first_solution.py FOLDER --split validation --limit 200 --json FILE
"""

import argparse
import json
import time
from pathlib import Path

import numpy as np
import torch

from gram.inference.anytime import Until
from gram.machine import keep_freed_memory
from gram.solver import load


def main() -> None:
    """Print a line now and then, and the quantiles at the end."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model")
    parser.add_argument("--split", default="test", choices=("train", "validation", "test"))
    parser.add_argument("--limit", type=int, default=200)
    parser.add_argument("--seconds", type=float, default=60.0, help="give a puzzle up after so long")
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    keep_freed_memory()
    solver = load(arguments.model)
    data = solver.task.split(arguments.split).distinct(arguments.limit)
    solver.solve(data.inputs[0], until="first")  # warm
    seconds, trajectories, solved = [], [], []
    for number, puzzle in enumerate(data.inputs, start=1):
        started = time.perf_counter()
        search = solver.stream(puzzle, until=Until("first"))
        for _ in search:
            if time.perf_counter() - started > arguments.seconds:
                break
        seconds.append(time.perf_counter() - started)
        trajectories.append(search.found.steps.shape[1])
        solved.append(bool(search.reason == "a solution was verified"))
        if number % 20 == 0:
            done = f"{number} of {len(data.inputs)}"
            print(f"{done}: {sum(solved)} solved, median {np.median(seconds):.2f} s", flush=True)
    result = {
        "model": arguments.model,
        "split": arguments.split,
        "split_hash": solver.task.split_hash(),
        "puzzles": len(seconds),
        "solved": float(np.mean(solved)),
        "given_up_after_seconds": arguments.seconds,
        "seconds": {f"{q}%": round(float(np.percentile(seconds, q)), 3) for q in (5, 50, 90, 95, 99)},
        "trajectories": {f"{q}%": float(np.percentile(trajectories, q)) for q in (50, 90, 95, 99)},
    }
    print(json.dumps(result, indent=1))
    if arguments.json:
        arguments.json.write_text(json.dumps(result, indent=1) + "\n")


if __name__ == "__main__":
    main()
