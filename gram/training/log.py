"""The metrics of a run: `metrics.jsonl`, TensorBoard and, if asked for, Weights & Biases."""

import hashlib
import json
import math
import threading
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple, TextIO

import torch
from lightning_fabric.loggers.tensorboard import TensorBoardLogger
from torch import Tensor

from gram.errors import GramError
from gram.files import write_whole

METRICS_FILE = "metrics.jsonl"


class Position(NamedTuple):
    """The number of metric lines at a certain time, and their digest."""

    lines: int = 0
    sha256: str = ""


class RunLog:
    """Averages metrics over the steps since the last line; it synchronises with the device only to write a line."""

    def __init__(self, folder: Path | None, *, after: Position | None = None, wandb: str = "") -> None:
        """Open the files; lines that were written later than `after`, from which the run resumes, are dropped.

        Without a folder nothing is written: one process writes for all. `wandb` names a project on Weights & Biases.
        """
        self.pending: list[dict[str, Tensor]] = []
        self.file: TextIO | None = None
        self.online: Any = None
        self.problems: list[str] = []
        """what is wrong with the lines that are there already"""
        self._lines, self._digest = 0, hashlib.sha256()
        if folder is None:
            return
        if wandb:
            # The same name and id after a resume, so that the curves continue.
            name = folder.resolve().name
            self.online = wandb_package().init(project=wandb, name=name, id=name, dir=str(folder), resume="allow")
        self._hook, threading.excepthook = threading.excepthook, _leave_to_the_next_write
        self.board = TensorBoardLogger(root_dir=folder, name="", version="tensorboard")
        path = folder / METRICS_FILE
        kept = self._kept_lines(path, after or Position())
        write_whole(path, lambda target: target.write_text("".join(kept)))
        self.file = path.open("a")

    def _kept_lines(self, path: Path, after: Position) -> list[str]:
        """Return the lines of an earlier part of the run that are still whole."""
        lines = _whole_lines(path)[: after.lines]
        kept = [line for line in lines if _parsed(line) is not None]
        for line in kept:
            self._count(line)
        if (len(kept), self._digest.hexdigest()) != (after.lines, after.sha256) and after.lines:
            lost = after.lines - len(kept)
            what = (
                f"{lost} of its {after.lines} lines are lost"
                if lost
                else "some of its lines do not match their checksum"
            )
            self.problems.append(f"{METRICS_FILE} is damaged: {what}")
        return kept

    def _count(self, line: str) -> None:
        self._lines += 1
        self._digest.update(line.encode())

    @property
    def position(self) -> Position:
        """The current position."""
        return Position(self._lines, self._digest.hexdigest())

    def __enter__(self) -> "RunLog":
        return self

    def __exit__(self, *_: object) -> None:
        if self.file is not None:
            try:
                self.file.close()
                self.board.finalize("")
            finally:
                threading.excepthook = self._hook
        if self.online is not None:
            self.online.finish()

    def add(self, metrics: dict[str, Any]) -> None:
        """Store the scalars of one step, without synchronising with the device."""
        self.pending.append({key: torch.as_tensor(value).detach() for key, value in metrics.items()})

    def state(self) -> dict[str, Tensor]:
        """Return the scalars of the steps since the last line, [steps] by name."""
        names = self.pending[-1].keys() if self.pending else ()
        return {name: torch.stack([metrics[name].float() for metrics in self.pending]) for name in names}

    def restore(self, state: dict[str, Tensor]) -> None:
        """Restore the result of `state`."""
        steps = len(next(iter(state.values()))) if state else 0
        self.pending = [{name: values[step] for name, values in state.items()} for step in range(steps)]

    def means(self) -> dict[str, float]:
        """Return the means since the last call."""
        # nanmean: a step in which no trajectory ended has no rollout accuracy.
        means = {name: float(values.nanmean()) for name, values in self.state().items()}
        self.pending.clear()
        return means

    def write(self, step: int, metrics: dict[str, float]) -> None:
        """Append one line."""
        if self.file is None:
            return
        line = json.dumps({"step": step, **{k: _finite(v) for k, v in metrics.items()}}) + "\n"
        self.file.write(line)
        self.file.flush()
        self._count(line)
        finite = {k: v for k, v in metrics.items() if math.isfinite(v)}
        try:
            self.board.log_metrics(finite, step)
        except ValueError as error:  # Lightning calls every failure of TensorBoard one
            raise (error.__cause__ if isinstance(error.__cause__, OSError) else error) from None
        if self.online is not None:
            self.online.log(finite, step=step)


def wandb_package() -> Any:
    """Import the optional package wandb."""
    try:
        return import_module("wandb")
    except ImportError as error:
        raise GramError("train.wandb needs the package wandb: pip install wandb, or leave it empty.") from error


def read_metrics(folder: Path) -> tuple[list[dict[str, Any]], list[str]]:
    """Return all whole lines of a run's metrics, and a sentence about each damaged one.

    An incomplete last line, which a kill leaves behind, is ignored.
    """
    path = folder / METRICS_FILE
    parsed = [_parsed(line) for line in _whole_lines(path)]
    problems = [f"Line {number} of {path} is damaged." for number, line in enumerate(parsed, 1) if line is None]
    return [line for line in parsed if line is not None], problems


def _whole_lines(path: Path) -> list[str]:
    if not path.exists():
        return []
    lines = path.read_bytes().decode(errors="replace").split("\n")
    return [line + "\n" for line in lines[:-1]]


def _parsed(line: str) -> dict[str, Any] | None:
    """Return the numbers of a line; None if it is damaged."""
    try:
        content = json.loads(line)
    except (ValueError, RecursionError):
        return None
    if not isinstance(content, dict) or not isinstance(content.get("step"), int):
        return None
    numbers = all(value is None or isinstance(value, (int, float)) for value in content.values())
    return content if numbers else None


def _leave_to_the_next_write(failure: threading.ExceptHookArgs) -> None:
    """Suppress the error of TensorBoard's thread on a full disk: the next write raises it again."""
    if not isinstance(failure.exc_value, OSError):
        threading.__excepthook__(failure)


def _finite(value: float) -> float | None:
    return round(value, 6) if math.isfinite(value) else None


def summary(means: dict[str, float]) -> str:
    """Format the metrics for the progress bar."""
    if "posterior_accuracy" not in means:
        return f"loss {means['loss']:.3f}  nats {means['nats']:.2f}"
    kl = sum(value for name, value in means.items() if name.startswith("kl_"))
    rollout = f"  rollout {means['rollout_accuracy']:.2f}" if "rollout_accuracy" in means else ""
    return f"loss {means['loss']:.3f}  kl {kl:.3f}  posterior {means['posterior_accuracy']:.2f}{rollout}"
