"""Hostile trials: bad invocations of every command, kills at random moments, and flipped bits in a run's files.

    python benchmarks/hostile.py --seed 0 --invocations 500 --kills 20 --flips 200

Prints how many tracebacks, how much lost work and how many silent differences there were; each is listed. The same seed
makes the same trials. The kills and the moments of a kill depend on the machine's speed.
"""

import argparse
import contextlib
import hashlib
import io
import json
import os
import random
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import yaml
from hostile_lines import hostile_lines

from gram.cli.app import main

RECIPE = {
    "task": {"name": "nqueens", "options": {"size": 5}},
    "model": {"dim": 16, "layers": 1, "channel_hidden": 12, "token_hidden": 10, "guidance_hidden": 8},
    "train": {
        "slots": 8,
        "steps": 12,
        "log_every": 2,
        "eval_every": 5,
        "save_every": 4,
        "eval_inputs": 4,
        "threads": 1,
    },
    "eval": {"depth": 2, "width": 3},
}
BOARD = "Q..../...../...../...../....."
MEMORY = 12 * 2**30
"""Bytes of address space: what asks for more must say so in a sentence."""
PATIENCE = 20
"""Seconds after which an invocation that is merely long is interrupted."""
LONGEST = 1800
"""Seconds after which a resumed command counts as stuck, also on a busy machine."""
CODES = (0, 1, 2, 3, 130, 143)


class TookLong(BaseException):
    """An invocation was still at work after `PATIENCE` seconds."""


class Trials:
    """The folder of the trials, and what went wrong."""

    def __init__(self, folder: Path, seed: int) -> None:
        self.folder, self.chance = folder, random.Random(seed)
        self.counts: Counter[str] = Counter()
        self.found: dict[str, list[str]] = {"traceback": [], "lost work": [], "silent difference": []}
        self.recipe = folder / "recipe.yaml"
        self.recipe.write_text(yaml.safe_dump(RECIPE))
        rows = [{"input": [a, b, 3], "target": [b, a, 3]} for a in range(1, 9) for b in range(1, 9)]
        self.data = folder / "data.jsonl"
        self.data.write_text("".join(json.dumps(row) + "\n" for row in rows))
        (folder / "junk.bin").write_bytes(bytes(range(256)))
        (folder / "puzzles.txt").write_text(f"{BOARD}\n{BOARD}\n")

    def blame(self, kind: str, what: str) -> None:
        """Write down something that must not happen."""
        self.found[kind].append(what)
        print(f"{kind}: {what}", flush=True)


def call(*arguments: str | Path, patience: int = PATIENCE) -> tuple[int, str, BaseException | None]:
    """Run a command in this process: exit code, all that it printed, and what escaped from it."""
    said, before = io.StringIO(), sys.argv
    sys.argv = ["gram", *map(str, arguments)]
    signal.signal(signal.SIGALRM, _too_long)
    signal.alarm(patience)
    try:
        with contextlib.redirect_stdout(said), contextlib.redirect_stderr(said):
            main()
    except SystemExit as error:
        code = error.code if isinstance(error.code, int) else 0
        return code, said.getvalue(), None
    except BaseException as error:
        return -1, said.getvalue(), error
    finally:
        signal.alarm(0)
        sys.argv = before
    return 0, said.getvalue(), None


def _too_long(*_: object) -> None:
    raise TookLong


def start(*arguments: str | Path, folder: Path) -> subprocess.Popen[bytes]:
    """Start a command as a process, in a session of its own so that all its children can be killed with it."""
    return subprocess.Popen(
        [sys.executable, "-m", "gram", *map(str, arguments)],
        cwd=folder,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        start_new_session=True,
    )


def digest(folder: Path) -> dict[str, str]:
    """Return the digests of all files below a folder."""
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    return {str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest() for path in files}


def outcome(run: Path) -> dict[str, Any]:
    """Return what a run has come to, without the times that it took."""
    text = (run / "metrics.jsonl").read_text()
    lines = [{**json.loads(line), "seconds": None} for line in text.splitlines()]
    result = json.loads((run / "test.json").read_text())
    weights = hashlib.sha256((run / "model.safetensors").read_bytes()).hexdigest()
    config = json.loads((run / "config.json").read_text())
    return {
        "weights": weights,
        "metrics": lines,
        "config": config,
        "test": {key: value for key, value in result.items() if key not in ("train_minutes", "sha256")},
    }


# --- bad invocations --------------------------------------------------------------------------------------------------


def invocations(trials: Trials, count: int, run: Path) -> None:
    """Make hostile invocations; none may end in a traceback, or change what is not its own."""
    precious = {path: hashlib.sha256(path.read_bytes()).hexdigest() for path in precious_files(trials, run)}
    for _, line in zip(range(count), hostile_lines(run, trials.recipe, trials.data, trials.chance), strict=False):
        with contextlib.suppress(OSError):
            shutil.rmtree(trials.folder / "new")
        code, said, escaped = call(*line)
        shown = " ".join(word if len(word) < 60 else f"{word[:20]}..." for word in line)
        trials.counts["invocations"] += 1
        trials.counts[f"exit {code}" if not isinstance(escaped, TookLong) else "interrupted as too long"] += 1
        if escaped is not None and not isinstance(escaped, TookLong):
            trials.blame("traceback", f"{shown}: {type(escaped).__name__}: {str(escaped)[:200]}")
        elif escaped is None and (code not in CODES or "Traceback" in said):
            trials.blame("traceback", f"{shown}: exit {code}")
        elif code == 1 and not any(text.startswith("Error: ") for text in said.splitlines()):
            trials.blame("silent difference", f"{shown}: exit 1 without a sentence")
        for path, before in precious.items():
            if not path.is_file() or hashlib.sha256(path.read_bytes()).hexdigest() != before:
                if line[0] == "tune" and path.name == "config.json":
                    precious[path] = hashlib.sha256(path.read_bytes()).hexdigest()  # what tune is for
                    continue
                trials.blame("lost work", f"{shown}: {path.name} was changed")
                raise SystemExit("the trials cannot go on without it")


def precious_files(trials: Trials, run: Path) -> list[Path]:
    """Return the files that no bad invocation may change."""
    own = [path for path in trials.folder.iterdir() if path.is_file() and not path.name.startswith("shown")]
    return own + [path for path in run.rglob("*") if path.is_file() and path.suffix != ".png"]


# --- kills ------------------------------------------------------------------------------------------------------------


def kills(trials: Trials, count: int) -> None:
    """Kill commands at random moments; the same command must come to the same end as if nobody had."""
    long = ["train.steps=60", "train.eval_every=20", "train.save_every=10"]
    wide = ["train.steps=10", "eval.width=400", "eval.depth=16"]
    build = ["colouring-9", "train_graphs=4000", "test_graphs=400"]

    def train(*more: str) -> Callable[[Path], list[str]]:
        return lambda out: ["train", str(trials.recipe), *more, "--resume", str(out / "run")]

    kinds: dict[str, tuple[Callable[[Path], list[str]], Callable[[Path], Any]]] = {
        "training": (train(*long), lambda out: outcome(out / "run")),
        "evaluation": (train(*wide), lambda out: outcome(out / "run")),
        "tune": (
            lambda out: ["tune", str(out / "run"), "--depths", "2,8", "--temperatures", "1,2", "--width", "60"],
            lambda out: json.loads((out / "run" / "config.json").read_text()),
        ),
        "sweep": (
            lambda out: ["sweep", str(trials.recipe), "train.seed=0,1", *long, "--out", str(out / "runs")],
            lambda out: [outcome(out / "runs" / f"train.seed={seed}") for seed in (0, 1)],
        ),
        "data": (lambda out: ["data", *build], lambda out: _arrays(out / "cache")),
        "generation": (
            lambda out: ["generate", "sudoku-generation", "-n", "3000", "--depth", "2", "--out", str(out / "a.npz")],
            lambda out: _arrays(out, "a.npz"),
        ),
    }
    order = [name for name, share in zip(kinds, (6, 3, 3, 3, 3, 2), strict=True) for _ in range(share)]
    references: dict[str, tuple[float, Any]] = {}
    for number in range(count):
        name = order[number % len(order)]
        line, result = kinds[name]
        if name not in references:
            out = _prepared(trials, f"{name}-reference", name)
            began = time.monotonic()
            said, code = _finish(trials, line(out), out)
            if code:
                raise SystemExit(f"{name} does not work at all: {said}")
            references[name] = (time.monotonic() - began, result(out))
        seconds, expected = references[name]
        out = _prepared(trials, f"{name}-{number}", name)
        process = start(*line(out), folder=out)
        time.sleep(trials.chance.uniform(0.3, 1) * seconds)
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.communicate()
        trials.counts["kills" if process.returncode == -signal.SIGKILL else "kills that came too late"] += 1
        said, code = _finish(trials, line(out), out)
        if code or "Traceback" in said:
            trials.blame("lost work", f"{name} {number}: does not go on after a kill: {said[-300:]}")
        elif result(out) != expected:
            trials.blame("silent difference", f"{name} {number}: comes to another end after a kill")


def _prepared(trials: Trials, folder: str, name: str) -> Path:
    out = trials.folder / folder
    out.mkdir()
    if name == "tune":
        shutil.copytree(trials.folder / "run", out / "run")
    os.environ["GRAM_CACHE"] = str(out / "cache" if name == "data" else trials.folder / "cache")
    return out


def _finish(trials: Trials, line: list[str], out: Path) -> tuple[str, int]:
    process = start(*line, folder=out)
    said, _ = process.communicate(timeout=LONGEST)
    return said.decode(errors="replace"), process.returncode


def _arrays(folder: Path, name: str = "*.npz") -> dict[str, list[Any]]:
    found = {}
    for path in sorted(folder.rglob(name)):
        with np.load(path) as stored:
            found |= {f"{path.name} {key}": stored[key].tolist() for key in stored}
    return found


# --- flipped bits -----------------------------------------------------------------------------------------------------


def flips(trials: Trials, count: int, run: Path) -> None:
    """Flip one bit of one file of a finished run; it is noticed, or makes no difference."""
    whole = trials.folder / "whole"
    shutil.copytree(run, whole)
    board = trials.folder / "answer.json"
    call("solve", run, BOARD, "--width", "3", "--json", board)
    expected, answer = outcome(run), board.read_text()
    for number in range(count):
        shutil.rmtree(run)
        shutil.copytree(whole, run)
        path = trials.chance.choice(sorted(path for path in run.rglob("*") if path.is_file()))
        content = bytearray(path.read_bytes())
        bit = trials.chance.randrange(8 * len(content))
        content[bit // 8] ^= 1 << bit % 8
        path.write_bytes(content)
        trials.counts["flips"] += 1
        what = f"flip {number}, bit {bit} of {path.relative_to(run)}"
        for line in (["solve", run, BOARD, "--width", "3", "--json", board], ["plot", run], ["train", "--resume", run]):
            board.unlink(missing_ok=True) if line[0] == "solve" else None
            code, said, escaped = call(*line, patience=300)
            if escaped is not None or code not in CODES or "Traceback" in said:
                trials.blame("traceback", f"{what}, {line[0]}: {escaped!r} {said[-200:]}")
            noticed = code == 1 or "Warning" in said
            trials.counts["noticed"] += noticed
            if noticed:
                continue
            if line[0] == "solve" and json.loads(board.read_text()) != json.loads(answer):
                trials.blame("silent difference", f"{what}: another answer")
            if line[0] == "train" and outcome(run) != expected:
                trials.blame("silent difference", f"{what}: the run comes to another end")


def trial(options: argparse.Namespace, folder: Path) -> dict[str, Any]:
    """Make all trials in a folder; return the counts."""
    os.chdir(folder)
    os.environ |= {"GRAM_CACHE": str(folder / "cache"), "HF_HUB_OFFLINE": "1", "OMP_NUM_THREADS": "1", "COLUMNS": "200"}
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    trials = Trials(folder, options.seed)
    code, said, escaped = call("train", trials.recipe, "--out", folder / "run", patience=300)
    if code or escaped:
        raise SystemExit(f"the run to be maltreated cannot be trained: {said} {escaped!r}")
    began = time.monotonic()
    kills(trials, options.kills)
    flips(trials, options.flips, folder / "run")
    shutil.rmtree(folder / "run")
    shutil.copytree(folder / "whole", folder / "run")
    invocations(trials, options.invocations, folder / "run")
    found = {name: len(items) for name, items in trials.found.items()}
    return {"seed": options.seed, **trials.counts, **found, "minutes": round((time.monotonic() - began) / 60, 1)}


def run_trials() -> None:
    """Read the options, make the trials, print the counts."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name, default in (("seed", 0), ("invocations", 500), ("kills", 20), ("flips", 200)):
        parser.add_argument(f"--{name}", type=int, default=default)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        print(json.dumps(trial(options, Path(folder).resolve()), indent=2))


if __name__ == "__main__":
    run_trials()
