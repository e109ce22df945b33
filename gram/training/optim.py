"""The optimisers and the learning-rate schedule."""

import math
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.optim.optimizer import Optimizer, ParamsT

from gram.config import TrainConfig
from gram.models.base import Model


class GroupOptimizer(Optimizer):
    """An optimiser whose subclasses define `_update_group`."""

    @torch.no_grad()
    def step(self, closure: Callable[[], float] | None = None) -> float | None:  # type: ignore[override]
        """Update every parameter that has a gradient; return the closure's loss, if a closure is given."""
        with torch.enable_grad():
            loss = None if closure is None else closure()
        for group in self.param_groups:
            self._update_group(group)
        return loss

    def _update_group(self, group: dict[str, Any]) -> None:
        raise NotImplementedError

    @staticmethod
    def _check(lr: float, weight_decay: float) -> None:
        if lr < 0 or weight_decay < 0:
            raise ValueError(f"lr and weight_decay must not be negative, got lr={lr}, weight_decay={weight_decay}")


class AdamATan2(GroupOptimizer):
    """Adam with `atan2` in place of the division, so there is no epsilon and the gradient's scale does not matter.

    HRM and TRM are trained with it. One update, at step t:

        p <- p (1 - lr weight_decay)
        m <- beta1 m + (1 - beta1) g
        v <- beta2 v + (1 - beta2) g^2
        p <- p - lr / (1 - beta1^t) atan2(m, sqrt(v / (1 - beta2^t)))

    The first bias correction stands outside the atan2, as in the compiled kernel those models were trained with
    (adam-atan2 0.0.3). Placed inside, it makes the first update pi/4 lr instead of about lr; the two agree once
    beta1^t has vanished. State and arithmetic are in the parameter's own dtype.
    """

    def __init__(
        self, params: ParamsT, *, lr: float = 1e-4, betas: tuple[float, float] = (0.9, 0.95), weight_decay: float = 0.0
    ) -> None:
        self._check(lr, weight_decay)
        if not all(0 <= beta < 1 for beta in betas):
            raise ValueError(f"both betas must lie in [0, 1), got {betas}")
        super().__init__(params, {"lr": lr, "betas": betas, "weight_decay": weight_decay})

    def _update_group(self, group: dict[str, Any]) -> None:
        lr, (beta1, beta2), weight_decay = group["lr"], group["betas"], group["weight_decay"]
        params = [p for p in group["params"] if p.grad is not None]
        if not params:
            return
        grads = [p.grad for p in params]
        if any(grad.is_sparse for grad in grads):
            raise ValueError("AdamATan2 needs dense gradients; build the embedding with sparse=False")
        states = [self._state_of(p) for p in params]
        exp_avgs = [state["exp_avg"] for state in states]
        exp_avg_sqs = [state["exp_avg_sq"] for state in states]
        for state in states:
            state["step"] += 1
        # Counted per parameter: one that received its first gradient late is corrected for its own few steps.
        steps = [int(state["step"]) for state in states]

        torch._foreach_mul_(params, 1 - lr * weight_decay)
        torch._foreach_lerp_(exp_avgs, grads, 1 - beta1)
        torch._foreach_mul_(exp_avg_sqs, beta2)
        torch._foreach_addcmul_(exp_avg_sqs, grads, grads, 1 - beta2)

        denominators = torch._foreach_sqrt(exp_avg_sqs)
        torch._foreach_div_(denominators, [math.sqrt(1 - beta2**t) for t in steps])
        # atan2 has no foreach form. atan2(0, 0) = 0: a parameter whose gradient was always zero only decays.
        updates = [torch.atan2(m, d, out=d) for m, d in zip(exp_avgs, denominators, strict=True)]
        torch._foreach_mul_(updates, [-lr / (1 - beta1**t) for t in steps])
        torch._foreach_add_(params, updates)

    def _state_of(self, param: Tensor) -> dict[str, Tensor]:
        state: dict[str, Tensor] = self.state[param]
        if not state:
            # On the CPU whatever the parameter's device, so that reading the count never waits for a GPU.
            state["step"] = torch.zeros((), dtype=torch.float32)
            state["exp_avg"] = torch.zeros_like(param)
            state["exp_avg_sq"] = torch.zeros_like(param)
        return state


class SparseSignSGD(GroupOptimizer):
    """Sign descent with decoupled weight decay on the rows of an embedding that have a gradient.

    HRM and TRM train their puzzle embeddings with it: a row is used so rarely that the moments of Adam would contain
    little more than the sign of the last gradient. With g the sum of the gradients of all uses of a row in the batch:

        w <- w (1 - lr weight_decay) - lr sign(g)

    It needs sparse gradients (`nn.Embedding(..., sparse=True)`), keeps no state, and its time and memory depend on the
    size of the batch alone, so that a million puzzles cost no more than a thousand.
    """

    def __init__(self, params: ParamsT, *, lr: float = 1e-3, weight_decay: float = 1e-2) -> None:
        self._check(lr, weight_decay)
        super().__init__(params, {"lr": lr, "weight_decay": weight_decay})

    def _update_group(self, group: dict[str, Any]) -> None:
        for weight in group["params"]:
            if weight.grad is not None:
                _update_rows(weight, weight.grad, lr=group["lr"], weight_decay=group["weight_decay"])


def _update_rows(weight: Tensor, grad: Tensor, *, lr: float, weight_decay: float) -> None:
    """Update the rows of weight [rows, dim] that occur in the sparse grad [rows, dim]."""
    if not grad.is_sparse:
        raise ValueError("SparseSignSGD needs sparse gradients; build the embedding with sparse=True")
    grad = grad.coalesce()  # adds up the gradients of a row that the batch used several times
    rows = grad.indices()[0]
    updated = weight.index_select(0, rows).mul_(1 - lr * weight_decay).add_(grad.values().sign(), alpha=-lr)
    weight.index_copy_(0, rows, updated)


def build_optimizers(model: Model, config: TrainConfig) -> list[Optimizer]:
    """Build the optimiser that a recipe names, and for puzzle embeddings, if there are any, their own.

    Call it once the model is on its device: AdamW takes its fused CUDA kernel only if every parameter is there.
    """
    table = model.puzzle_embeddings
    dense = [parameter for parameter in model.parameters() if parameter is not table]
    settings: dict[str, Any] = {"lr": config.lr, "betas": config.betas, "weight_decay": config.weight_decay}
    if config.optimizer == "adam_atan2":
        first: Optimizer = AdamATan2(dense, **settings)
    else:
        # None, not False: elsewhere torch chooses the best of its other implementations.
        fused = True if all(p.is_cuda for p in dense) else None
        first = torch.optim.AdamW(dense, fused=fused, **settings)
    if table is None:
        return [first]
    return [first, SparseSignSGD([table], lr=config.puzzle_lr, weight_decay=config.puzzle_weight_decay)]


def lr_factor(step: int, *, warmup: int, total: int, final: float) -> float:
    """Return the learning rate of update number `step`, counted from 1, as a fraction of the peak.

    It rises linearly to 1 at `step == warmup`, then falls along half a cosine to `final` at `step == total` and
    stays there. With `final == 1` it is constant after the warm-up.
    """
    if step < warmup:
        return step / warmup
    progress = min(1.0, (step - warmup) / max(1, total - warmup))
    return final + (1 - final) * 0.5 * (1 + math.cos(math.pi * progress))
