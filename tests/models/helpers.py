"""What the tests of the reasoner, of its parts and of its objective share."""

import math
from dataclasses import replace

import torch
from torch import Tensor

from gram.config import ObjectiveConfig
from gram.models.base import Checker, StepContext, StepResult
from gram.models.carry import Carry, State
from gram.models.reasoner import Reasoner


def noises(model: Reasoner, batch: int, count: int, seed: int = 0) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(count, batch, model.tokens, model.config.dim, generator=generator, dtype=model.h_init.dtype)


def example(model: Reasoner, batch: int = 3, seed: int = 1) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(seed)
    shape = (batch, model.length)
    return (
        torch.randint(model.vocab_size, shape, generator=generator),
        torch.randint(-1, model.vocab_size, shape, generator=generator),
    )


def random_state(model: Reasoner, batch: int = 3, seed: int = 2) -> State:
    h, low = noises(model, batch, 2, seed)
    return State(h, None if model.config.state == "flat" else low)


def update_of(
    model: Reasoner,
    carry: Carry,
    *,
    seed: int = 0,
    checker: Checker | None = None,
    halt: bool = False,
    release: float = 0.0,
    **objective: object,
) -> StepResult:
    """Make one supervision step of the slots as they are, with an objective of its own."""
    model.objective = ObjectiveConfig(**objective)
    context = StepContext(seed=seed, checker=checker, halt=halt, release=release)
    return model.training_step(carry.rows, replace(carry, finished=torch.zeros_like(carry.finished)), context)


def parameter_gradients(model: Reasoner, loss: Tensor) -> dict[str, Tensor | None]:
    """Return the gradient of every parameter by name; None where the loss does not depend on it."""
    names, parameters = zip(*model.named_parameters(), strict=True)
    return dict(zip(names, torch.autograd.grad(loss, parameters, allow_unused=True), strict=True))


def binary_cross_entropy(logit: float, target: float) -> float:
    """Return -log likelihood of a target in [0, 1], in plain Python."""
    p = 1 / (1 + math.exp(-logit))
    return -target * math.log(p) - (1 - target) * math.log(1 - p)
