"""Self-attention of few tokens on a CPU: batched multiplies, and one pass over memory between two of them.

At 64 to 100 tokens this is faster than torch's fused attention, whose blocks are made for many. Arrays are contiguous
float32; heads stand before tokens, [3, batch, heads, tokens, head_dim], so that every multiply is one batch of them.
"""

from functools import partial
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from gram.models.kernels import LARGEST, ONE, Array, compiled, exponential, in_parts

LANES = 16


class Kept(NamedTuple):
    """What the backward pass needs."""

    heads: Tensor
    """[3, batch x heads, tokens, head_dim] query (rotated and scaled), key (rotated) and value"""
    weights: Tensor
    """[batch x heads, tokens, tokens] that sum up to 1"""


@compiled
def _to_heads(qkv: Array, cos: Array, sin: Array, scale: np.float32, out: Array, first: int, end: int) -> None:
    """Rotate query and key, scale the query, and put heads before tokens."""
    half = cos.shape[1] // 2
    for i in range(first, end):
        for h in range(qkv.shape[3]):
            for kind in range(3):
                factor = scale if kind == 0 else ONE
                for p in range(qkv.shape[1]):
                    if kind == 2:
                        for j in range(2 * half):
                            out[2, i, h, p, j] = qkv[i, p, 2, h, j]
                    else:
                        for j in range(half):
                            a, b = qkv[i, p, kind, h, j], qkv[i, p, kind, h, half + j]
                            out[kind, i, h, p, j] = (a * cos[p, j] - b * sin[p, j]) * factor
                            out[kind, i, h, p, half + j] = (b * cos[p, j] + a * sin[p, j]) * factor


@compiled
def _from_heads(heads: Array, cos: Array, sin: Array, scale: np.float32, out: Array, first: int, end: int) -> None:
    """Rotate gradients of query and key back, and put tokens before heads."""
    half = cos.shape[1] // 2
    for i in range(first, end):
        for h in range(out.shape[3]):
            for kind in range(3):
                factor = scale if kind == 0 else ONE
                for p in range(out.shape[1]):
                    if kind == 2:
                        for j in range(2 * half):
                            out[i, p, 2, h, j] = heads[2, i, h, p, j]
                    else:
                        for j in range(half):
                            a, b = heads[kind, i, h, p, j], heads[kind, i, h, p, half + j]
                            out[i, p, kind, h, j] = (a * cos[p, j] + b * sin[p, j]) * factor
                            out[i, p, kind, h, half + j] = (b * cos[p, j] - a * sin[p, j]) * factor


@compiled
def _largest(row: Array, lanes: Array) -> np.float32:
    """Return the largest number of a row; all lanes are compared at a time, where a plain loop would go one by one."""
    whole = row.shape[0] // LANES * LANES
    lanes[:] = row[0]
    for start in range(0, whole, LANES):
        for lane in range(LANES):
            here = row[start + lane]
            lanes[lane] = here if here > lanes[lane] else lanes[lane]
    most = lanes[0]
    for lane in range(LANES):
        most = lanes[lane] if lanes[lane] > most else most
    for j in range(whole, row.shape[0]):
        most = row[j] if row[j] > most else most
    return most  # type: ignore[no-any-return]


@compiled
def _softmax(scores: Array, first: int, end: int) -> None:
    """Turn rows of scores into weights, in place."""
    lanes = np.empty(LANES, np.float32)
    for i in range(first, end):
        for p in range(scores.shape[1]):
            row = scores[i, p]
            most = _largest(row, lanes)
            for j in range(row.shape[0]):
                z = row[j] - most
                row[j] = exponential(-LARGEST if z < -LARGEST else z)  # what is not a number stays so
            total = np.float32(0)
            for j in range(row.shape[0]):
                total += row[j]
            factor = ONE / total
            for j in range(row.shape[0]):
                row[j] *= factor


@compiled
def _softmax_gradient(weights: Array, upstream: Array, first: int, end: int) -> None:
    """Turn gradients of the weights into those of the scores, in place of `upstream`."""
    for i in range(first, end):
        for p in range(weights.shape[1]):
            along = np.float32(0)
            for j in range(weights.shape[2]):
                along += weights[i, p, j] * upstream[i, p, j]
            for j in range(weights.shape[2]):
                upstream[i, p, j] = weights[i, p, j] * (upstream[i, p, j] - along)


def forward(qkv: Tensor, cos: Tensor, sin: Tensor) -> tuple[Tensor, Kept]:
    """Map qkv [batch, tokens, 3, heads, head_dim] to [batch, tokens, dim], and what to keep; cos [tokens, head_dim]."""
    batch, tokens, _, heads, head_dim = qkv.shape
    split = torch.empty(3, batch, heads, tokens, head_dim)
    scale = np.float32(head_dim**-0.5)
    arguments = (qkv.numpy(), cos.numpy(), sin.numpy(), scale, split.numpy())
    in_parts(partial(_to_heads, *arguments), batch, qkv.numel())
    split = split.view(3, batch * heads, tokens, head_dim)
    query, key, value = split
    weights = torch.bmm(query, key.transpose(1, 2))
    in_parts(partial(_softmax, weights.numpy()), len(weights), weights.numel())
    mixed = torch.bmm(weights, value).view(batch, heads, tokens, head_dim)
    return mixed.transpose(1, 2).reshape(batch, tokens, -1), Kept(split, weights)


def backward(kept: Kept, upstream: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    """Return the gradient for qkv [batch, tokens, 3, heads, head_dim]; upstream is that of [batch, tokens, dim]."""
    split, weights = kept
    query, key, value = split
    batch, tokens, _ = upstream.shape
    head_dim = split.shape[3]
    heads = len(weights) // batch
    to_mixed = upstream.reshape(batch, tokens, heads, head_dim).transpose(1, 2).reshape(-1, tokens, head_dim)
    to_split, to_scores = torch.empty_like(split), torch.bmm(to_mixed, value.transpose(1, 2))
    torch.bmm(weights.transpose(1, 2), to_mixed, out=to_split[2])
    in_parts(partial(_softmax_gradient, weights.numpy(), to_scores.numpy()), len(weights), weights.numel())
    torch.bmm(to_scores, key, out=to_split[0])
    torch.bmm(to_scores.transpose(1, 2), query, out=to_split[1])
    to_qkv = torch.empty(batch, tokens, 3, heads, head_dim)
    parts = to_split.view(3, batch, heads, tokens, head_dim).numpy()
    scale = np.float32(head_dim**-0.5)
    in_parts(partial(_from_heads, parts, cos.numpy(), sin.numpy(), scale, to_qkv.numpy()), batch, to_qkv.numel())
    return to_qkv
