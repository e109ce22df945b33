"""The state of a training run, and one training step."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any, cast

import torch
from lightning_fabric import Fabric
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel
from torch.optim.swa_utils import AveragedModel

from gram.config import Recipe
from gram.models.base import Checker, Metrics, Model, StepContext, StepResult
from gram.models.carry import Carry, Rows
from gram.models.core import Network
from gram.models.registry import build_model
from gram.tasks.base import Examples, Task
from gram.training.distributed import SlotSharding
from gram.training.optim import build_optimizers, lr_factor
from gram.training.pool import Pool
from gram.training.retarget import Retarget
from gram.training.slots import SlotFeeder

Tensors = dict[str, Tensor]
CPU_MICRO_BATCH = 64
"""Slots per micro-batch on a CPU: 15% faster than 32 on N-Queens 8 for 10% more memory; 128 gains nothing more."""


class Stepper(nn.Module):
    """The model's training step as a forward pass from tensors to tensors, which Fabric can cast, wrap and watch."""

    def __init__(self, model: Model, context: StepContext) -> None:
        super().__init__()
        self.model, self.context = model, context

    def forward(self, rows: Tensors, carry: Tensors) -> tuple[Tensor, Tensors, Tensor, Metrics]:
        """Make one supervision step; return the fields of its `StepResult`."""
        result = self.model.training_step(Rows(**rows), Carry.of(carry), self.context)
        return result.loss, result.carry.tensors(), result.outputs, result.metrics


class Trainer:
    """A model in training: weights, their average, optimisers, slots and random generators."""

    def __init__(self, recipe: Recipe, task: Task, examples: Examples, fabric: Fabric) -> None:
        config = recipe.train
        self.recipe, self.fabric = recipe, fabric
        self.step_number = 0
        fabric.seed_everything(config.seed, verbose=False)
        self.model = build_model(recipe, vocab_size=task.vocab_size, length=task.length, structure=task.structure)
        self.model.prepare(examples.targets)
        context = StepContext(
            seed=config.seed, checker=checker_of(task), halt=config.halt_in_training, release=config.release
        )
        self.step_module = Stepper(self.model, context)
        self.sharding = SlotSharding(config.slots, self.model.rollout_rows(config.slots), fabric)
        self.micro_batches = micro_batches(self.sharding, config.micro_batch or default_micro_batch(fabric.device))
        if self.model.puzzle_embeddings is not None:
            # Their gradient is sparse: `_share_puzzle_gradient` exchanges the few rows that have one.
            ignored = ["model.encoder.puzzles"]
            DistributedDataParallel._set_params_and_buffers_to_ignore_for_model(self.step_module, ignored)  # type: ignore[no-untyped-call]
        if config.compile:
            compile_networks(self.model)
        self.stepper, *self.optimizers = fabric.setup(self.step_module, *build_optimizers(self.model, config))
        self.averaged, self.ema = averaged_copy(self.model, config.ema)
        self.feeder = SlotFeeder(
            task,
            examples,
            steps=self.model.steps_per_example,
            lifetime=config.lifetime,
            explore=config.explore,
            seed=config.seed,
            sharding=self.sharding,
            puzzle_ids=self.model.puzzle_embeddings is not None,
        )
        learns = recipe.objective.learn_from_rollouts
        self.retarget = Retarget(self.feeder, recipe.objective.reserve) if learns else None
        self.pool = self.empty_pool()
        self.indices = torch.zeros(len(self.sharding.own), dtype=torch.long)
        """[own slots] rows of data in the last update"""

    def empty_pool(self) -> Pool:
        """Return slots without examples."""
        config = self.recipe.train
        carry = self.model.init_carry(len(self.sharding.own))
        return Pool(carry, max(1, config.pool // config.slots), self.sharding, seed=config.seed)

    def step(self) -> dict[str, Any]:
        """Make one supervision step in the next batch of slots, and one update; return the metrics."""
        self.step_number += 1
        place = self.feeder.place()
        result = self.forward_backward()
        norm = self.clip()
        if not torch.as_tensor(norm).isfinite():  # nothing is changed, so that the state can be studied
            self.feeder.go_back(place)
        else:
            self.apply()
            carry = result.carry if self.retarget is None else self.retarget(result.carry, result.outputs)
            self.pool.put(carry)
        return {**result.metrics, "gradient_norm": norm}

    def forward_backward(self) -> StepResult:
        """Compute losses and gradients in micro-batches, averaged over all processes."""
        carry = self.pool.take()
        rows = self.feeder.offer(carry.finished)
        self.indices = torch.where(carry.finished, rows.index, carry.rows.index)
        progress = self.step_number / self.recipe.train.steps
        self.step_module.context = replace(self.step_module.context, progress=progress)
        results = []
        for number, part in enumerate(self.micro_batches):
            last = number == len(self.micro_batches) - 1
            with self.fabric.no_backward_sync(self.stepper, enabled=not last):
                loss, tensors, outputs, metrics = self.stepper(rows.part(part).tensors(), carry.part(part).tensors())
                self.fabric.backward(loss / len(self.micro_batches))
            results.append(StepResult(loss.detach(), Carry.of(tensors), outputs, metrics))
        self._share_puzzle_gradient()
        return results[0] if len(results) == 1 else joined(results)

    def clip(self) -> Any:
        """Clip the gradient norm; return the norm before."""
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
        """Exchange the sparse gradients of puzzle embeddings between processes."""
        table = self.model.puzzle_embeddings
        if table is None or self.sharding.size == 1 or table.grad is None:
            return
        gradient = table.grad.coalesce() if len(self.micro_batches) > 1 else table.grad
        indices, values = (
            cast(Tensor, self.fabric.all_gather(part)).flatten(0, 1)
            for part in (gradient._indices()[0], gradient._values() / self.sharding.size)
        )
        table.grad = torch.sparse_coo_tensor(indices[None], values, table.shape)

    # --- what a checkpoint holds --------------------------------------------------------------------------------------

    def state(self) -> tuple[Tensors, dict[str, Any]]:
        """Return the state of all slots as tensors by name and a JSON-ready dictionary; all processes must call it."""
        tensors = {f"model.{name}": tensor for name, tensor in self.model.state_dict().items()}
        shared = self.ema.puzzle_embeddings is not None
        for name, tensor in self.ema.state_dict().items():
            if not (shared and name == "encoder.puzzles"):
                tensors[f"ema.{name}"] = tensor
        tensors["averaged.count"] = self.averaged.n_averaged
        for number, optimizer in enumerate(self.optimizers):
            for index, values in optimizer.state_dict()["state"].items():
                for key, value in values.items():
                    tensors[f"optimizer.{number}.{index}.{key}"] = torch.as_tensor(value)
        tensors |= {f"slots.{name}": self.sharding.gather(part) for name, part in self.pool.tensors.items()}
        tensors["pool.order"] = torch.from_numpy(self.pool.order)
        tensors["feeder.order"] = torch.from_numpy(self.feeder.order)
        if self.retarget is not None:
            tensors["retarget.reserve"] = self.retarget.reserve
        other = {
            "step": self.step_number,
            "dealt": self.feeder.dealt,
            "total": self.feeder.total,
            "turn": self.pool.turn,
            "numpy": self.feeder.generator.bit_generator.state,
            "pool": self.pool.generator.bit_generator.state,
        }
        return tensors, other

    def load_state(self, tensors: Tensors, other: dict[str, Any]) -> None:
        """Restore the result of `state`."""
        self.model.load_state_dict(_below("model.", tensors))
        averaged = _below("ema.", tensors)
        if (table := self.model.puzzle_embeddings) is not None:
            averaged["encoder.puzzles"] = table.detach()
        self.ema.load_state_dict(averaged)
        self.averaged.n_averaged.copy_(tensors["averaged.count"])
        for number, optimizer in enumerate(self.optimizers):
            content = optimizer.state_dict()
            content["state"] = _optimizer_state(_below(f"optimizer.{number}.", tensors))
            optimizer.load_state_dict(content)
        own = torch.from_numpy(self.sharding.own)
        self.pool.tensors = {name: part[own].to(self.fabric.device) for name, part in _below("slots.", tensors).items()}
        self.pool.order, self.pool.turn = tensors["pool.order"].numpy(), other["turn"]
        self.pool.generator.bit_generator.state = other["pool"]
        self.feeder.order = tensors["feeder.order"].numpy()
        self.feeder.dealt, self.feeder.total = other["dealt"], other["total"]
        self.feeder.generator.bit_generator.state = other["numpy"]
        if self.retarget is not None:
            self.retarget.reserve = tensors["retarget.reserve"].cpu()
        self.step_number = other["step"]


def default_micro_batch(device: torch.device) -> int:
    """Return the default size of a micro-batch; 0 for all slots, except on a CPU."""
    return CPU_MICRO_BATCH if device.type == "cpu" else 0


def micro_batches(sharding: SlotSharding, rows: int) -> list[slice]:
    """Split the slots of a process into equal parts of at most `rows` (0: one part), with equally many rollouts.

    Part i of n holds every n-th slot from i on. If no equal parts are small enough, the smallest are used.
    """
    slots, rollouts = sharding.slots // sharding.size, sharding.rollouts // sharding.size
    even = [n for n in range(1, slots + 1) if slots % n == 0 and rollouts % n == 0]
    count = next((n for n in even if not rows or slots // n <= rows), even[-1])
    return [slice(first, None, count) for first in range(count)]


def joined(results: list[StepResult]) -> StepResult:
    """Join the slots of all micro-batches in their original order, and average the metrics."""
    count = len(results)
    tensors: Tensors = {}
    outputs = torch.cat([result.outputs for result in results])
    for name, first in results[0].carry.tensors().items():
        tensors[name] = first.new_empty(count * len(first), *first.shape[1:])
        for number, result in enumerate(results):
            tensors[name][number::count] = result.carry.tensors()[name]
    for number, result in enumerate(results):
        outputs[number::count] = result.outputs
    metrics = {
        name: torch.stack([result.metrics[name].float() for result in results]).nanmean() for name in results[0].metrics
    }
    return StepResult(metrics["loss"], Carry.of(tensors), outputs, metrics)


def _below(prefix: str, tensors: Tensors) -> Tensors:
    return {name.removeprefix(prefix): tensor for name, tensor in tensors.items() if name.startswith(prefix)}


def _optimizer_state(tensors: Tensors) -> dict[int, Tensors]:
    state: dict[int, Tensors] = {}
    for name, tensor in tensors.items():
        index, _, key = name.partition(".")
        state.setdefault(int(index), {})[key] = tensor
    return state


def compile_networks(model: Model) -> None:
    """Compile f_L and f_H in place, so that the names in a checkpoint do not change."""
    for network in model.modules():
        if isinstance(network, Network):
            network.compile(dynamic=False)


def averaged_copy(model: Model, decay: float) -> tuple[AveragedModel, Model]:
    """Return the averaged weights, and the model that contains them.

    The puzzle embeddings are shared instead of averaged, as published: with a million of them a dense average would
    cost more than the update, and a row that was not used does not change.
    """
    averaged = AveragedModel(model, multi_avg_fn=moving_average(decay))
    ema = cast(Model, averaged.module).eval()
    ema.share_puzzle_embeddings(model)
    return averaged, ema


def moving_average(decay: float) -> Callable[[Any, Any, Any], None]:
    """Return an exponential moving average whose window grows, so that the initial weights are soon forgotten."""

    @torch.no_grad()
    def update(averaged: list[Tensor], current: list[Tensor], count: Tensor | int) -> None:
        n = int(count)
        pairs = [(a, c) for a, c in zip(averaged, current, strict=True) if a.data_ptr() != c.data_ptr()]  # not shared
        averaged, current = map(list, zip(*pairs, strict=True))
        torch._foreach_lerp_(averaged, current, 1 - min(decay, (1 + n) / (10 + n)))

    return update


def checker_of(task: Task) -> Checker | None:
    """Return the task's checker as a function of tensors; None if it has none."""
    if not task.has_rules:
        return None

    def check(inputs: Tensor, outputs: Tensor) -> Tensor:
        return torch.from_numpy(task.verify(inputs.cpu().numpy(), outputs.cpu().numpy()).valid).to(inputs.device)

    return check
