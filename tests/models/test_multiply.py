"""Multiplies by convolutions, and attention by compiled loops, give what the plain forms give."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor
from torch.testing import assert_close

from gram import machine
from gram.models import layers, multiply
from gram.models.layers import Attention, Rope


@pytest.fixture(params=[1, 2])
def threads(request: pytest.FixtureRequest) -> Iterator[int]:
    before = torch.get_num_threads()
    torch.set_num_threads(request.param)
    yield request.param
    torch.set_num_threads(before)


@pytest.fixture
def convolutions(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Names of the convolutions that were called; every multiply that can be one is one."""
    called: list[str] = []
    monkeypatch.setattr(multiply, "convolutions_are_faster", lambda: True)
    monkeypatch.setattr(multiply, "CONVOLUTION_NUMBERS", 1)
    monkeypatch.setattr(multiply, "CONVOLUTION_WIDTH", 1)
    for name in ("conv1d", "conv2d"):
        plain = getattr(F, name)
        monkeypatch.setattr(F, name, lambda *given, plain=plain, name=name: called.append(name) or plain(*given))
    return called


def compared(ours: Callable[..., Tensor], plain: Callable[..., Tensor], *given: Tensor) -> None:
    """Values and gradients, against those in double precision."""
    found = []
    for form, dtype in ((ours, torch.float32), (plain, torch.float64)):
        arguments = [each.to(dtype).requires_grad_() for each in given]
        y = form(*arguments)
        weight = torch.linspace(-1, 2, y.numel(), dtype=dtype).view(y.shape)
        found.append([y, *torch.autograd.grad((weight * y).sum(), arguments)])
    for mine, theirs in zip(*found, strict=True):
        assert mine.is_contiguous()
        assert_close(mine, theirs.float(), rtol=1e-4, atol=1e-4)


@pytest.mark.usefixtures("threads")
@pytest.mark.parametrize("shape", [(32, 9, 24), (3, 64, 40), (5, 81, 16), (2, 3, 16, 8)])
def test_a_multiply_is_a_convolution(convolutions: list[str], shape: tuple[int, ...]) -> None:
    torch.manual_seed(0)
    compared(multiply.multiply, F.linear, torch.randn(shape), torch.randn(20, shape[-1]))
    assert "conv2d" in convolutions


@pytest.mark.usefixtures("threads")
@pytest.mark.parametrize(("batch", "called"), [(16, ["conv1d"]), (15, [])])
def test_a_multiply_over_tokens_is_a_convolution(convolutions: list[str], batch: int, called: list[str]) -> None:
    torch.manual_seed(0)
    plain = torch.matmul
    compared(multiply.multiply_tokens, plain, torch.randn(12, 10), torch.randn(batch, 10, 7))
    assert convolutions == called


@pytest.mark.parametrize(
    "x", [torch.randn(17, 13), torch.randn(64, 8, 5).transpose(0, 1), torch.randn(32, 8, dtype=torch.float64)]
)
def test_what_is_no_image_is_multiplied_plainly(convolutions: list[str], x: Tensor) -> None:
    weight = torch.randn(6, x.shape[-1], dtype=x.dtype)
    if len(x) == 17:
        x = x[:7]  # no number of images divides it
    assert_close(multiply.multiply(x, weight), x @ weight.T)
    assert not convolutions


@pytest.mark.parametrize(
    ("cpu", "instructions", "faster"),
    [
        ("AuthenticAMD", "AVX512", True),
        ("GenuineIntel", "AVX512", False),
        ("AuthenticAMD", "AVX2", False),
        (None, "AVX512", False),
    ],
)
def test_the_library_is_chosen_by_the_cpu(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, cpu: str | None, instructions: str, faster: bool
) -> None:
    path = tmp_path / "cpuinfo"
    if cpu is not None:
        path.write_text(f"vendor_id\t: {cpu}\n")
    monkeypatch.setattr(machine, "CPU_INFO", path)
    monkeypatch.setattr(torch.backends.cpu, "get_cpu_capability", lambda: instructions)
    monkeypatch.setattr(torch.backends.mkldnn, "is_available", lambda: True)
    assert machine.convolutions_are_faster.__wrapped__() == faster


# --- attention --------------------------------------------------------------------------------------------------------


@pytest.mark.usefixtures("threads")
@pytest.mark.parametrize(("tokens", "dim", "heads"), [(5, 8, 2), (33, 32, 4), (64, 128, 8)])
@pytest.mark.parametrize("rotated", [True, False])
@pytest.mark.parametrize("scale", [1.0, 30.0])
def test_attention_by_compiled_loops(
    monkeypatch: pytest.MonkeyPatch, tokens: int, dim: int, heads: int, rotated: bool, scale: float
) -> None:
    monkeypatch.setattr("gram.models.kernels.PART", 1)
    torch.manual_seed(0)
    attention, rope = Attention(dim, heads), Rope(dim // heads, tokens + 3) if rotated else None
    x = scale * torch.randn(3, tokens, dim)

    def ours(x: Tensor) -> Tensor:
        monkeypatch.setattr(layers, "COMPILED_ATTENTION", 1)
        return attention.float()(x, None if rope is None else rope.float())

    def plain(x: Tensor) -> Tensor:
        monkeypatch.setattr(layers, "COMPILED_ATTENTION", 10**9)
        return attention.double()(x, None if rope is None else rope.double())

    found = []
    for form, dtype in ((ours, torch.float32), (plain, torch.float64)):
        given = x.to(dtype).requires_grad_()
        y = form(given)
        gradients = torch.autograd.grad(y.square().sum() / scale**2, [given, *attention.parameters()])
        found.append([y.detach(), *gradients])
    for mine, theirs in zip(*found, strict=True):
        assert_close(mine, theirs.float(), rtol=2e-3, atol=2e-4 * float(theirs.abs().max()))


def test_attention_that_diverged_stays_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(layers, "COMPILED_ATTENTION", 1)
    x = torch.randn(2, 6, 8)
    x[1, 4, 2] = float("nan")
    y = Attention(8, 2)(x, Rope(4, 6))
    assert y[0].isfinite().all()
    assert y[1].isnan().all()


@pytest.mark.parametrize("tokens", [128, 129])
def test_many_tokens_are_left_to_torch(monkeypatch: pytest.MonkeyPatch, tokens: int) -> None:
    monkeypatch.setattr(layers, "COMPILED_ATTENTION", 1)
    asked = []
    plain = layers.kernels
    monkeypatch.setattr(layers, "kernels", lambda name="kernels": asked.append(name) or plain(name))
    Attention(8, 2)(torch.randn(1, tokens, 8), None)
    assert asked == (["attention_kernels"] if tokens == 128 else [])
