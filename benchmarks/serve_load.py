"""Load on the service: many clients at once, each answer checked, beside what one call in this process reaches.

    python benchmarks/serve_load.py                          # 50 clients for 60 seconds against nqueens-8
    python benchmarks/serve_load.py --clients 10 --seconds 5

Prints p50 and p99 of the answers' times, the throughput in trajectories per second, and its ratio to sampling the same
puzzles in one call with as many threads. Both are measured in turns within one run, so that other work on the machine
slows both. Exits with 1 if an answer is lost, wrong, or another client's, or if the ratio is below 80%.
"""

import argparse
import asyncio
import os
import re
import subprocess
import sys
import time
from collections import Counter

import httpx
import numpy as np
import torch

from gram.inference.judge import judge
from gram.inference.sample import sample
from gram.machine import keep_freed_memory
from gram.solver import Solver, load

MODEL = "nqueens-8"
WIDTH = 20
LEAST = 0.8
"""Fraction of the throughput of one call that the service must reach."""
PUZZLES = 200
TIMEOUT = 600
"""Seconds: time is no limit here, since on a slow machine answers that were cut short could not be compared."""
ROUNDS = 3
"""How often the two are measured in turns."""


def direct(solver: Solver, puzzles: np.ndarray, seconds: float) -> float:
    """Trajectories per second of one call after another in this process, each over many puzzles, judged as well."""
    options = solver.with_options(width=WIDTH)
    started, done, group = time.perf_counter(), 0, 50
    while time.perf_counter() - started < seconds:
        some = puzzles[(done // WIDTH) % len(puzzles) :][:group]
        found = sample(solver.model, some, options)
        for given, outputs in zip(some, found.outputs, strict=True):
            judge(solver.task, given, outputs)
        done += len(some) * WIDTH
    return done / (time.perf_counter() - started)


class Load:
    """Clients that ask one puzzle after another."""

    def __init__(self, address: str, solver: Solver, puzzles: np.ndarray) -> None:
        self.address, self.solver, self.puzzles = address, solver, puzzles
        self.seconds: list[float] = []
        self.statuses: Counter[int] = Counter()
        self.wrong: list[str] = []
        self.answers: dict[tuple[int, int], list[list[int]]] = {}
        """outputs by puzzle and seed"""

    async def run(self, clients: int, seconds: float) -> float:
        """Let the clients work for so long; return trajectories per second."""
        started = time.perf_counter()
        end = started + seconds
        before = len(self.seconds)
        limits = httpx.Limits(max_connections=clients, max_keepalive_connections=clients)
        async with httpx.AsyncClient(base_url=self.address, timeout=TIMEOUT, limits=limits) as client:
            await asyncio.gather(*(self._client(client, number, end) for number in range(clients)))
        return (len(self.seconds) - before) * WIDTH / (time.perf_counter() - started)

    async def _client(self, client: httpx.AsyncClient, number: int, end: float) -> None:
        random = np.random.default_rng(number)
        while time.perf_counter() < end:
            puzzle, seed = int(random.integers(len(self.puzzles))), int(random.integers(4))
            given = self.puzzles[puzzle]
            text = "".join("Q" if token == 2 else "." for token in given)
            body = {"model": MODEL, "puzzle": text, "width": WIDTH, "seed": seed}
            own = f"{number}-{len(self.seconds)}"
            started = time.perf_counter()
            answer = await client.post("/v1/solve", json=body, headers={"x-request-id": own})
            self.statuses[answer.status_code] += 1
            if answer.status_code == 503:
                await asyncio.sleep(int(answer.headers["retry-after"]))
                continue
            self.seconds.append(time.perf_counter() - started)
            self._check(answer, own, puzzle, seed)

    def _check(self, answer: httpx.Response, own: str, puzzle: int, seed: int) -> None:
        """Whether the answer is this client's, whole, judged rightly, and the same as whenever it was asked before."""
        if answer.status_code != 200:
            self.wrong.append(f"status {answer.status_code}: {answer.text[:200]}")
            return
        content, given = answer.json(), self.puzzles[puzzle]
        outputs = [row["output"] for row in content["trajectories"]]
        if content["request_id"] != own or content["given"] != given.tolist() or len(outputs) != WIDTH:
            self.wrong.append(f"the answer to {own} is somebody else's or not whole")
            return
        judged = judge(self.solver.task, given, np.array(outputs)).valid
        if judged.tolist() != [row["valid"] for row in content["trajectories"]]:
            self.wrong.append(f"{own} was judged wrongly")
        if self.answers.setdefault((puzzle, seed), outputs) != outputs:
            self.wrong.append(f"{own} got another answer than an equal request")

    def compare(self, most: int = 50) -> int:
        """Compare answers with those of the solver alone; return how many of them were compared."""
        for (puzzle, seed), outputs in list(self.answers.items())[:most]:
            alone = self.solver.solve(self.puzzles[puzzle], width=WIDTH, seed=seed)
            if alone.trajectories.outputs[0].tolist() != outputs:
                self.wrong.append(f"puzzle {puzzle}, seed {seed}: the solver alone answers otherwise")
        return min(most, len(self.answers))


def start(threads: int) -> tuple[subprocess.Popen[str], str]:
    """Start the service in a process of its own, and wait until it is ready."""
    limits = ["--max-seconds", str(TIMEOUT), "--threads", str(threads)]
    command = [sys.executable, "-m", "gram", "serve", MODEL, "--port", "0", *limits]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, env=os.environ)
    assert process.stdout is not None
    address = re.search(r"http://\S+", process.stdout.readline())[0]  # type: ignore[index]
    while httpx.get(f"{address}/readyz").status_code != 200:
        time.sleep(0.1)
    return process, address


def main() -> None:
    """Measure, print, and exit with 1 if anything is amiss."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--clients", type=int, default=50)
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--threads", type=int, default=1)
    chosen = parser.parse_args()
    torch.set_num_threads(chosen.threads)
    keep_freed_memory()
    solver = load(MODEL, device="cpu")
    puzzles = solver.task.split("test").distinct(PUZZLES).inputs
    process, address = start(chosen.threads)
    load_test = Load(address, solver, puzzles)
    alone, served = [], []
    direct(solver, puzzles, 1)
    try:
        for _ in range(ROUNDS):
            alone.append(direct(solver, puzzles, chosen.seconds / ROUNDS / 2))
            served.append(asyncio.run(load_test.run(chosen.clients, chosen.seconds / ROUNDS)))
    finally:
        process.terminate()
        code = process.wait(30)
    compared = load_test.compare()
    ratio = float(np.mean(served) / np.mean(alone))
    p50, p99 = np.percentile(load_test.seconds, [50, 99])
    print(
        f"{chosen.clients} clients for {chosen.seconds:g} s against {MODEL}, width {WIDTH}, {chosen.threads} thread(s)"
    )
    print(f"answers {len(load_test.seconds)}, by status {dict(load_test.statuses)}, exit code of the service {code}")
    print(f"p50 {p50:.3f} s, p99 {p99:.3f} s")
    print(f"served {np.mean(served):.0f} trajectories/s in rounds of {', '.join(f'{rate:.0f}' for rate in served)}")
    print(f"direct {np.mean(alone):.0f} trajectories/s in rounds of {', '.join(f'{rate:.0f}' for rate in alone)}")
    print(f"ratio {ratio:.2f}; {compared} answers were those of the solver alone; wrong: {len(load_test.wrong)}")
    for text in load_test.wrong[:10]:
        print(f"  {text}")
    sys.exit(bool(load_test.wrong) or ratio < LEAST or code != 0)


if __name__ == "__main__":
    main()
