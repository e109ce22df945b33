"""Mixing by constraints: positions meet in the sets that share a rule, such as rows, columns and boxes.

    (g, v) = x W + sum over kinds of sets: mean of x over the position's set, times W_kind
    x     <- norm(x + down(silu(g) * v))

No weight depends on the number of positions, so a layer is equivariant to every symmetry of the sets. With symbols, a
position is a pair (cell, symbol), and the symbols of a cell are one more kind of set: the layer is then equivariant to
renaming the symbols too.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

from gram.nn.layers import Linear, compiled_pays, gate, kernels, rms_norm, truncated_normal_

COMPILED_SETS = 2**16
"""Numbers of a tensor from which on means over sets and their gates on a CPU go through `gram.nn.kernels`."""
FUSED_KINDS = 4
"""Kinds of sets that one loop of these kernels adds up: rows, columns, boxes, symbols; or rows, columns, diagonals."""


class Sets(nn.Module):
    """The kinds of sets that positions belong to: of each kind, every position is in exactly one set."""

    index: Tensor
    """[kinds, positions] number of the position's set, counted through all kinds"""
    weight: Tensor
    """[sets, 1] 1 / positions of the set"""

    def __init__(self, kinds: Sequence[np.ndarray]) -> None:
        super().__init__()
        kinds = [np.unique(kind, return_inverse=True)[1] for kind in kinds]
        self.bounds = np.cumsum([0, *(kind.max() + 1 for kind in kinds)]).tolist()
        """where the sets of each kind begin, and the number of all"""
        index = np.stack([kind + start for kind, start in zip(kinds, self.bounds, strict=False)])
        self.register_buffer("index", torch.from_numpy(index), persistent=False)
        sizes = torch.from_numpy(np.bincount(index.ravel()))
        self.register_buffer("weight", 1 / sizes[:, None], persistent=False)

    @classmethod
    def of(cls, constraints: Mapping[str, Sequence[int]], symbols: int = 0) -> "Sets":
        """The sets of cells [cells] by kind; with `symbols` > 0 those of (cell, symbol) pairs, cell by cell."""
        kinds = [np.asarray(kind) for kind in constraints.values()]
        if symbols:
            cells = np.arange(len(kinds[0]))
            kinds = [(kind[:, None] * symbols + np.arange(symbols)).ravel() for kind in kinds]
            kinds.append(np.repeat(cells, symbols))
        return cls(kinds)

    def means(self, x: Tensor) -> Tensor:
        """x [batch, positions, dim] -> [batch, sets, dim], those of the first kind first."""
        return self.weight.to(x.dtype) * _Sums.apply(x, self.index, self.bounds[-1])  # type: ignore[no-any-return, no-untyped-call]

    def gated(self, gate_up: Tensor, from_sets: Tensor) -> Tensor:
        """Add to gate_up [batch, positions, 2 m] what each position's sets say [batch, sets, 2 m], then gate it.

        gate_up is overwritten where that saves a pass over memory: it must not be used again.
        """
        return _Gated.apply(gate_up, from_sets, self.index)  # type: ignore[no-any-return, no-untyped-call]


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
        """x [batch, positions, dim] -> the same shape."""
        means, bounds = self.sets.means(x), self.sets.bounds
        parts = [means[:, a:b] @ weight.T for a, b, weight in zip(bounds, bounds[1:], self.kinds, strict=False)]
        gated = self.sets.gated(self.gate_up(x), torch.cat(parts, dim=1))
        return rms_norm(x + self.down(gated))


class _Sums(torch.autograd.Function):
    """The sum over every set; backwards, every position gets what its sets got."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, index: Tensor, sets: int) -> Tensor:
        ctx.save_for_backward(index)
        return _sums(x, index, sets)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, None, None]:
        (index,) = ctx.saved_tensors
        return _from_sets(grads[0].contiguous(), index), None, None


class _Gated(torch.autograd.Function):
    """silu(g) * v of a position's own numbers and those of its sets."""

    @staticmethod
    def forward(ctx: Any, gate_up: Tensor, from_sets: Tensor, index: Tensor) -> Tensor:
        ctx.sets = from_sets.shape[1]
        if compiled_pays(gate_up, COMPILED_SETS) and len(index) == FUSED_KINDS:
            # In place: the multiply that made gate_up does not need it for its own gradient.
            out: Tensor = kernels().gate_with_sets(gate_up, from_sets.contiguous(), index)
        else:
            gate_up = gate_up + _from_sets(from_sets.contiguous(), index)
            out = gate(gate_up, -1)
        ctx.save_for_backward(gate_up, index)
        return out

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, Tensor, None]:
        gate_up, index = ctx.saved_tensors
        if compiled_pays(gate_up, COMPILED_SETS):
            to_gate_up, to_sets = kernels().gate_with_sets_gradient(gate_up, grads[0].contiguous(), index, ctx.sets)
            return to_gate_up, to_sets, None
        with torch.enable_grad():
            leaf = gate_up.detach().requires_grad_()
            (to_gate_up,) = torch.autograd.grad(gate(leaf, -1), leaf, grads[0])
        return to_gate_up, _sums(to_gate_up, index, ctx.sets), None


def _sums(x: Tensor, index: Tensor, sets: int) -> Tensor:
    """x [batch, positions, n] -> [batch, sets, n] the sum over every set."""
    if compiled_pays(x, COMPILED_SETS):
        return kernels().set_sums(x, index, sets)  # type: ignore[no-any-return]
    out = x.new_zeros(len(x), sets, x.shape[2])
    for kind in index:
        out.index_add_(1, kind, x)
    return out


def _from_sets(x: Tensor, index: Tensor) -> Tensor:
    """x [batch, sets, n] -> [batch, positions, n] the sum over the sets of every position."""
    if compiled_pays(x, COMPILED_SETS // 2) and len(index) == FUSED_KINDS:
        return kernels().from_sets(x, index)  # type: ignore[no-any-return]
    out = x[:, index[0]]
    for kind in index[1:]:
        out = out + x[:, kind]
    return out
