"""Tiny generative models, and a denoiser whose answers are fixed."""

import itertools
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from tests.models.baselines.helpers import keys


class TableDenoiser(nn.Module):
    """Logits looked up by the whole noisy row: any dependence between positions, and no training."""

    def __init__(self, *, vocab_size: int, states: int, length: int, seed: int = 0) -> None:
        super().__init__()
        generator = torch.Generator().manual_seed(seed)
        self.states = states
        self.table = torch.randn(states**length, length, vocab_size, generator=generator)
        self.rows = 0
        """how many rows were looked up so far"""

    def forward(self, inputs: Tensor, noisy: Tensor, time: Tensor) -> Tensor:
        self.rows += len(noisy)
        places = self.states ** torch.arange(noisy.shape[1])
        drift = time[:, None, None] * torch.linspace(-1, 1, self.table.shape[-1])
        return self.table[(noisy * places).sum(dim=1)] + drift + 0.3 * inputs[..., None] * drift


@pytest.fixture
def generator() -> torch.Generator:
    return torch.Generator().manual_seed(0)


@pytest.fixture(scope="session")
def table_denoiser() -> type[TableDenoiser]:
    return TableDenoiser


@pytest.fixture(scope="session")
def all_rows() -> Callable[[int, int], Tensor]:
    """all_rows(choices, length): every row of these tokens, [choices^length, length]."""
    return lambda choices, length: torch.tensor(list(itertools.product(range(choices), repeat=length)))


@pytest.fixture(scope="session")
def learns() -> Callable[..., tuple[float, float]]:
    """learns(model, inputs, targets, steps=..., lr=...): the nats at first and at last, means over ten updates."""

    def run(model: Any, inputs: Tensor, targets: Tensor, *, steps: int = 100, lr: float = 5e-3) -> tuple[float, float]:
        optimizer = torch.optim.AdamW(model.parameters(), lr=lr)
        nats = []
        for step in range(steps):
            loss, metrics = model.loss(inputs, targets, keys(len(inputs), step))
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            nats.append(float(metrics["nats"]))
        return sum(nats[:10]) / 10, sum(nats[-10:]) / 10

    return run
