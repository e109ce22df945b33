"""Mixing by constraints: positions interact within the sets that share a rule, such as rows, columns and boxes.

    (g, v) = x W + sum over kinds of sets: mean of x over the position's set, times W_kind
    x     <- norm(x + down(silu(g) * v))

No weight depends on a position or on their number, so a layer is equivariant to every symmetry that maps each kind of
set to itself. With symbols, a position is a pair (cell, symbol), and the symbols of a cell are one more kind of set:
the layer is then equivariant to renaming the symbols too.
"""

from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

from gram.models.layers import NORM_EPSILON, Linear, compiled_pays, gate, kernels, rms_norm, run, truncated_normal_

COMPILED_LAYER = 2**14
"""Size of a state from which a layer on a CPU uses `gram.models.constraint_kernels`: one 9 x 9 board with symbols."""


class Sets(nn.Module):
    """The kinds of sets that positions belong to: of each kind, every position is in exactly one set."""

    index: Tensor
    """[kinds, positions] number of the position's set among those of its kind"""

    def __init__(self, kinds: Sequence[np.ndarray]) -> None:
        super().__init__()
        numbers = [np.unique(kind, return_inverse=True)[1] for kind in kinds]
        self.register_buffer("index", torch.from_numpy(np.stack(numbers)), persistent=False)
        self.sizes = [np.bincount(kind).tolist() for kind in numbers]
        """positions of every set, by kind"""

    @classmethod
    def of(cls, constraints: Mapping[str, Sequence[int]], symbols: int = 0) -> "Sets":
        """Return the sets of cells [cells] by kind; with `symbols` > 0 those of (cell, symbol) pairs, cell by cell."""
        kinds = [np.asarray(kind) for kind in constraints.values()]
        if symbols:
            cells = np.arange(len(kinds[0]))
            kinds = [(kind[:, None] * symbols + np.arange(symbols)).ravel() for kind in kinds]
            kinds.append(np.repeat(cells, symbols))
        return cls(kinds)

    def means(self, x: Tensor, kind: int) -> Tensor:
        """Average x [batch, positions, dim] over sets: [batch, sets of the kind, dim]."""
        sizes = torch.tensor(self.sizes[kind], dtype=x.dtype, device=x.device)
        sums = x.new_zeros(len(x), len(sizes), x.shape[2]).index_add(1, self.index[kind], x)
        return sums / sizes[:, None]

    @cached_property
    def layout(self) -> Any:
        """Return the sets as arrays, for `gram.models.constraint_kernels`."""
        counts = [len(kind) for kind in self.sizes]
        before = np.cumsum([0, *counts])[:-1]
        weight = 1 / np.concatenate(self.sizes).astype(np.float32)
        return kernels("constraint_kernels").Layout(self.index.numpy(), np.stack([before, counts], axis=1), weight)


class ConstraintBlock(nn.Module):
    """One layer: a SwiGLU of a position and the means over its sets, a residual sum, and a post-norm."""

    def __init__(self, dim: int, hidden: int, sets: Sets) -> None:
        super().__init__()
        self.sets = sets
        self.gate_up = Linear(dim, 2 * hidden)
        self.kinds = nn.Parameter(truncated_normal_(torch.empty(len(sets.index), 2 * hidden, dim), dim**-0.5))
        """[kinds, 2 m, dim] a weight for each kind of set"""
        self.down = Linear(hidden, dim)

    def forward(self, x: Tensor, rope: None = None) -> Tensor:
        """Mix x [batch, positions, dim] within the sets; return the same shape."""
        if compiled_pays(x, COMPILED_LAYER):
            keep = torch.is_grad_enabled()  # inside of `apply` it is always off
            return run(_Layer, x, self.gate_up.weight, self.kinds, self.down.weight, self.sets, keep)  # type: ignore[no-any-return]
        gate_up = self.gate_up(x)
        for k, weight in enumerate(self.kinds):
            gate_up = gate_up + (self.sets.means(x, k) @ weight.T)[:, self.sets.index[k]]
        return rms_norm(x + self.down(gate(gate_up, -1)))


class _Layer(torch.autograd.Function):
    """The whole layer in compiled loops, three times as fast as separate torch operations."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, gate_up: Tensor, kinds: Tensor, down: Tensor, sets: Sets, keep: bool) -> Tensor:
        y, kept = kernels("constraint_kernels").forward(x, gate_up, kinds, down, sets.layout, NORM_EPSILON, keep=keep)
        if keep:
            ctx.save_for_backward(*kept, gate_up, kinds, down)
            ctx.layout = sets.layout
        return y  # type: ignore[no-any-return]

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        *kept, gate_up, kinds, down = ctx.saved_tensors
        module = kernels("constraint_kernels")
        return (*module.backward(module.Kept(*kept), grads[0], gate_up, kinds, down, ctx.layout), None, None)
