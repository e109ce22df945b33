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
from gram.evaluation.evaluate import HEADLINES, evaluate
from gram.inference.rollout import SampleOptions
from gram.machine import choose_device, keep_freed_memory
from gram.nn.reasoner import Reasoner
from gram.tasks import make_task
from gram.tasks.base import Examples, SplitName, Task, Tokens
from gram.training.checkpoint import save_model
from gram.training.objective import Checker, Objective, trajectory_elbo
from gram.training.optim import build_optimizers, lr_factor
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
    recipe = fitted(recipe, task)
    check_fit(recipe, task, splits)
    accelerator, _, number = device.partition(":")
    fabric = Fabric(accelerator=accelerator, devices=[int(number)] if number else 1, precision=config.precision)
    fabric.seed_everything(config.seed, verbose=False)
    model = Reasoner(recipe.model, vocab_size=task.vocab_size, length=task.length)
    objective = Objective(model, recipe.objective, checker=checker_of(task), halt_in_training=config.halt_in_training)
    stepper, *optimizers = fabric.setup(objective, *build_optimizers(model, config))
    averaged, ema = averaged_copy(model, config.ema)
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
            factor = lr_factor(step, warmup=config.warmup, total=config.steps, final=config.lr_final)
            for optimizer, peak in zip(optimizers, (config.lr, config.puzzle_lr), strict=False):
                for group in optimizer.param_groups:
                    group["lr"] = peak * factor
            update = stepper(slots, beta_at(recipe, step), generator)
            fabric.backward(update.loss)
            norm = fabric.clip_gradients(stepper, optimizers[0], max_norm=config.clip, error_if_nonfinite=False)
            if not torch.as_tensor(norm).isfinite():
                raise GramError(f"Training diverged at step {step}: lower train.lr (now {config.lr}).")
            for optimizer in optimizers:
                optimizer.step()
                optimizer.zero_grad(set_to_none=True)
            averaged.update_parameters(model)
            slots.state, slots.steps = update.state, slots.steps + 1
            if recipe.objective.learn_from_rollouts:
                feeder.retarget(slots, update.rollouts)
            feeder.refill(slots, update.finished, model)
            log.add(update.metrics | {"gradient_norm": norm})
            if step % config.log_every == 0 or step == config.steps:
                shown = log.write_means(step, seconds=time.monotonic() - started, lr=config.lr * factor)
                bar.update(line, shown=shown)
            if step % config.eval_every == 0 or step == config.steps:
                log.write(step, validation_figures(ema, task, splits["validation"], recipe))
                save_model(out, ema, recipe, extra={"steps": step}, puzzle_table=task.puzzle_table())
            bar.advance(line)
        minutes = (time.monotonic() - started) / 60
        options = SampleOptions(**recipe.eval.model_dump())
        bar.update(line, description="test split")
        result = evaluate(ema, task, "test", options, examples=splits["test"])
    result |= {"train_minutes": minutes, "train_seed": config.seed, "train_steps": config.steps}
    (out / "test.json").write_text(json.dumps(result, indent=2) + "\n")
    return result


def fitted(recipe: Recipe, task: Task) -> Recipe:
    """The recipe with the number of puzzles that only the task knows."""
    if not recipe.model.puzzle_tokens or recipe.model.puzzles:
        return recipe
    return recipe.model_copy(update={"model": recipe.model.model_copy(update={"puzzles": task.puzzles})})


def check_fit(recipe: Recipe, task: Task, splits: dict[str, Examples]) -> None:
    """Refuse, before any long work, a recipe that does not fit its task."""
    for name, part in splits.items():
        if not len(part):
            raise GramError(f"The {name} split of {task.name} is empty: change the shares in task.options.")
    model = recipe.model
    if model.puzzle_tokens and not task.puzzles:
        raise GramError(f"Task {task.name} has no puzzle ids: set model.puzzle_tokens and model.puzzles to 0.")
    if model.puzzle_tokens and model.puzzles != task.puzzles:
        raise GramError(f"Task {task.name} has {task.puzzles} puzzle ids: leave out model.puzzles ({model.puzzles}).")
    if model.image is not None and math.prod(model.image) != task.length:
        raise GramError(
            f"model.image {list(model.image)} does not fit {task.name}: its rows have {task.length} tokens."
        )
    if recipe.objective.learn_from_rollouts:
        _check_rollouts(task, splits["train"].groups)


def _check_rollouts(task: Task, groups: Tokens) -> None:
    if task.scoring == "generation":
        # The nearest of all training answers would make the model copy them.
        raise GramError(f"Task {task.name} has one blank input for all its answers: no objective.learn_from_rollouts.")
    if task.augments and len(groups) > len(np.unique(groups)):
        # The other solutions of an input are stored as they were before its slot's augmentation.
        raise GramError(f"Task {task.name} augments inputs with several solutions: no objective.learn_from_rollouts.")


def averaged_copy(model: Reasoner, decay: float) -> tuple[AveragedModel, Reasoner]:
    """The averaged weights, and the model that holds them.

    The puzzle embeddings are shared instead of averaged, as published: with a million of them a dense average would
    cost more than the update, and a row that was not used does not change.
    """
    averaged = AveragedModel(model, multi_avg_fn=moving_average(decay))
    ema = cast(Reasoner, averaged.module).eval()
    ema.encoder.puzzles = model.encoder.puzzles
    return averaged, ema


def moving_average(decay: float) -> Callable[[Any, Any, Any], None]:
    """Exponential moving average whose window grows with the run, so that the first weights are soon forgotten."""

    @torch.no_grad()
    def update(averaged: list[Tensor], current: list[Tensor], count: Tensor | int) -> None:
        n = int(count)
        pairs = [(a, c) for a, c in zip(averaged, current, strict=True) if a.data_ptr() != c.data_ptr()]  # not shared
        averaged, current = map(list, zip(*pairs, strict=True))
        torch._foreach_lerp_(averaged, current, 1 - min(decay, (1 + n) / (10 + n)))

    return update


def checker_of(task: Task) -> Checker | None:
    """The task's verdict as a function of tensors; None if it has no rules to judge by."""
    if not task.has_rules:
        return None

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
    # Where there is but one input, the samples that would go to all go to it.
    width = config.eval_width * (config.eval_inputs if task.scoring == "generation" else 1)
    options = SampleOptions(width=width, depth=recipe.model.supervision_steps)
    result = evaluate(model, task, "validation", options, limit=config.eval_inputs, examples=examples)
    figures = {f"validation_{key}": result[key] for key in HEADLINES[task.scoring]}
    if model.guidance is not None:
        device = model.h_init.device
        inputs, targets = (
            torch.from_numpy(np.array(part[: config.eval_inputs])).to(device)
            for part in (examples.inputs, examples.targets)
        )
        ids = None
        if model.config.puzzle_tokens and examples.puzzle_ids is not None:
            ids = torch.from_numpy(examples.puzzle_ids[: config.eval_inputs]).to(device)
        generator = torch.Generator(device=device).manual_seed(config.seed)
        elbo, surrogate = trajectory_elbo(
            model, inputs, targets, puzzle_ids=ids, kind=recipe.objective.cross_entropy, generator=generator
        )
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
