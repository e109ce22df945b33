"""The metrics of a run: `metrics.jsonl`, TensorBoard and, if asked for, Weights & Biases."""

import json
import math
from importlib import import_module
from pathlib import Path
from typing import Any, TextIO

import torch
from lightning_fabric.loggers.tensorboard import TensorBoardLogger
from torch import Tensor

from gram.errors import GramError

METRICS_FILE = "metrics.jsonl"


class RunLog:
    """Means over the steps since the last line; nothing waits for the device before a line is due."""

    def __init__(self, folder: Path | None, *, after: int = 0, wandb: str = "") -> None:
        """Open the files; lines of steps later than `after`, from which the run goes on, are dropped.

        Without a folder nothing is written: one process writes for all. `wandb` names a project on Weights & Biases.
        """
        self.pending: list[dict[str, Tensor]] = []
        self.file: TextIO | None = None
        self.online: Any = None
        if folder is None:
            return
        if wandb:
            # The same name and id after a resume, so that the curves go on.
            name = folder.resolve().name
            self.online = wandb_package().init(project=wandb, name=name, id=name, dir=str(folder), resume="allow")
        self.board = TensorBoardLogger(root_dir=folder, name="", version="tensorboard")
        path = folder / METRICS_FILE
        kept = [line for line in read_metrics(folder) if line["step"] <= after] if path.exists() else []
        path.write_text("".join(json.dumps(line) + "\n" for line in kept))
        self.file = path.open("a")

    def __enter__(self) -> "RunLog":
        return self

    def __exit__(self, *_: object) -> None:
        if self.file is not None:
            self.file.close()
            self.board.finalize("")
        if self.online is not None:
            self.online.finish()

    def add(self, metrics: dict[str, Any]) -> None:
        """Remember one step's scalars (no synchronisation with the device)."""
        self.pending.append({key: torch.as_tensor(value).detach() for key, value in metrics.items()})

    def state(self) -> dict[str, Tensor]:
        """The scalars of the steps since the last line, [steps] by name."""
        names = self.pending[-1].keys() if self.pending else ()
        return {name: torch.stack([metrics[name].float() for metrics in self.pending]) for name in names}

    def restore(self, state: dict[str, Tensor]) -> None:
        """Go on where `state` was taken."""
        steps = len(next(iter(state.values()))) if state else 0
        self.pending = [{name: values[step] for name, values in state.items()} for step in range(steps)]

    def means(self) -> dict[str, float]:
        """The means since the last call."""
        # nanmean: a step in which no trajectory ended has no rollout accuracy.
        names = self.pending[-1].keys()
        means = {name: float(torch.stack([m[name].float() for m in self.pending]).nanmean()) for name in names}
        self.pending.clear()
        return means

    def write(self, step: int, figures: dict[str, float]) -> None:
        """Append one line."""
        if self.file is None:
            return
        self.file.write(json.dumps({"step": step, **{k: _finite(v) for k, v in figures.items()}}) + "\n")
        self.file.flush()
        finite = {k: v for k, v in figures.items() if math.isfinite(v)}
        self.board.log_metrics(finite, step)
        if self.online is not None:
            self.online.log(finite, step=step)


def wandb_package() -> Any:
    """The package wandb, which is not among the requirements."""
    try:
        return import_module("wandb")
    except ImportError as error:
        raise GramError("train.wandb needs the package wandb: pip install wandb, or leave it empty.") from error


def read_metrics(folder: Path) -> list[dict[str, Any]]:
    """All whole lines of a run's metrics; a last line that a kill cut off is left out."""
    lines = (folder / METRICS_FILE).read_text().splitlines(keepends=True)
    return [json.loads(line) for line in lines if line.endswith("\n")]


def _finite(value: float) -> float | None:
    return round(value, 6) if math.isfinite(value) else None
