"""An evaluation on one worker, then on as many as torch may use threads: the ratio, and the share of the peak.

python benchmarks/workers.py nqueens-8
"""

import argparse
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

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
    """Print one line for each number of workers, alternating, and the ratio of the medians."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model")
    parser.add_argument("--depth", type=int, default=8)
    parser.add_argument("--width", type=int, default=20)
    parser.add_argument("--limit", type=int, default=200)
    parser.add_argument("--repeats", type=int, default=3)
    arguments = parser.parse_args()
    every = torch.get_num_threads()
    keep_freed_memory()
    solver = load(arguments.model)
    inputs = solver.task.split("test").distinct(arguments.limit).inputs
    options = replace(solver.options, depth=arguments.depth, width=arguments.width, halt=False)
    torch.set_num_threads(1)
    few = inputs[:8]
    flops = count_flops(lambda: sample(solver.model, few, options)) / len(few) * len(inputs)
    seconds: dict[int, list[float]] = {1: [], every: []}
    found = {}
    for _ in range(arguments.repeats):
        for workers, times in seconds.items():
            peak = peak_of(workers)
            torch.set_num_threads(workers)
            started = time.perf_counter()
            found[workers] = sample(solver.model, inputs, options)
            times.append(time.perf_counter() - started)
            speed = flops / 1e9 / times[-1]
            print(
                f"{workers} worker(s): {times[-1]:.1f} s, {speed:.0f} GFLOP/s, {speed / peak:.1%} of the peak of "
                f"{peak:.0f} GFLOP/s",
                flush=True,
            )
    same = all(np.array_equal(drawn.outputs, found[1].outputs) for drawn in found.values())
    ratio = np.median(seconds[1]) / np.median(seconds[every])
    print(f"ratio {ratio:.2f} ({len(inputs)} inputs, {arguments.depth} x {arguments.width}); identical: {same}")


if __name__ == "__main__":
    main()
