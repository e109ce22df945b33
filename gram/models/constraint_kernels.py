"""The layer of `gram.models.constraints` on a CPU, forwards and backwards, one pass over memory between two multiplies.

Sets are stored kind by kind, so that each kind's multiply is one: row bounds[k] * batch + i * n_k + s holds set s of
kind k (of n_k) for row i of the batch. Arrays are contiguous float32.
"""

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from gram.models.kernels import ONE, Array, compiled, in_parts, sigmoid
from gram.models.kernels import norm_gradient as rms_gradient

Numbers = NDArray[np.int64]
CACHED = 2**19
"""Gates of the rows that go through the layer together: 2 MB."""


class Kept(NamedTuple):
    """What the backward pass needs."""

    x: Tensor
    means: Tensor
    gate_up: Tensor
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
def _gate(
    first: int,
    end: int,
    before: int,
    batch: int,
    gate_up: Array,
    from_sets: Array,
    rows: Numbers,
    sizes: Numbers,
    out: Array,
) -> None:
    """Add what comes from the sets to gate_up, of a block that has `before` rows of the batch before it; then gate."""
    half, kinds = out.shape[2], rows.shape[0]
    for i in range(first, end):
        row = before + i
        for p in range(gate_up.shape[1]):
            for k in range(0, kinds - 1, 2):  # two rows at a time spare a pass
                a = sizes[k, 0] * batch + row * sizes[k, 1] + rows[k, p]
                b = sizes[k + 1, 0] * batch + row * sizes[k + 1, 1] + rows[k + 1, p]
                for j in range(2 * half):
                    gate_up[i, p, j] += from_sets[a, j] + from_sets[b, j]
            if kinds % 2:
                a = sizes[kinds - 1, 0] * batch + row * sizes[kinds - 1, 1] + rows[kinds - 1, p]
                for j in range(2 * half):
                    gate_up[i, p, j] += from_sets[a, j]
            for j in range(half):
                g = gate_up[i, p, j]
                out[i, p, j] = g * sigmoid(g) * gate_up[i, p, half + j]


@compiled
def _gate_gradient(
    first: int,
    end: int,
    before: int,
    batch: int,
    gate_up: Array,
    upstream: Array,
    rows: Numbers,
    sizes: Numbers,
    out: Array,
    gated: Array,
    to_sets: Array,
) -> None:
    """Return the gradients for gate_up and for what came from the sets; `gated` is made once more on the way."""
    half = upstream.shape[2]
    for i in range(first, end):
        for k in range(rows.shape[0]):
            start = sizes[k, 0] * batch + (before + i) * sizes[k, 1]
            for s in range(start, start + sizes[k, 1]):
                for j in range(2 * half):
                    to_sets[s, j] = 0
        for p in range(gate_up.shape[1]):
            # Short loops: the compiler makes vectors of each, but not of one loop with all arrays.
            for j in range(half):
                out[i, p, j] = sigmoid(gate_up[i, p, j])
            for j in range(half):
                gated[i, p, j] = gate_up[i, p, j] * out[i, p, j]
            for j in range(half):
                out[i, p, half + j] = upstream[i, p, j] * gated[i, p, j]
            for j in range(half):
                slope = out[i, p, j] + gated[i, p, j] * (ONE - out[i, p, j])
                out[i, p, j] = upstream[i, p, j] * gate_up[i, p, half + j] * slope
            for j in range(half):
                gated[i, p, j] *= gate_up[i, p, half + j]
            for k in range(rows.shape[0]):
                row = sizes[k, 0] * batch + (before + i) * sizes[k, 1] + rows[k, p]
                for j in range(2 * half):
                    to_sets[row, j] += out[i, p, j]


@compiled
def _residual_norm(first: int, end: int, x: Array, epsilon: np.float32, y: Array, scale: Array) -> None:
    """Set y <- norm(x + y) over the last axis."""
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
    x: Tensor, gate_up: Tensor, kinds: Tensor, down: Tensor, layout: Layout, epsilon: float, *, keep: bool
) -> tuple[Tensor, Kept | None]:
    """Return the layer's output for x [batch, positions, dim], and with `keep` what its gradient needs."""
    rows, sizes, weight = layout
    batch, width, arrays = len(x), len(gate_up), x.numpy()
    means = torch.empty(len(weight) * batch, x.shape[2])
    in_parts(lambda a, b: _means(a, b, arrays, rows, sizes, weight, means.numpy()), batch, x.numel())
    from_sets = means.new_empty(len(means), width)
    for part, place in zip(kinds, _places(layout, batch), strict=True):
        torch.mm(means[place], part.T, out=from_sets[place])
    blocks = _blocks(batch, x.shape[1] * width)
    every = torch.empty(batch if keep else blocks[0].stop, x.shape[1], width)
    gated, y, scale = _scratch(blocks, x.shape[1], width // 2), torch.empty_like(x), torch.empty(x.shape[:2])
    small = np.float32(epsilon)
    for block in blocks:
        count = block.stop - block.start
        both, some = every[block] if keep else every[:count], gated[:count]
        torch.mm(_flat(x[block]), gate_up.T, out=_flat(both))
        arguments = (block.start, batch, both.numpy(), from_sets.numpy(), rows, sizes, some.numpy())
        in_parts(partial(_on_rows, _gate, arguments), count, both.numel())
        torch.mm(_flat(some), down.T, out=_flat(y[block]))
    in_parts(lambda a, b: _residual_norm(a, b, arrays, small, y.numpy(), scale.numpy()), batch, x.numel())
    return y, Kept(x, means, every, y, scale) if keep else None


def backward(
    kept: Kept, upstream: Tensor, gate_up: Tensor, kinds: Tensor, down: Tensor, layout: Layout
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Return the gradients for x, gate_up, kinds and down."""
    rows, sizes, weight = layout
    x, means, every, y, scale = kept
    batch, positions, width = every.shape
    to_sum = rms_gradient(y, scale.flatten(), upstream, -1)
    to_sets, to_x = torch.empty(len(means), width), torch.empty_like(x)
    to_gate_up, to_down = torch.zeros_like(gate_up), torch.zeros_like(down)
    blocks = _blocks(batch, positions * width)
    gated, to_gated = (_scratch(blocks, positions, width // 2) for _ in range(2))
    to_both = _scratch(blocks, positions, width)
    for block in blocks:
        count, from_sum = block.stop - block.start, _flat(to_sum[block])
        some, to_some, to_gates = gated[:count], to_gated[:count], to_both[:count]
        torch.mm(from_sum, down, out=_flat(to_some))
        outputs = (to_gates.numpy(), some.numpy(), to_sets.numpy())
        arguments = (block.start, batch, every[block].numpy(), to_some.numpy(), rows, sizes, *outputs)
        in_parts(partial(_on_rows, _gate_gradient, arguments), count, to_gates.numel())
        to_down.addmm_(from_sum.T, _flat(some))
        to_gate_up.addmm_(_flat(to_gates).T, _flat(x[block]))
        torch.addmm(from_sum, _flat(to_gates), gate_up, out=_flat(to_x[block]))
    to_kinds, to_means = torch.empty_like(kinds), torch.empty_like(means)
    for k, place in enumerate(_places(layout, batch)):
        torch.mm(to_sets[place].T, means[place], out=to_kinds[k])
        torch.mm(to_sets[place], kinds[k], out=to_means[place])
    from_means = (to_x.numpy(), to_means.numpy(), rows, sizes, weight)
    in_parts(lambda a, b: _add_from_sets(a, b, *from_means), batch, x.numel())
    return to_x, to_gate_up, to_kinds, to_down


def _blocks(batch: int, numbers: int) -> list[slice]:
    """Cut the batch into rows, of `numbers` gates each, that go through all loops and multiplies from the cache."""
    rows = torch.get_num_threads() * max(1, CACHED // numbers)
    return [slice(start, min(start + rows, batch)) for start in range(0, batch, rows)]


def _scratch(blocks: list[slice], *shape: int) -> Tensor:
    """Allocate memory for any one of the blocks, the first of which is the longest."""
    return torch.empty(blocks[0].stop, *shape)


def _on_rows(kernel: Callable[..., None], arguments: tuple[Any, ...], first: int, end: int) -> None:
    kernel(first, end, *arguments)


def _flat(x: Tensor) -> Tensor:
    return x.view(-1, x.shape[-1])


def _places(layout: Layout, batch: int) -> list[slice]:
    return [slice(start * batch, (start + count) * batch) for start, count in layout.sizes.tolist()]
