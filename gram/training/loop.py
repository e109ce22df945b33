"""The training loop: a recipe becomes a folder with averaged weights, metrics, checkpoints and a final evaluation."""

import json
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any, get_args

import numpy as np
import torch
from lightning_fabric import Fabric
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from gram.checkpoints.folder import save_model
from gram.config import Recipe, SampleOptions
from gram.errors import GramError, Interrupted, PeerDied
from gram.evaluation.evaluate import HEADLINES, evaluate
from gram.machine import check_precision, choose_device, keep_freed_memory
from gram.models.base import Model
from gram.tasks import make_task
from gram.tasks.base import Examples, SplitName, Task
from gram.training.fit import check_fit, resolve_recipe
from gram.training.launch import make_fabric
from gram.training.log import RunLog, wandb_package
from gram.training.run_checkpoint import (
    begin_run,
    check_new,
    check_same,
    load_checkpoint,
    recipe_of_run,
    save_checkpoint,
    save_state,
)
from gram.training.step import Trainer
from gram.training.watch import LeakWatch, MemorisationWatch

DIVERGED_FILE = "diverged.safetensors"


def train(recipe: Recipe, out: Path, console: Console) -> dict[str, Any]:
    """Train by a recipe into the new folder `out`; return the evaluation of the averaged weights on the test split."""
    check_new(out)  # before the data is built, which may take minutes
    run = Run(recipe, out, console)
    if run.first:
        begin_run(out, recipe)
    return run.go_on()


def resume(out: Path, console: Console, recipe: Recipe | None = None) -> dict[str, Any]:
    """Go on with the run in `out` where its last checkpoint stands; a recipe, if given, must be the run's own.

    With a recipe, a folder that does not exist yet begins a run: one command then serves for starts and restarts.
    """
    if recipe is not None and not out.exists():
        return train(recipe, out, console)
    stored = recipe_of_run(out)
    if recipe is not None:
        check_same(stored, recipe)
    run = Run(stored, out, console)
    found = load_checkpoint(out)
    run.fabric.barrier()
    if run.first:
        for leftover in out.rglob(".*.safetensors.*"):  # of a write that was killed
            leftover.unlink()
    if found is not None:
        tensors, other, problems = found
        for problem in problems:
            run.console.print(f"Warning: {problem}; going on from the checkpoint before.")
        run.load(tensors, other)
        run.console.print(f"Going on after step {run.trainer.step_number} of {stored.train.steps}.")
    return run.go_on()


class Run:
    """One training run and its folder."""

    def __init__(self, recipe: Recipe, out: Path, console: Console) -> None:
        config = recipe.train
        device = choose_device(config.device)
        check_precision(config.precision, device)
        if out.exists() and not out.is_dir():
            raise GramError(f"{out} is a file: choose another folder with --out.")
        if config.wandb:
            wandb_package()  # refuses before any work if it is missing
        self.out = out
        self.task = make_task(recipe.task.name, **recipe.task.options)
        keep_freed_memory()
        if config.threads:
            torch.set_num_threads(config.threads)
        self.splits: dict[str, Examples] = {name: self.task.split(name) for name in get_args(SplitName)}
        self.recipe = resolve_recipe(recipe, self.task)
        check_fit(self.recipe, self.task, self.splits)
        self.fabric = make_fabric(device, config.precision)
        self.first = self.fabric.is_global_zero
        """whether this process speaks and writes for all"""
        self.console = console if self.first else Console(quiet=True)
        self.trainer = Trainer(self.recipe, self.task, self.splits["train"], self.fabric)
        self.watches = (LeakWatch(), MemorisationWatch())
        self.seconds = 0.0
        """spent on training, also before a resume"""
        self.pending: dict[str, torch.Tensor] = {}
        """metrics of steps since the last line of the log, from a checkpoint"""
        processes = f", {self.fabric.world_size} processes" if self.fabric.world_size > 1 else ""
        self.console.print(
            f"{self.task.name}, split {self.task.split_hash()}: {len(self.splits['train'])} pairs; "
            f"{self.trainer.model.parameter_count:,} parameters; {device}{processes}"
        )

    def load(self, tensors: dict[str, torch.Tensor], other: dict[str, Any]) -> None:
        """Take over a checkpoint."""
        self.trainer.load_state(tensors, other)
        self.seconds = other["seconds"]
        self.pending = {name.removeprefix("log."): part for name, part in tensors.items() if name.startswith("log.")}

    def go_on(self) -> dict[str, Any]:
        """Train to the end, evaluate, and write `test.json`."""
        config = self.recipe.train
        self.fabric.barrier()  # the folder is there
        try:
            with RunLog(self.out if self.first else None, after=self.trainer.step_number, wandb=config.wandb) as log:
                log.restore(self.pending)
                self._to_the_end(log)
        except RuntimeError as error:
            if self.fabric.world_size == 1:
                raise
            # torch has no exception of its own for it: the exchange with the others broke off.
            raise PeerDied(
                f"Another process of the run has died ({_first_line(error)}): go on with --resume."
            ) from error
        return self._tested()

    def _to_the_end(self, log: RunLog) -> None:
        trainer, config = self.trainer, self.recipe.train
        with _progress(self.console) as bar, _polite() as stop:
            line = bar.add_task("training", total=config.steps, completed=trainer.step_number, shown="")
            started = time.monotonic() - self.seconds
            while trainer.step_number < config.steps:
                metrics = trainer.step()
                self.seconds = time.monotonic() - started
                log.add(metrics)
                self._check_finite(metrics)
                shown = self._log(log)
                bar.advance(line)
                if shown:
                    bar.update(line, shown=shown)
                asked = trainer.sharding.any(stop.asked)
                if asked or trainer.step_number % config.save_every == 0:
                    self._save(log)
                if asked:
                    message = f"Stopped and saved after step {trainer.step_number}: go on with --resume {self.out}."
                    raise Interrupted(message, asked)

    def _tested(self) -> dict[str, Any]:
        """The evaluation of the averaged weights on the test split, also as `test.json`."""
        config = self.recipe.train
        with self.console.status("evaluating on the test split"):
            result = evaluate(
                self.trainer.ema,
                self.task,
                "test",
                self.recipe.eval,
                examples=self.splits["test"],
                fabric=self.fabric,
            )
        result |= {"train_minutes": self.seconds / 60, "train_seed": config.seed, "train_steps": config.steps}
        if self.first:
            (self.out / "test.json").write_text(json.dumps(result, indent=2) + "\n")
        return result

    def _log(self, log: RunLog) -> str:
        """Write the lines that are due after this step; the text for the progress bar, if there is news."""
        trainer, config = self.trainer, self.recipe.train
        step, last = trainer.step_number, trainer.step_number == config.steps
        shown = ""
        if step % config.log_every == 0 or last:
            means = trainer.sharding.mean(log.means())
            means |= {"seconds": self.seconds, "lr": trainer.optimizers[0].param_groups[0]["lr"]}
            log.write(step, means)
            self._watch(means)
            shown = in_short(means)
        if step % config.eval_every == 0 or last:
            examples = self.splits["validation"]
            if len(examples):
                figures = validation_figures(trainer.ema, self.task, examples, self.recipe, self.fabric)
                log.write(step, figures)
                self._watch(figures)
            if self.first:
                table = self.task.puzzle_table()
                save_model(self.out, trainer.ema, self.recipe, extra={"steps": step}, puzzle_table=table)
        return shown

    def _watch(self, figures: dict[str, float]) -> None:
        for watch in self.watches:
            if (warning := watch.notice(figures)) is not None:
                self.console.print(warning)

    def _save(self, log: RunLog) -> None:
        tensors, other = self.trainer.state()
        tensors |= {f"log.{name}": part for name, part in log.state().items()}
        if self.first:
            save_checkpoint(self.out, tensors, other | {"seconds": self.seconds})
        self.fabric.barrier()  # nobody goes on, or ends, before it is written

    def _check_finite(self, metrics: dict[str, Any]) -> None:
        """Stop where a gradient is not a number, and leave everything there for study."""
        if torch.as_tensor(metrics["gradient_norm"]).isfinite():
            return
        tensors, other = self.trainer.state()
        rows = self.trainer.sharding.gather(self.trainer.indices).tolist()
        if self.first:
            save_state(self.out / DIVERGED_FILE, tensors, {**other, "rows": rows})
        lr, loss = self.recipe.train.lr, float(metrics["loss"].detach())
        raise GramError(
            f"Training diverged at step {self.trainer.step_number} (loss {loss:.4g}): lower train.lr (now {lr}). "
            f"The state before that step and the rows of data that it saw are in {DIVERGED_FILE}."
        )


def _first_line(error: Exception) -> str:
    return (str(error).splitlines() or [type(error).__name__])[0]


def in_short(means: dict[str, float]) -> str:
    """The figures beside the progress bar."""
    if "posterior_accuracy" not in means:
        return f"loss {means['loss']:.3f}  nats {means['nats']:.2f}"
    kl = sum(value for name, value in means.items() if name.startswith("kl_"))
    rollout = f"  rollout {means['rollout_accuracy']:.2f}" if "rollout_accuracy" in means else ""
    return f"loss {means['loss']:.3f}  kl {kl:.3f}  posterior {means['posterior_accuracy']:.2f}{rollout}"


def validation_figures(
    model: Model, task: Task, examples: Examples, recipe: Recipe, fabric: Fabric
) -> dict[str, float]:
    """Prior-rollout figures on a fixed part of the validation split, and the full ELBO beside the surrogate."""
    config = recipe.train
    # Where there is but one input, the samples that would go to all go to it.
    width = config.eval_width * (config.eval_inputs if task.scoring == "generation" else 1)
    depth = getattr(recipe.model, "supervision_steps", 1)
    options = SampleOptions(
        width=width, depth=depth, temperature=recipe.eval.temperature, top_p=recipe.eval.top_p, steps=recipe.eval.steps
    )
    result = evaluate(model, task, "validation", options, limit=config.eval_inputs, examples=examples, fabric=fabric)
    figures = {f"validation_{key}": result[key] for key in HEADLINES[task.scoring]}
    device = fabric.device
    inputs, targets = (
        torch.from_numpy(np.array(part[: config.eval_inputs])).to(device)
        for part in (examples.inputs, examples.targets)
    )
    ids = None
    if model.puzzle_embeddings is not None and examples.puzzle_ids is not None:
        ids = torch.from_numpy(examples.puzzle_ids[: config.eval_inputs]).to(device)
    own = model.validation_metrics(inputs, targets, puzzle_ids=ids, seed=config.seed)
    return figures | {f"validation_{name}": value for name, value in own.items()}


class _Stop:
    """Whether the user, or the machine's scheduler, has asked the run to stop."""

    asked = 0
    """number of the signal"""

    def __call__(self, number: int, frame: FrameType | None) -> None:
        if self.asked == number == signal.SIGINT:
            raise KeyboardInterrupt
        self.asked = number


@contextmanager
def _polite() -> Iterator[_Stop]:
    """Let SIGTERM and Ctrl-C ask the run to stop after its step, instead of breaking it off; a second Ctrl-C does."""
    stop = _Stop()
    names = (signal.SIGTERM, signal.SIGINT)
    try:
        before = {name: signal.signal(name, stop) for name in names}
    except ValueError:  # signals reach the main thread only
        yield stop
        return
    try:
        yield stop
    finally:
        for name, handler in before.items():
            signal.signal(name, handler)


@contextmanager
def _progress(console: Console) -> Iterator[Progress]:
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, TextColumn("{task.fields[shown]}"), console=console) as progress:
        yield progress
