"""The training loop: flat, one supervision step for every slot at a time."""

import json
import math
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TextIO, cast, get_args

import numpy as np
import torch
from lightning_fabric import Fabric
from lightning_fabric.loggers.tensorboard import TensorBoardLogger
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from torch import Tensor
from torch.optim.swa_utils import AveragedModel

from gram.config import Recipe
from gram.errors import GramError
from gram.evaluation.evaluate import evaluate
from gram.inference.rollout import SampleOptions
from gram.machine import choose_device, keep_freed_memory
from gram.nn.reasoner import Reasoner
from gram.tasks import make_task
from gram.tasks.base import Examples, SplitName, Task
from gram.training.checkpoint import save_model
from gram.training.objective import Checker, Objective, trajectory_elbo
from gram.training.optim import build_optimizer, lr_factor
from gram.training.slots import SlotFeeder


def train(recipe: Recipe, out: Path, console: Console) -> dict[str, Any]:
    """Train by a recipe into the new folder `out`; return the evaluation of the averaged weights on the test split."""
    if out.exists():
        raise GramError(f"{out} exists already: choose another folder with --out, or remove it.")
    config = recipe.train
    device = choose_device(config.device)
    task = make_task(recipe.task.name, **recipe.task.options)
    keep_freed_memory()
    if config.threads:
        torch.set_num_threads(config.threads)
    splits: dict[str, Examples] = {name: task.split(name) for name in get_args(SplitName)}
    for name, part in splits.items():
        if not len(part):
            raise GramError(f"The {name} split of {task.name} is empty: change the shares in task.options.")
    if recipe.model.puzzle_tokens:
        raise GramError(f"Task {task.name} has no puzzle ids: set model.puzzle_tokens and model.puzzles to 0.")
    groups = splits["train"].groups
    if recipe.objective.learn_from_rollouts and task.augments and len(groups) > len(np.unique(groups)):
        # The other solutions of an input are stored as they were before its slot's augmentation.
        raise GramError(f"Task {task.name} augments inputs with several solutions: no objective.learn_from_rollouts.")
    accelerator, _, number = device.partition(":")
    fabric = Fabric(accelerator=accelerator, devices=[int(number)] if number else 1, precision=config.precision)
    fabric.seed_everything(config.seed, verbose=False)
    model = Reasoner(recipe.model, vocab_size=task.vocab_size, length=task.length)
    objective = Objective(model, recipe.objective, checker=checker_of(task), halt_in_training=config.halt_in_training)
    optimizer = build_optimizer(
        model.parameters(), name=config.optimizer, lr=config.lr, weight_decay=config.weight_decay, betas=config.betas
    )
    stepper, optimizer = fabric.setup(objective, optimizer)
    averaged = AveragedModel(model, multi_avg_fn=moving_average(config.ema))
    ema = cast(Reasoner, averaged.module).eval()
    feeder = SlotFeeder(
        task,
        splits["train"],
        slots=config.slots,
        steps=objective.steps_per_example,
        explore=config.explore,
        seed=config.seed,
    )
    slots = feeder.start(model, fabric.device)
    generator = torch.Generator(device=fabric.device).manual_seed(config.seed)
    console.print(
        f"{task.name}, split {task.split_hash()}: {len(splits['train'])} pairs; "
        f"{model.parameter_count:,} parameters; {device}"
    )
    out.mkdir(parents=True)
    started = time.monotonic()
    with _progress(console) as bar, RunLog(out) as log:
        line = bar.add_task("training", total=config.steps, shown="")
        for step in range(1, config.steps + 1):
            for group in optimizer.param_groups:
                group["lr"] = config.lr * lr_factor(
                    step, warmup=config.warmup, total=config.steps, final=config.lr_final
                )
            update = stepper(slots, beta_at(recipe, step), generator)
            fabric.backward(update.loss)
            norm = fabric.clip_gradients(stepper, optimizer, max_norm=config.clip, error_if_nonfinite=False)
            if not torch.as_tensor(norm).isfinite():
                raise GramError(f"Training diverged at step {step}: lower train.lr (now {config.lr}).")
            optimizer.step()
            optimizer.zero_grad(set_to_none=True)
            averaged.update_parameters(model)
            slots.state, slots.steps = update.state, slots.steps + 1
            if recipe.objective.learn_from_rollouts:
                feeder.retarget(slots, update.rollouts)
            feeder.refill(slots, update.finished, model)
            log.add(update.metrics | {"gradient_norm": norm})
            if step % config.log_every == 0 or step == config.steps:
                shown = log.write_means(step, seconds=time.monotonic() - started, lr=optimizer.param_groups[0]["lr"])
                bar.update(line, shown=shown)
            if step % config.eval_every == 0 or step == config.steps:
                log.write(step, validation_figures(ema, task, splits["validation"], recipe))
                save_model(out, ema, recipe, extra={"steps": step})
            bar.advance(line)
        minutes = (time.monotonic() - started) / 60
        options = SampleOptions(**recipe.eval.model_dump())
        bar.update(line, description="test split")
        result = evaluate(ema, task, "test", options, examples=splits["test"])
    result |= {"train_minutes": minutes, "train_seed": config.seed, "train_steps": config.steps}
    (out / "test.json").write_text(json.dumps(result, indent=2) + "\n")
    return result


def moving_average(decay: float) -> Callable[[Any, Any, Any], None]:
    """Exponential moving average whose window grows with the run, so that the first weights are soon forgotten."""

    @torch.no_grad()
    def update(averaged: list[Tensor], current: list[Tensor], count: Tensor | int) -> None:
        n = int(count)
        torch._foreach_lerp_(averaged, current, 1 - min(decay, (1 + n) / (10 + n)))

    return update


def checker_of(task: Task) -> Checker:
    """The task's verdict as a function of tensors."""

    def check(inputs: Tensor, outputs: Tensor) -> Tensor:
        return torch.from_numpy(task.verify(inputs.cpu().numpy(), outputs.cpu().numpy()).valid).to(inputs.device)

    return check


def beta_at(recipe: Recipe, step: int) -> float:
    """Weight of the KL at a step: constant, or along a half cosine from `beta` to `beta_final`."""
    c = recipe.objective
    if c.beta_final is None:
        return c.beta
    return c.beta_final + (c.beta - c.beta_final) * 0.5 * (1 + math.cos(math.pi * step / recipe.train.steps))


def validation_figures(model: Reasoner, task: Task, examples: Examples, recipe: Recipe) -> dict[str, float]:
    """Prior-rollout figures on a fixed part of the validation split, and the full ELBO beside the surrogate."""
    config = recipe.train
    options = SampleOptions(width=config.eval_width, depth=recipe.model.supervision_steps)
    result = evaluate(model, task, "validation", options, limit=config.eval_inputs, examples=examples)
    figures = {f"validation_{key}": result[key] for key in ("accuracy_all_samples", "coverage")}
    if model.guidance is not None:
        device = model.h_init.device
        rows = (torch.from_numpy(part[: config.eval_inputs]).to(device) for part in (examples.inputs, examples.targets))
        generator = torch.Generator(device=device).manual_seed(config.seed)
        elbo, surrogate = trajectory_elbo(model, *rows, kind=recipe.objective.cross_entropy, generator=generator)
        figures |= {"validation_negative_elbo": float(elbo.mean()), "validation_surrogate": float(surrogate.mean())}
    return figures


class RunLog:
    """Metrics of a run: `metrics.jsonl` and TensorBoard, means over the steps since the last line."""

    def __init__(self, folder: Path) -> None:
        self.board = TensorBoardLogger(root_dir=folder, name="", version="tensorboard")
        self.file: TextIO = (folder / "metrics.jsonl").open("w")
        self.pending: list[dict[str, Tensor]] = []

    def __enter__(self) -> "RunLog":
        return self

    def __exit__(self, *_: object) -> None:
        self.file.close()
        self.board.finalize("")

    def add(self, metrics: dict[str, Any]) -> None:
        """Remember one step's scalars (no synchronisation with the device)."""
        self.pending.append({key: torch.as_tensor(value).detach() for key, value in metrics.items()})

    def write_means(self, step: int, **more: float) -> str:
        """Write the means since the last call; return the figures for the progress bar."""
        names = self.pending[-1].keys()
        # nanmean: a step in which no trajectory ended has no rollout accuracy.
        means = {name: float(torch.stack([m[name].float() for m in self.pending]).nanmean()) for name in names}
        self.pending.clear()
        self.write(step, means | more)
        kl = sum(value for name, value in means.items() if name.startswith("kl_"))
        return (
            f"loss {means['loss']:.3f}  kl {kl:.3f}  posterior {means['posterior_accuracy']:.2f}  "
            f"rollout {means['rollout_accuracy']:.2f}"
        )

    def write(self, step: int, figures: dict[str, float]) -> None:
        """Append one line."""
        self.file.write(json.dumps({"step": step, **{k: _finite(v) for k, v in figures.items()}}) + "\n")
        self.file.flush()
        self.board.log_metrics({k: v for k, v in figures.items() if math.isfinite(v)}, step)


def _finite(value: float) -> float | None:
    return round(value, 6) if math.isfinite(value) else None


@contextmanager
def _progress(console: Console) -> Iterator[Progress]:
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, TextColumn("{task.fields[shown]}"), console=console) as progress:
        yield progress
