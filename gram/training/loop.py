"""The training loop: from a recipe to a folder with averaged weights, metrics, checkpoints and test results."""

import time
from pathlib import Path
from typing import Any

import torch
from rich.console import Console

from gram.checkpoints.card import write_card
from gram.checkpoints.folder import WEIGHTS_FILE, load_model, load_weights, save_model, stored_eval
from gram.config import Recipe, settings_text
from gram.errors import GramError, Interrupted, PeerDied
from gram.evaluation.evaluate import HEADLINES, evaluate, headlines
from gram.files import remove_leftovers, write_json
from gram.models.widen import can_widen, widen
from gram.progress import TrainingBar, bar
from gram.tasks import make_task
from gram.tasks.base import SPLITS, Examples
from gram.training.fit import check_fit, resolve_recipe
from gram.training.launch import make_fabric, prepare_machine
from gram.training.log import Position, RunLog, summary, wandb_package
from gram.training.run_checkpoint import (
    begin_run,
    check_data,
    check_new,
    check_plugin,
    check_same,
    is_empty,
    load_checkpoint,
    read_run,
    save_checkpoint,
    save_state,
    working_in,
)
from gram.training.shutdown import Stop, graceful_shutdown
from gram.training.step import Trainer
from gram.training.validation import validate, validation_options
from gram.training.watch import LeakWatch, MemorisationWatch

DIVERGED_FILE, TEST_FILE = "diverged.safetensors", "test.json"


def train(recipe: Recipe, out: Path, console: Console, *, start: Path | None = None) -> dict[str, Any]:
    """Train a recipe into the new folder `out`; return the evaluation of the averaged weights on the test split.

    The weights are initialised at random, or from the model in the folder `start`.
    """
    check_new(out)
    with working_in(out):  # `begin_run` looks again: another process may have been faster
        run = Run(recipe, out, console)
        if start is not None:
            run.start_from(start)
        if run.first:
            begin_run(out, recipe, split_hash=run.task.split_hash())
        return run.finish()


def resume(
    out: Path,
    console: Console,
    recipe: Recipe | None = None,
    *,
    plugin: str | None = None,
    allow_other_data: bool = False,
) -> dict[str, Any]:
    """Resume the run in `out` from its last checkpoint; a recipe, if given, must be the run's own.

    With a recipe, a folder that does not exist yet starts a new run, so that one command serves for starts and
    restarts. If the data has changed since the run started, `allow_other_data` is required. A plugin is code: it is run
    if `recipe` or `plugin` names it, but not if only the folder does.
    """
    if recipe is not None and (not out.exists() or is_empty(out)):
        return train(recipe, out, console)
    begun = read_run(out)
    if recipe is not None:
        check_same(begun.recipe, recipe)
    check_plugin(begun.recipe if recipe is None else None, plugin)
    with working_in(out):
        run = Run(begun.recipe, out, console, plugin=plugin)
        check_data(out, begun, run.task.split_hash(), allow_other_data=allow_other_data)
        found = load_checkpoint(out)
        run.fabric.barrier()
        if run.first:
            remove_leftovers(out)
        if found is None:
            run.console.print("No checkpoint was written yet: starting at step 0.")
        else:
            tensors, other, problems = found
            for problem in problems:
                run.console.print(f"Warning: {problem}; resuming from the previous checkpoint.")
            run.load(tensors, other)
            run.console.print(f"Resuming after step {run.trainer.step_number} of {begun.recipe.train.steps}.")
        return run.finish()


class Run:
    """One training run and its folder."""

    def __init__(self, recipe: Recipe, out: Path, console: Console, *, plugin: str | None = None) -> None:
        config = recipe.train
        device = prepare_machine(config)
        if config.wandb:
            wandb_package()  # refuses before any work if it is missing
        self.out = out
        chosen = {} if plugin is None else {"plugin": plugin}
        self.task = make_task(recipe.task.name, **{**recipe.task.options, **chosen})
        self.splits: dict[str, Examples] = {name: self.task.split(name) for name in SPLITS}
        self.recipe = resolve_recipe(recipe, self.task)
        check_fit(self.recipe, self.task, self.splits)
        self.fabric = make_fabric(device, config.precision)
        self.first = self.fabric.is_global_zero
        """whether this process prints and writes for all"""
        self.console = console if self.first else Console(quiet=True)
        self.trainer = Trainer(self.recipe, self.task, self.splits["train"], self.fabric)
        self.watches = (LeakWatch(), MemorisationWatch())
        self.seconds = 0.0
        """of training, including those before a resume"""
        self.started = False
        """whether the weights are those of another model and are not saved yet"""
        self.pending: dict[str, torch.Tensor] = {}
        """metrics of steps since the last line of the log, from a checkpoint"""
        self.logged = Position()
        """the part of the log that was written before the checkpoint"""
        self.unvalidated = False
        """whether the validation of the checkpoint's step is still to be done"""
        self.best: float | None = None
        """the best validation metric so far, if the best weights are kept"""
        self.eval = self.recipe.eval
        """sampling options of the recipe, or those chosen by `gram tune`"""
        processes = f", {self.fabric.world_size} processes" if self.fabric.world_size > 1 else ""
        self.console.print(
            f"{self.task.name}, split {self.task.split_hash()}: {len(self.splits['train'])} pairs; "
            f"{self.trainer.model.parameter_count:,} parameters; {device}{processes}"
        )

    def load(self, tensors: dict[str, torch.Tensor], other: dict[str, Any]) -> None:
        """Restore a checkpoint."""
        rows, now = len(tensors.get("feeder.order", ())), len(self.splits["train"])
        if rows not in (0, now):  # before the first step nothing was dealt
            raise GramError(f"The run was trained on {rows} rows, and there are {now} now: start a new run.")
        try:
            self.trainer.load_state(tensors, other)
        except (KeyError, RuntimeError, ValueError) as error:
            raise GramError(f"The checkpoint does not fit this task and version: {_first_line(error)}.") from error
        self.seconds, self.best = other["seconds"], other.get("best")
        self.pending = {name.removeprefix("log."): part for name, part in tensors.items() if name.startswith("log.")}
        self.logged, self.unvalidated = Position(*other["log"]), other["unvalidated"]
        for watch, seen in zip(self.watches, other.get("watches", ()), strict=False):
            vars(watch).update(seen)
        try:
            self.eval = stored_eval(self.out) or self.eval
        except GramError as error:
            self.console.print(f"Warning: {error} It will be rewritten with the sampling settings of the recipe.")

    def start_from(self, folder: Path) -> None:
        """Load the weights of a trained model of the same shape, or of one that can be widened to it."""
        trainer = self.trainer
        trained, *_ = load_model(folder)
        if can_widen(trained, trainer.model):
            widen(trained, trainer.model)
        else:
            load_weights(trainer.model, folder / WEIGHTS_FILE)
        trainer.ema.load_state_dict(trainer.model.state_dict())
        trainer.pool = trainer.empty_pool()  # with the z_0 of these weights
        self.started = True

    def finish(self) -> dict[str, Any]:
        """Train to the end, evaluate, and write `test.json`."""
        config = self.recipe.train
        self.fabric.barrier()  # the folder is there
        with graceful_shutdown() as stop:
            try:
                with RunLog(self.out if self.first else None, after=self.logged, wandb=config.wandb) as log:
                    for problem in log.problems:
                        self.console.print(f"Warning: {problem}.")
                    log.restore(self.pending)
                    if self.started:  # a resume needs these weights, however early the run stops
                        self._save(log, unvalidated=False)
                    self._to_the_end(log, stop)
                return self._tested(stop)
            except RuntimeError as error:
                if self.fabric.world_size == 1:
                    raise
                # torch has no exception of its own for a lost connection.
                raise PeerDied(
                    f"Another process of the run has died ({_first_line(error)}): resume with --resume."
                ) from error

    def _to_the_end(self, log: RunLog, stop: Stop) -> None:
        trainer, config = self.trainer, self.recipe.train
        with TrainingBar(self.console, config.steps, trainer.step_number) as bar:
            if self.unvalidated:
                self._validate(log, stop, bar)
            started = time.monotonic() - self.seconds
            while trainer.step_number < config.steps:
                metrics = trainer.step()
                self.seconds = time.monotonic() - started
                log.add(metrics)
                self._check_finite(metrics)
                bar.advance(self._log(log))
                last = trainer.step_number == config.steps
                due = last or trainer.step_number % config.eval_every == 0
                asked = trainer.sharding.any(stop.asked)
                if asked or due or trainer.step_number % config.save_every == 0:
                    self._save(log, unvalidated=due)
                if asked:
                    saved = f"Interrupted and saved after step {trainer.step_number}"
                    raise Interrupted(f"{saved}: resume with --resume {self.out}.", asked)
                if due:
                    self._validate(log, stop, bar)

    def _validate(self, log: RunLog, stop: Stop, bar: TrainingBar) -> None:
        """Evaluate the averaged weights on the validation split, and write the model if it is to be kept.

        The step has already been saved.
        """
        step, model, task, config = self.trainer.step_number, self.trainer.ema, self.task, self.recipe.train
        if len(examples := self.splits["validation"]):
            saved = f"Interrupted during the validation after step {step}, which is saved"
            count = len(examples.distinct(config.eval_inputs).rows) * validation_options(model, self.recipe, task).width
            at_once = stop.at_once(f"{saved}: resume with --resume {self.out}.")
            with at_once, bar.part("validation", count) as advance:
                metrics = validate(model, task, examples, self.recipe, self.fabric, progress=advance)
            log.write(step, metrics)
            self._watch(metrics)
            if config.keep == "best":
                metric = metrics[f"validation_{HEADLINES[task.scoring][0]}"]
                if self.best is not None and metric < self.best:
                    return
                self.best = metric
        if self.first:
            recipe = self.recipe.model_copy(update={"eval": self.eval})
            about = {"steps": step, "split_hash": task.split_hash(), "shape": task.shape}
            save_model(self.out, model, recipe, extra=about, puzzle_table=task.puzzle_table())

    def _tested(self, stop: Stop) -> dict[str, Any]:
        """Evaluate the averaged weights on the test split, and write `test.json`."""
        config, model, task, fabric = self.recipe.train, self.trainer.ema, self.task, self.fabric
        options, limit, rows = self.eval, config.test_inputs or None, self.splits["test"]
        count = len(rows.distinct(limit).rows) * options.width
        if config.keep == "best":
            fabric.barrier()  # it is written
            load_weights(model, self.out / WEIGHTS_FILE)
        saved = "Interrupted during the evaluation; the trained model is saved"
        at_once = stop.at_once(f"{saved}: evaluate it with --resume {self.out}.")
        with bar(self.console, "evaluating on the test split", count) as advance, at_once:
            result = evaluate(model, task, "test", options, limit=limit, examples=rows, fabric=fabric, progress=advance)
        result |= {"train_minutes": self.seconds / 60, "train_seed": config.seed, "train_steps": config.steps}
        if self.first:
            write_json(self.out / TEST_FILE, result)
            write_card(self.out, result, headlines(task), settings_text(options.only(model.supported)))
        return result

    def _log(self, log: RunLog) -> str:
        """Write a line of the log if one is due; return the text for the progress bar, if it changes."""
        trainer, config = self.trainer, self.recipe.train
        step = trainer.step_number
        if step % config.log_every and step != config.steps:
            return ""
        means = trainer.sharding.mean(log.means())
        means |= {"seconds": self.seconds, "lr": trainer.optimizers[0].param_groups[0]["lr"]}
        log.write(step, means)
        self._watch(means)
        return summary(means)

    def _watch(self, metrics: dict[str, float]) -> None:
        for watch in self.watches:
            if (warning := watch.notice(metrics)) is not None:
                self.console.print(warning)

    def _save(self, log: RunLog, *, unvalidated: bool) -> None:
        tensors, other = self.trainer.state()
        tensors |= {f"log.{name}": part for name, part in log.state().items()}
        if self.first:
            other |= {"seconds": self.seconds, "log": log.position, "unvalidated": unvalidated, "best": self.best}
            save_checkpoint(self.out, tensors, other | {"watches": [vars(watch) for watch in self.watches]})
        self.fabric.barrier()  # no process continues or ends before it is written

    def _check_finite(self, metrics: dict[str, Any]) -> None:
        """Stop the run if a gradient is not finite, and save its state."""
        if torch.as_tensor(metrics["gradient_norm"]).isfinite():
            return
        tensors, other = self.trainer.state()
        rows = self.trainer.sharding.gather(self.trainer.indices).tolist()
        if self.first:
            save_state(self.out / DIVERGED_FILE, tensors, {**other, "rows": rows})
        lr, loss = self.recipe.train.lr, float(metrics["loss"].detach())
        raise GramError(
            f"Training diverged at step {self.trainer.step_number} (loss {loss:.4g}): lower train.lr (now {lr}). "
            f"The state before that step and its rows of data are in {DIVERGED_FILE}."
        )


def _first_line(error: Exception) -> str:
    return (str(error).splitlines() or [type(error).__name__])[0]
