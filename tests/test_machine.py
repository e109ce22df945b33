"""Choices that depend on the machine: one thread for little work, and never on a GPU's account."""

import pytest
import torch
from torch import nn

from gram.machine import ONE_THREAD, free_memory, threads_for


@pytest.fixture
def _two_threads() -> object:
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    yield
    torch.set_num_threads(before)


def model(parameters: int, device: str = "cpu") -> nn.Module:
    return nn.Linear(parameters, 1, bias=False, device=device)


@pytest.mark.usefixtures("_two_threads")
@pytest.mark.parametrize(
    ("parameters", "rows", "device", "threads"),
    [
        (164_675, 20, "cpu", 1),
        (164_675, 400, "cpu", 2),
        (ONE_THREAD, 1, "cpu", 1),
        (ONE_THREAD + 1, 1, "cpu", 2),
        (10, 1, "meta", 2),  # stands for a GPU: its work is not the CPU's
    ],
)
def test_threads_follow_the_work(parameters: int, rows: int, device: str, threads: int) -> None:
    with threads_for(model(parameters, device), rows):
        assert torch.get_num_threads() == threads
    assert torch.get_num_threads() == 2


@pytest.mark.usefixtures("_two_threads")
def test_the_setting_comes_back_after_an_error() -> None:
    with pytest.raises(ValueError, match="oops"), threads_for(model(10), 1):
        raise ValueError("oops")
    assert torch.get_num_threads() == 2


def test_a_cpu_has_no_memory_that_limits_a_batch() -> None:
    assert free_memory(torch.device("cpu")) is None
