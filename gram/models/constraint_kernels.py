"""The layer of `gram.models.constraints` on a CPU, forwards and backwards, one pass over memory between two multiplies.

Sets are stored kind by kind, so that each kind's multiply is one: row bounds[k] * batch + i * n_k + s holds set s of
kind k (of n_k) for row i of the batch. Arrays are contiguous float32.
"""

from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from gram.models.kernels import ONE, Array, compiled, in_parts, sigmoid
from gram.models.kernels import norm_gradient as rms_gradient

Numbers = NDArray[np.int64]


class Kept(NamedTuple):
    """What the backward pass needs."""

    x: Tensor
    means: Tensor
    gate_up: Tensor
    gated: Tensor
    y: Tensor
    scale: Tensor


@compiled
def _means(first: int, end: int, x: Array, rows: Numbers, sizes: Numbers, weight: Array, out: Array) -> None:
    for i in range(first, end):
        for k in range(rows.shape[0]):
            start = sizes[k, 0] * x.shape[0] + i * sizes[k, 1]
            for s in range(sizes[k, 1]):
                for j in range(x.shape[2]):
                    out[start + s, j] = 0
            for p in range(x.shape[1]):
                row = start + rows[k, p]
                for j in range(x.shape[2]):
                    out[row, j] += x[i, p, j]
            for s in range(sizes[k, 1]):
                factor = weight[sizes[k, 0] + s]
                for j in range(x.shape[2]):
                    out[start + s, j] *= factor


@compiled
def _add_from_sets(
    first: int, end: int, x: Array, from_sets: Array, rows: Numbers, sizes: Numbers, weight: Array
) -> None:
    for i in range(first, end):
        for k in range(rows.shape[0]):
            start = sizes[k, 0] * x.shape[0] + i * sizes[k, 1]
            for p in range(x.shape[1]):
                row, factor = start + rows[k, p], weight[sizes[k, 0] + rows[k, p]]
                for j in range(x.shape[2]):
                    x[i, p, j] += factor * from_sets[row, j]


@compiled
def _gate(first: int, end: int, gate_up: Array, from_sets: Array, rows: Numbers, sizes: Numbers, out: Array) -> None:
    batch, half, kinds = gate_up.shape[0], out.shape[2], rows.shape[0]
    for i in range(first, end):
        for p in range(gate_up.shape[1]):
            for k in range(0, kinds - 1, 2):  # two rows at a time spare a pass
                a = sizes[k, 0] * batch + i * sizes[k, 1] + rows[k, p]
                b = sizes[k + 1, 0] * batch + i * sizes[k + 1, 1] + rows[k + 1, p]
                for j in range(2 * half):
                    gate_up[i, p, j] += from_sets[a, j] + from_sets[b, j]
            if kinds % 2:
                a = sizes[kinds - 1, 0] * batch + i * sizes[kinds - 1, 1] + rows[kinds - 1, p]
                for j in range(2 * half):
                    gate_up[i, p, j] += from_sets[a, j]
            for j in range(half):
                g = gate_up[i, p, j]
                out[i, p, j] = g * sigmoid(g) * gate_up[i, p, half + j]


@compiled
def _gate_gradient(
    first: int, end: int, gate_up: Array, upstream: Array, rows: Numbers, sizes: Numbers, out: Array, to_sets: Array
) -> None:
    batch, half = gate_up.shape[0], upstream.shape[2]
    for i in range(first, end):
        for k in range(rows.shape[0]):
            start = sizes[k, 0] * batch + i * sizes[k, 1]
            for s in range(start, start + sizes[k, 1]):
                for j in range(2 * half):
                    to_sets[s, j] = 0
        for p in range(gate_up.shape[1]):
            # Short loops: the compiler makes vectors of each, but not of one loop with all arrays.
            for j in range(half):
                out[i, p, j] = sigmoid(gate_up[i, p, j])
            for j in range(half):
                out[i, p, half + j] = upstream[i, p, j] * (gate_up[i, p, j] * out[i, p, j])
            for j in range(half):
                s = out[i, p, j]
                out[i, p, j] = upstream[i, p, j] * gate_up[i, p, half + j] * (s + gate_up[i, p, j] * s * (ONE - s))
            for k in range(rows.shape[0]):
                row = sizes[k, 0] * batch + i * sizes[k, 1] + rows[k, p]
                for j in range(2 * half):
                    to_sets[row, j] += out[i, p, j]


@compiled
def _residual_norm(first: int, end: int, x: Array, epsilon: np.float32, y: Array, scale: Array) -> None:
    """y <- norm(x + y) over the last axis."""
    for i in range(first, end):
        for p in range(x.shape[1]):
            total = np.float32(0)
            for j in range(x.shape[2]):
                y[i, p, j] += x[i, p, j]
                total += y[i, p, j] * y[i, p, j]
            factor = ONE / np.sqrt(total / np.float32(x.shape[2]) + epsilon)
            scale[i, p] = factor
            for j in range(x.shape[2]):
                y[i, p, j] *= factor


class Layout(NamedTuple):
    """Which sets there are, as arrays."""

    rows: Numbers
    """[kinds, positions] number of the position's set among those of its kind"""
    sizes: Numbers
    """[kinds, 2] sets of the kinds before, and of this kind"""
    weight: Array
    """[sets] 1 / positions of the set"""


def forward(
    x: Tensor, gate_up: Tensor, kinds: Tensor, down: Tensor, layout: Layout, epsilon: float
) -> tuple[Tensor, Kept]:
    """Return the layer's output [batch, positions, dim] for x of that shape, and what its gradient needs."""
    rows, sizes, weight = layout
    batch, arrays = len(x), x.numpy()
    means = torch.empty(len(weight) * batch, x.shape[2])
    in_parts(lambda a, b: _means(a, b, arrays, rows, sizes, weight, means.numpy()), batch, x.numel())
    from_sets = means.new_empty(len(means), gate_up.shape[0])
    for part, place in zip(kinds, _places(layout, batch), strict=True):
        torch.mm(means[place], part.T, out=from_sets[place])
    both = x @ gate_up.T
    gated = torch.empty(*both.shape[:2], both.shape[2] // 2)
    arguments = (both.numpy(), from_sets.numpy(), rows, sizes, gated.numpy())
    in_parts(lambda a, b: _gate(a, b, *arguments), batch, both.numel())
    y, scale = gated @ down.T, torch.empty(x.shape[:2])
    small = np.float32(epsilon)
    in_parts(lambda a, b: _residual_norm(a, b, arrays, small, y.numpy(), scale.numpy()), batch, x.numel())
    return y, Kept(x, means, both, gated, y, scale)


def backward(
    kept: Kept, upstream: Tensor, gate_up: Tensor, kinds: Tensor, down: Tensor, layout: Layout
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Gradients for x, gate_up, kinds and down."""
    rows, sizes, weight = layout
    x, means, both, gated, y, scale = kept
    batch, dim = len(x), x.shape[2]
    to_sum = rms_gradient(y, scale.flatten(), upstream, -1).view(-1, dim)
    to_gated = (to_sum @ down).view(gated.shape)
    to_down = to_sum.T @ gated.view(-1, gated.shape[2])
    to_both, to_sets = torch.empty_like(both), torch.empty(len(means), both.shape[2])
    arguments = (both.numpy(), to_gated.numpy(), rows, sizes, to_both.numpy(), to_sets.numpy())
    in_parts(lambda a, b: _gate_gradient(a, b, *arguments), batch, both.numel())
    flat = to_both.view(-1, to_both.shape[2])
    to_gate_up, to_x = flat.T @ x.reshape(-1, dim), torch.addmm(to_sum, flat, gate_up).view(x.shape)
    to_kinds, to_means = torch.empty_like(kinds), torch.empty_like(means)
    for k, place in enumerate(_places(layout, batch)):
        torch.mm(to_sets[place].T, means[place], out=to_kinds[k])
        torch.mm(to_sets[place], kinds[k], out=to_means[place])
    from_means = (to_x.numpy(), to_means.numpy(), rows, sizes, weight)
    in_parts(lambda a, b: _add_from_sets(a, b, *from_means), batch, x.numel())
    return to_x, to_gate_up, to_kinds, to_down


def _places(layout: Layout, batch: int) -> list[slice]:
    return [slice(start * batch, (start + count) * batch) for start, count in layout.sizes.tolist()]
