"""The compiled element-wise work gives what torch gives, whatever the layout, the size and the number of threads."""

from collections.abc import Callable, Iterator

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor
from torch.testing import assert_close

from gram.models import kernels
from gram.models.layers import COMPILED_GATE, COMPILED_NORM, NORM_EPSILON, gate, rms_norm

SHAPES = [(1, 2, 6), (9, 7 * 2, 10), (5, 70 * 2, 514), (70, 64, 256)]


@pytest.fixture(params=[1, 2])
def threads(request: pytest.FixtureRequest) -> Iterator[int]:
    before = torch.get_num_threads()
    torch.set_num_threads(request.param)
    yield request.param
    torch.set_num_threads(before)


def torch_gate(x: Tensor, axis: int) -> Tensor:
    first, second = x.chunk(2, dim=axis)
    return F.silu(first) * second


def torch_norm(x: Tensor, axis: int) -> Tensor:
    return x * (x.square().mean(dim=axis, keepdim=True) + NORM_EPSILON).rsqrt()


def exactly(f: Callable[[Tensor, int], Tensor], x: Tensor, axis: int, upstream: Tensor) -> tuple[Tensor, Tensor]:
    """Value and gradient in double precision."""
    x = x.double().requires_grad_()
    y = f(x, axis)
    return y.detach().float(), torch.autograd.grad(y, x, upstream.double())[0].float()


@pytest.mark.usefixtures("threads")
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("axis", [1, -1])
@pytest.mark.parametrize("scale", [1.0, 40.0])
def test_gate(shape: tuple[int, int, int], axis: int, scale: float) -> None:
    x = scale * torch.randn(shape, generator=torch.Generator().manual_seed(0))
    upstream = torch.randn_like(torch_gate(x, axis))
    value, slope = exactly(torch_gate, x, axis, upstream)
    assert_close(kernels.gate(x, axis), value)
    assert_close(kernels.gate_gradient(x, upstream, axis), slope)


@pytest.mark.usefixtures("threads")
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("axis", [1, -1])
def test_norm(shape: tuple[int, int, int], axis: int) -> None:
    x = torch.randn(shape, generator=torch.Generator().manual_seed(0))
    upstream = torch.randn_like(x)
    value, slope = exactly(torch_norm, x, axis, upstream)
    y, scale = kernels.norm(x, axis, NORM_EPSILON)
    assert_close(y, value)
    assert_close(kernels.norm_gradient(y, scale, upstream, axis), slope)


@pytest.mark.parametrize("bad", [float("nan"), float("inf")])
def test_a_diverged_number_stays_one(bad: float) -> None:
    x = torch.zeros(1, 2, 8)
    x[0, 0, 3] = bad
    assert not kernels.gate(x, 1).isfinite().all()
    assert not kernels.norm(x, -1, NORM_EPSILON)[0].isfinite().all()


@pytest.mark.parametrize(("f", "axis"), [(gate, 1), (gate, -1), (rms_norm, 1), (rms_norm, -1)])
def test_layers_use_them_for_large_tensors_with_the_same_result(f: Callable[..., Tensor], axis: int) -> None:
    least = COMPILED_GATE if f is gate else COMPILED_NORM
    x = torch.randn(least // 256, 16, 16, generator=torch.Generator().manual_seed(0))
    results = []
    for pieces in (1, 4):  # a quarter is too small for them
        parts = [part.clone().requires_grad_() for part in x.chunk(pieces)]
        ys = [f(part, axis) for part in parts]
        upstream = torch.ones(()).expand_as(ys[0])  # not contiguous
        gradients = [torch.autograd.grad(y, part, upstream)[0] for y, part in zip(ys, parts, strict=True)]
        results.append((torch.cat(ys).detach(), torch.cat(gradients)))
    assert_close(results[0], results[1])
