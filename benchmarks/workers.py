"""An evaluation on one core, then on as many as torch may use threads: seconds, the ratio, and the share of the peak.

    python benchmarks/workers.py nqueens-8                                  # 200 inputs, each three times
    python benchmarks/workers.py nqueens-8 --limit 772 --repeats 1 --json results/speed/workers.json

The peak is that of large matrix multiplies on the same number of cores, measured just before each run. Exits with 1 if
the outputs on one core and on several differ.
"""

import argparse
import json
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import numpy as np
import torch

from gram.cli.bench import count_flops, matmul_speed
from gram.inference.sample import sample
from gram.machine import keep_freed_memory
from gram.solver import load


def peak_of(workers: int) -> float:
    """Return the GFLOP/s of that many large multiplies side by side, each with one thread."""
    with ThreadPoolExecutor(workers, initializer=torch.set_num_threads, initargs=(1,)) as pool:
        return sum(pool.map(lambda _: matmul_speed(torch.device("cpu"), repeats=50), range(workers)))


def main() -> None:
    """Print one line for each number of cores, alternating, and the ratio of the medians."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model")
    parser.add_argument("--depth", type=int, default=8)
    parser.add_argument("--width", type=int, default=20)
    parser.add_argument("--limit", type=int, default=200)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--json", type=Path, help="write all numbers to this file")
    arguments = parser.parse_args()
    every = torch.get_num_threads()
    keep_freed_memory()
    solver = load(arguments.model)
    inputs = solver.task.split("test").distinct(arguments.limit).inputs
    options = replace(solver.options, depth=arguments.depth, width=arguments.width, halt=False)
    torch.set_num_threads(1)
    few = inputs[:8]
    flops = count_flops(lambda: sample(solver.model, few, options)) / len(few) * len(inputs)
    runs: dict[int, list[dict[str, float]]] = {workers: [] for workers in sorted({1, every})}
    found = {}
    for _ in range(arguments.repeats):
        for workers, measured in runs.items():
            peak = peak_of(workers)
            torch.set_num_threads(workers)
            started = time.perf_counter()
            found[workers] = sample(solver.model, inputs, options)
            seconds = time.perf_counter() - started
            speed = flops / 1e9 / seconds
            measured.append({"seconds": seconds, "gflops": speed, "peak_gflops": peak, "share_of_peak": speed / peak})
            print(
                f"{workers} core(s): {seconds:.1f} s, {speed:.0f} GFLOP/s, {speed / peak:.1%} of the peak of "
                f"{peak:.0f} GFLOP/s",
                flush=True,
            )
    medians = {
        str(workers): {key: float(np.median([run[key] for run in measured])) for key in measured[0]}
        for workers, measured in runs.items()
    }
    same = all(np.array_equal(drawn.outputs, found[1].outputs) for drawn in found.values())
    ratio = medians["1"]["seconds"] / medians[str(every)]["seconds"]
    print(
        f"ratio {ratio:.2f}, {medians[str(every)]['share_of_peak']:.1%} of the peak of {every} core(s) "
        f"({len(inputs)} inputs, {arguments.depth} x {arguments.width}); identical: {same}"
    )
    settings = {"model": arguments.model, "inputs": len(inputs), "depth": arguments.depth, "width": arguments.width}
    result = {**settings, "repeats": arguments.repeats, "cores": medians, "ratio": ratio, "identical": same}
    if arguments.json is not None:
        arguments.json.write_text(json.dumps(result, indent=1) + "\n")
    sys.exit(not same)


if __name__ == "__main__":
    main()
