"""Everything that changes during a run, and the one step that changes it."""

import math
from collections.abc import Callable
from typing import Any, cast

import torch
from lightning_fabric import Fabric
from torch import Tensor
from torch.nn.parallel import DistributedDataParallel
from torch.optim.swa_utils import AveragedModel

from gram.config import Recipe
from gram.models.baselines.model import Generative
from gram.models.build import Model, build_model
from gram.models.layers import Network
from gram.models.reasoner import Reasoner
from gram.tasks.base import IGNORE, Examples, Task
from gram.training.distributed import Team
from gram.training.generative import GenerativeObjective
from gram.training.objective import Checker, Objective
from gram.training.optim import build_optimizers, lr_factor, puzzle_embeddings
from gram.training.pool import Pool
from gram.training.slots import SlotFeeder
from gram.training.update import Update

Tensors = dict[str, Tensor]
CPU_PIECE = 32
"""Slots whose activations are kept at a time on a CPU: the multiplies are large enough, and memory is reused sooner."""


class Trainer:
    """A model in training: weights, their average, optimisers, slots, and every source of chance."""

    def __init__(self, recipe: Recipe, task: Task, examples: Examples, fabric: Fabric) -> None:
        config = recipe.train
        self.recipe, self.fabric = recipe, fabric
        self.step_number = 0
        fabric.seed_everything(config.seed, verbose=False)
        structure = task.structure
        self.model = build_model(recipe, vocab_size=task.vocab_size, length=task.length, structure=structure)
        if isinstance(self.model, Generative):
            self.model.labelled.copy_(torch.from_numpy((examples.targets != IGNORE).any(axis=0)))
        self.objective = build_objective(self.model, recipe, task)
        self.team = Team(config.slots, self.objective.prior_rows(config.slots), fabric)
        if isinstance(self.objective, Objective):
            self.objective.team = self.team
            self.objective.piece_rows = config.piece or (CPU_PIECE if fabric.device.type == "cpu" else 0)
            self.objective.backward = lambda loss: fabric.backward(loss)
        if puzzle_embeddings(self.model) is not None:
            # Their gradient is sparse: `_share_puzzle_gradient` exchanges the few rows that have one.
            ignored = ["model.encoder.puzzles"]
            DistributedDataParallel._set_params_and_buffers_to_ignore_for_model(self.objective, ignored)  # type: ignore[no-untyped-call]
        if config.compile:
            compile_networks(self.model)
        self.stepper, *self.optimizers = fabric.setup(self.objective, *build_optimizers(self.model, config))
        self.averaged, self.ema = averaged_copy(self.model, config.ema)
        self.feeder = SlotFeeder(
            task,
            examples,
            steps=self.objective.steps_per_example,
            lifetime=config.lifetime,
            explore=config.explore,
            seed=config.seed,
            team=self.team,
            puzzle_ids=puzzle_embeddings(self.model) is not None,
            reserve=recipe.objective.reserve,
        )
        layers = max(1, config.pool // config.slots)
        self.pool = Pool(
            [self.feeder.start(self.model, fabric.device) for _ in range(layers)], self.team, seed=config.seed
        )
        self.slots = self.pool.take()
        """the batch of the next update"""
        self.generator = torch.Generator(device=fabric.device).manual_seed(config.seed)

    def step(self) -> dict[str, Any]:
        """One supervision step for every slot, and one update of the weights; the metrics of the step."""
        self.step_number += 1
        update = self.forward()
        self.backward(update)
        norm = self.clip()
        if torch.as_tensor(norm).isfinite():  # otherwise everything stays as it was, for study
            self.apply()
            self.feed(update)
        return {**update.metrics, "gradient_norm": norm}

    def forward(self) -> Update:
        """The losses of this step."""
        update: Update = self.stepper(self.slots, beta_at(self.recipe, self.step_number), self.generator)
        return update

    def backward(self, update: Update) -> None:
        """The gradients of this step, those of all processes added up."""
        self.fabric.backward(update.loss)
        self._share_puzzle_gradient()

    def clip(self) -> Any:
        """Bound the norm of the gradient; return what it was."""
        return self.fabric.clip_gradients(
            self.stepper, self.optimizers[0], max_norm=self.recipe.train.clip, error_if_nonfinite=False
        )

    def apply(self) -> None:
        """Update the weights and their average."""
        config = self.recipe.train
        factor = lr_factor(self.step_number, warmup=config.warmup, total=config.steps, final=config.lr_final)
        for optimizer, peak in zip(self.optimizers, (config.lr, config.puzzle_lr), strict=False):
            for group in optimizer.param_groups:
                group["lr"] = peak * factor
            optimizer.step()
            optimizer.zero_grad(set_to_none=True)
        self.averaged.update_parameters(self.model)

    def _share_puzzle_gradient(self) -> None:
        """Give every process the gradients that the others have for puzzle embeddings."""
        table = puzzle_embeddings(self.model)
        if table is None or self.team.size == 1 or table.grad is None:
            return
        indices, values = (
            cast(Tensor, self.fabric.all_gather(part)).flatten(0, 1)
            for part in (table.grad._indices()[0], table.grad._values() / self.team.size)
        )
        table.grad = torch.sparse_coo_tensor(indices[None], values, table.shape)

    def feed(self, update: Update) -> None:
        """Carry the states on, and put fresh examples where one is done."""
        self.slots.state, self.slots.steps = update.state, self.slots.steps + 1
        if self.recipe.objective.learn_from_rollouts and self.recipe.generative is None:
            self.feeder.retarget(self.slots, update.rollouts)
        self.feeder.refill(self.slots, update.finished, self.model)
        self.pool.put(self.slots)
        self.slots = self.pool.take()

    # --- what a checkpoint holds --------------------------------------------------------------------------------------

    def state(self) -> tuple[Tensors, dict[str, Any]]:
        """Everything: tensors by name, and what is JSON. All processes must call it; the slots are those of all."""
        tensors = {f"model.{name}": tensor for name, tensor in self.model.state_dict().items()}
        shared = puzzle_embeddings(self.ema) is not None
        for name, tensor in self.ema.state_dict().items():
            if not (shared and name == "encoder.puzzles"):
                tensors[f"ema.{name}"] = tensor
        tensors["averaged.count"] = self.averaged.n_averaged
        for number, optimizer in enumerate(self.optimizers):
            for index, values in optimizer.state_dict()["state"].items():
                for key, value in values.items():
                    tensors[f"optimizer.{number}.{index}.{key}"] = torch.as_tensor(value)
        tensors |= {f"slots.{name}": part for name, part in self.pool.map(self.team.gather).items()}
        tensors["pool.order"] = torch.from_numpy(self.pool.order)
        tensors["feeder.order"] = torch.from_numpy(self.feeder.order)
        tensors["feeder.reserve"] = self.feeder.reserve
        tensors["generator"] = self.generator.get_state()
        tensors["torch"] = torch.get_rng_state()
        other = {
            "step": self.step_number,
            "dealt": self.feeder.dealt,
            "turn": self.pool.turn,
            "numpy": self.feeder.generator.bit_generator.state,
            "pool": self.pool.generator.bit_generator.state,
        }
        return tensors, other

    def load_state(self, tensors: Tensors, other: dict[str, Any]) -> None:
        """Go on exactly where `state` was taken."""
        self.model.load_state_dict(_below("model.", tensors))
        averaged = _below("ema.", tensors)
        if (table := puzzle_embeddings(self.model)) is not None:
            averaged["encoder.puzzles"] = table.detach()
        self.ema.load_state_dict(averaged)
        self.averaged.n_averaged.copy_(tensors["averaged.count"])
        for number, optimizer in enumerate(self.optimizers):
            content = optimizer.state_dict()
            content["state"] = _optimizer_state(_below(f"optimizer.{number}.", tensors))
            optimizer.load_state_dict(content)
        own = torch.from_numpy(self.team.own)
        parts = {name: part[own].to(self.fabric.device) for name, part in _below("slots.", tensors).items()}
        self.pool.tensors = parts
        self.pool.order, self.pool.turn = tensors["pool.order"].numpy(), other["turn"]
        self.pool.generator.bit_generator.state = other["pool"]
        self.slots = self.pool.take()
        self.feeder.order = tensors["feeder.order"].numpy()
        self.feeder.reserve = tensors["feeder.reserve"].cpu()
        self.feeder.dealt = other["dealt"]
        self.feeder.generator.bit_generator.state = other["numpy"]
        self.generator.set_state(tensors["generator"].cpu())
        torch.set_rng_state(tensors["torch"].cpu())
        self.step_number = other["step"]


def _below(prefix: str, tensors: Tensors) -> Tensors:
    return {name.removeprefix(prefix): tensor for name, tensor in tensors.items() if name.startswith(prefix)}


def _optimizer_state(tensors: Tensors) -> dict[int, Tensors]:
    state: dict[int, Tensors] = {}
    for name, tensor in tensors.items():
        index, _, key = name.partition(".")
        state.setdefault(int(index), {})[key] = tensor
    return state


def build_objective(model: Model, recipe: Recipe, task: Task) -> Objective | GenerativeObjective:
    """The loss that a model is trained by."""
    if isinstance(model, Generative):
        return GenerativeObjective(model)
    halting, release = recipe.train.halt_in_training, recipe.train.release
    return Objective(model, recipe.objective, checker=checker_of(task), halt_in_training=halting, release=release)


def compile_networks(model: Model) -> None:
    """Compile f_L and f_H, where all the time goes; in place, so that a checkpoint does not show it."""
    for network in model.modules():
        if isinstance(network, Network):
            network.compile(dynamic=False)


def averaged_copy(model: Model, decay: float) -> tuple[AveragedModel, Model]:
    """The averaged weights, and the model that holds them.

    The puzzle embeddings are shared instead of averaged, as published: with a million of them a dense average would
    cost more than the update, and a row that was not used does not change.
    """
    averaged = AveragedModel(model, multi_avg_fn=moving_average(decay))
    ema = cast(Model, averaged.module).eval()
    if isinstance(model, Reasoner) and isinstance(ema, Reasoner):
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
