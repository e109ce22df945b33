"""Element-wise work of the networks on a CPU, one pass over memory each, compiled by numba once per machine.

torch makes four to eight passes for the same; between multiplies that run near the machine's peak, those passes were a
third of the time. Arrays are contiguous float32.
"""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from itertools import pairwise
from typing import Any

import numba
import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from gram.compiled import compile_cached

Array = NDArray[np.float32]
BLOCK = 1024
"""Numbers of a row that stay in the innermost cache from one loop to the next."""
PART = 2**18
"""Numbers that are worth a thread of their own."""

ONE, HALF = np.float32(1), np.float32(0.5)
LARGEST = np.float32(87)
"""exp of it is still a float32"""
LOG2_E = np.float32(1.4426950408889634)
LN2_HIGH, LN2_LOW = np.float32(0.693359375), np.float32(-2.12194440e-4)
"""ln 2 in two parts: multiples of the first are exact"""
C2, C3, C4, C5, C6, C7 = (
    np.float32(c)
    for c in (5.0000001201e-1, 1.6666665459e-1, 4.1665795894e-2, 8.3334519073e-3, 1.3981999507e-3, 1.9875691500e-4)
)
"""Cephes' polynomial for exp between -ln 2 / 2 and ln 2 / 2"""

# Without "nnan" and "ninf": a diverged number must stay one, so that the run stops.
compiled = compile_cached(error_model="numpy", fastmath={"contract", "nsz", "arcp", "reassoc"})


@numba.njit(inline="always")
def exponential(z: np.float32) -> np.float32:
    """Return exp of a number between -87 and 87, in operations that a compiler can do on eight at once."""
    power = np.floor(z * LOG2_E + HALF)
    r = z - power * LN2_HIGH - power * LN2_LOW
    e = (((((C7 * r + C6) * r + C5) * r + C4) * r + C3) * r + C2) * r * r + r + ONE
    two_to_power = np.int32((np.int32(power) + np.int32(127)) << np.int32(23)).view(np.float32)
    return e * two_to_power  # type: ignore[no-any-return]


@numba.njit(inline="always")
def sigmoid(x: np.float32) -> np.float32:
    """Return the sigmoid to 3e-7."""
    return ONE / (ONE + exponential(min(max(-x, -LARGEST), LARGEST)))


@compiled
def _gate(gate_up: Array, out: Array) -> None:
    for i in range(gate_up.shape[0]):
        for j in range(gate_up.shape[2]):
            g = gate_up[i, 0, j]
            out[i, j] = g * sigmoid(g) * gate_up[i, 1, j]


@compiled
def _gate_gradient(gate_up: Array, upstream: Array, out: Array) -> None:
    # Three short loops: the compiler makes vectors of each, but not of one loop with five arrays.
    for i in range(gate_up.shape[0]):
        for start in range(0, gate_up.shape[2], BLOCK):
            block = slice(start, start + BLOCK)
            gate, up, grad = gate_up[i, 0, block], gate_up[i, 1, block], upstream[i, block]
            to_gate, to_up = out[i, 0, block], out[i, 1, block]
            for j in range(gate.shape[0]):
                to_gate[j] = sigmoid(gate[j])
            for j in range(gate.shape[0]):
                to_up[j] = grad[j] * (gate[j] * to_gate[j])
            for j in range(gate.shape[0]):
                s = to_gate[j]
                to_gate[j] = grad[j] * up[j] * (s + gate[j] * s * (ONE - s))


@compiled
def _norm_rows(x: Array, epsilon: np.float32, out: Array, scale: Array) -> None:
    size = np.float32(x.shape[1])
    for i in range(x.shape[0]):
        total = np.float32(0)
        for j in range(x.shape[1]):
            total += x[i, j] * x[i, j]
        factor = ONE / np.sqrt(total / size + epsilon)
        scale[i] = factor
        for j in range(x.shape[1]):
            out[i, j] = x[i, j] * factor


@compiled
def _norm_rows_gradient(y: Array, scale: Array, upstream: Array, out: Array) -> None:
    size = np.float32(y.shape[1])
    for i in range(y.shape[0]):
        along = np.float32(0)
        for j in range(y.shape[1]):
            along += upstream[i, j] * y[i, j]
        along /= size
        factor = scale[i]
        for j in range(y.shape[1]):
            out[i, j] = (upstream[i, j] - y[i, j] * along) * factor


@compiled
def _norm_columns(x: Array, epsilon: np.float32, out: Array, scale: Array) -> None:
    size = np.float32(x.shape[1])
    for i in range(x.shape[0]):
        total = np.zeros(x.shape[2], np.float32)
        for j in range(x.shape[1]):
            for k in range(x.shape[2]):
                total[k] += x[i, j, k] * x[i, j, k]
        for k in range(x.shape[2]):
            total[k] = ONE / np.sqrt(total[k] / size + epsilon)
            scale[i, k] = total[k]
        for j in range(x.shape[1]):
            for k in range(x.shape[2]):
                out[i, j, k] = x[i, j, k] * total[k]


@compiled
def _norm_columns_gradient(y: Array, scale: Array, upstream: Array, out: Array) -> None:
    size = np.float32(y.shape[1])
    for i in range(y.shape[0]):
        along = np.zeros(y.shape[2], np.float32)
        for j in range(y.shape[1]):
            for k in range(y.shape[2]):
                along[k] += upstream[i, j, k] * y[i, j, k]
        for k in range(y.shape[2]):
            along[k] /= size
        for j in range(y.shape[1]):
            for k in range(y.shape[2]):
                out[i, j, k] = (upstream[i, j, k] - y[i, j, k] * along[k]) * scale[i, k]


def gate(gate_up: Tensor, axis: int) -> Tensor:
    """Return silu(first half) * second half along an axis of gate_up."""
    halves = _halves(gate_up, axis)
    out = torch.empty((len(halves), halves.shape[2]))
    _split(_gate, halves, out)
    shape = list(gate_up.shape)
    shape[axis] //= 2
    return out.view(shape)


def gate_gradient(gate_up: Tensor, upstream: Tensor, axis: int) -> Tensor:
    """Return the gradient of `gate` for its input."""
    halves, out = _halves(gate_up, axis), torch.empty_like(gate_up)
    _split(_gate_gradient, halves, upstream.reshape(len(halves), -1), out.view(halves.shape))
    return out


def norm(x: Tensor, axis: int, epsilon: float) -> tuple[Tensor, Tensor]:
    """Scale an axis (1 or -1) of x [batch, length, dim] to unit root mean square; return the factors as well."""
    small, out = np.float32(epsilon), torch.empty_like(x)
    if axis == -1:
        scale = torch.empty(x.numel() // x.shape[-1])
        _split(lambda a, b, c: _norm_rows(a, small, b, c), *_rows(x, out), scale)
    else:
        scale = torch.empty(x.shape[0], x.shape[2])
        _split(lambda a, b, c: _norm_columns(a, small, b, c), x, out, scale)
    return out, scale


def norm_gradient(y: Tensor, scale: Tensor, upstream: Tensor, axis: int) -> Tensor:
    """Return the gradient of `norm` for its input; y is what it returned."""
    upstream, out = upstream.contiguous(), torch.empty_like(y)
    if axis == -1:
        _split(lambda a, b, c, d: _norm_rows_gradient(a, d, b, c), *_rows(y, upstream, out), scale)
    else:
        _split(lambda a, b, c, d: _norm_columns_gradient(a, d, b, c), y, upstream, out, scale)
    return out


def _halves(gate_up: Tensor, axis: int) -> Tensor:
    """View as [outer, 2, inner]: both layouts of a SwiGLU are the same one with `axis` cut in two."""
    outer = gate_up.shape[:axis].numel()
    return gate_up.view(outer, 2, -1)


def _rows(*tensors: Tensor) -> list[Tensor]:
    return [tensor.view(-1, tensor.shape[-1]) for tensor in tensors]


def _split(kernel: Callable[..., Any], *tensors: Tensor) -> None:
    """Run a kernel over the first axis of all tensors, by as many threads as torch uses."""
    arrays = [tensor.detach().numpy() for tensor in tensors]
    in_parts(lambda a, b: kernel(*(array[a:b] for array in arrays)), len(arrays[0]), tensors[0].numel())


def in_parts(kernel: Callable[[int, int], Any], count: int, numbers: int) -> None:
    """Run kernel(first, end) on parts of 0..count, by as many threads as torch uses and `numbers` are worth."""
    threads = max(1, min(torch.get_num_threads(), numbers // PART, count))
    bounds = [count * part // threads for part in range(threads + 1)]
    (first, *others) = pairwise(bounds)
    waiting = [_pool(threads - 1).submit(kernel, *part) for part in others]
    kernel(*first)
    for future in waiting:
        future.result()


@cache
def _pool(threads: int) -> ThreadPoolExecutor:
    return ThreadPoolExecutor(threads)
