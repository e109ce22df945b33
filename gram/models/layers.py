"""The building blocks of every recursive network: affine-free RMS norm, SwiGLU, attention with RoPE, token mixing."""

import importlib
import math
from functools import cache
from types import ModuleType
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

from gram.config import ModelConfig
from gram.models.multiply import multiply, multiply_tokens

NORM_EPSILON = 1e-5
ROPE_BASE = 10000.0
COMPILED_NORM, COMPILED_GATE = 2**17, 2**19
"""Size of a tensor from which norms and gates on a CPU use `gram.models.kernels`."""
COMPILED_ATTENTION, COMPILED_TOKENS = 2**17, 128
"""Size of queries, keys and values from which, and tokens up to which, `gram.models.attention_kernels` are used."""


class _NoContext:
    """What a forward pass is given to keep its tensors in, where no backward pass will ask for them."""

    def save_for_backward(self, *_: Tensor) -> None:
        """Keep nothing."""


def run(function: type[torch.autograd.Function], *arguments: Any) -> Any:
    """Apply a function; without a gradient, its forward pass alone.

    torch's bookkeeping takes ten times as long as the call, and holds Python's lock: threads would wait for each other.
    """
    if torch.is_grad_enabled():
        return function.apply(*arguments)  # type: ignore[no-untyped-call]
    return function.forward(_NoContext(), *arguments)


class _RmsNorm(torch.autograd.Function):
    """RMS norm with a short backward pass: half the memory traffic of torch's composite."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, axis: int) -> Tensor:
        y: Tensor
        if compiled_pays(x, COMPILED_NORM):
            y, scale = kernels().norm(x, axis, NORM_EPSILON)
        else:
            scale = (torch.linalg.vecdot(x, x, dim=axis) / x.shape[axis] + NORM_EPSILON).rsqrt().unsqueeze(axis)
            y = x * scale
        ctx.save_for_backward(y, scale)
        ctx.axis = axis
        return y

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, None]:
        y, scale = ctx.saved_tensors
        if compiled_pays(y, COMPILED_NORM):
            return kernels().norm_gradient(y, scale, grads[0], ctx.axis), None
        along = torch.linalg.vecdot(grads[0], y, dim=ctx.axis).unsqueeze(ctx.axis) / -y.shape[ctx.axis]
        return torch.addcmul(grads[0], y, along).mul_(scale), None


class _Gate(torch.autograd.Function):
    """silu(gate) * up, the halves of `axis`; the backward pass fills one tensor instead of joining two."""

    @staticmethod
    def forward(ctx: Any, gate_up: Tensor, axis: int) -> Tensor:
        ctx.save_for_backward(gate_up)
        ctx.axis = axis
        if compiled_pays(gate_up, COMPILED_GATE):
            return kernels().gate(gate_up, axis)  # type: ignore[no-any-return]
        gate, up = gate_up.chunk(2, dim=axis)
        return F.silu(gate).mul_(up)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, None]:
        (gate_up,) = ctx.saved_tensors
        if compiled_pays(gate_up, COMPILED_GATE):
            return kernels().gate_gradient(gate_up, grads[0], ctx.axis), None
        gate, up = gate_up.chunk(2, dim=ctx.axis)
        result = torch.empty_like(gate_up)
        to_gate, to_up = result.chunk(2, dim=ctx.axis)
        sigmoid = gate.sigmoid()
        silu = gate * sigmoid
        torch.mul(grads[0], silu, out=to_up)
        # silu' = sigmoid + silu * (1 - sigmoid) = silu + sigmoid * (1 - silu)
        slope = silu.addcmul_(sigmoid, silu, value=-1).add_(sigmoid)
        torch.mul(slope.mul_(up), grads[0], out=to_gate)
        return result, None


def compiled_pays(x: Tensor, least: int) -> bool:
    """Return whether x is so large that numba is worth its import; a single small puzzle is solved without it."""
    fits = x.is_cpu and x.dtype == torch.float32 and x.ndim == 3 and x.numel() >= least and x.is_contiguous()
    return fits and not torch.compiler.is_compiling()


@cache
def kernels(name: str = "kernels") -> ModuleType:
    """Return `gram.models.kernels`, or another module of compiled loops, imported when it is first needed."""
    return importlib.import_module(f"gram.models.{name}")


def rms_norm(x: Tensor, axis: int = -1) -> Tensor:
    """Scale an axis to unit root mean square; no learned gain (as in HRM and TRM)."""
    if torch.compiler.is_compiling():  # the compiler fuses plain operations
        return x * (x.square().mean(dim=axis, keepdim=True) + NORM_EPSILON).rsqrt()
    return run(_RmsNorm, x, axis)  # type: ignore[no-any-return]


def gate(gate_up: Tensor, axis: int) -> Tensor:
    """Return silu(first half) * second half along an axis."""
    if torch.compiler.is_compiling():
        first, second = gate_up.chunk(2, dim=axis)
        return F.silu(first) * second
    return run(_Gate, gate_up, axis)  # type: ignore[no-any-return]


def truncated_normal_(weight: Tensor, std: float) -> Tensor:
    """Fill with a normal that is truncated at two standard deviations, scaled so that its own is exactly `std`."""
    # The truncated normal has a standard deviation of 0.8796...: divide by it, as the published code does.
    mass = math.erf(math.sqrt(2))
    density = math.exp(-2) / math.sqrt(2 * math.pi)
    cut_std = math.sqrt(1 - 4 * density / mass)
    with torch.no_grad():
        return nn.init.trunc_normal_(weight, std=std / cut_std, a=-2 * std / cut_std, b=2 * std / cut_std)


class Linear(nn.Linear):
    """Bias-free linear map with truncated-normal weights of standard deviation 1/sqrt(inputs)."""

    def __init__(self, inputs: int, outputs: int) -> None:
        super().__init__(inputs, outputs, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        """Map x [..., inputs] to [..., outputs]."""
        return multiply(x, self.weight)

    def reset_parameters(self) -> None:
        """Initialise; called by torch's constructor."""
        truncated_normal_(self.weight, 1 / math.sqrt(self.in_features))


class Embedding(nn.Embedding):
    """torch's, which is left as it is where it has no memory: its weights would take seconds to initialise there."""

    def reset_parameters(self) -> None:
        """Initialise; called by torch's constructor."""
        if not self.weight.is_meta:
            super().reset_parameters()


class SwiGLU(nn.Module):
    """`down(silu(gate(x)) * up(x))` over the last axis; gate and up are one multiply."""

    def __init__(self, dim: int, hidden: int) -> None:
        super().__init__()
        self.gate_up = Linear(dim, 2 * hidden)
        self.down = Linear(hidden, dim)

    def forward(self, x: Tensor) -> Tensor:
        """Apply to x [..., dim]; return the same shape."""
        return self.down(gate(self.gate_up(x), -1))  # type: ignore[no-any-return]


class TokenMixing(SwiGLU):
    """A SwiGLU over the token axis: every channel mixes its own row of tokens with the same weights."""

    def forward(self, x: Tensor) -> Tensor:
        """Mix the tokens of x [batch, length, dim]; return the same shape."""
        return multiply_tokens(self.down.weight, gate(multiply_tokens(self.gate_up.weight, x), 1))


class Rope(nn.Module):
    """Rotary position embedding: cosines and sines for every position."""

    cos: Tensor
    sin: Tensor

    def __init__(self, head_dim: int, length: int) -> None:
        super().__init__()
        frequencies = ROPE_BASE ** (-torch.arange(0, head_dim, 2, dtype=torch.float32) / head_dim)
        angles = torch.outer(torch.arange(length, dtype=torch.float32), frequencies).repeat(1, 2)  # [length, head_dim]
        self.register_buffer("cos", angles.cos(), persistent=False)
        self.register_buffer("sin", angles.sin(), persistent=False)

    def forward(self, x: Tensor, start: int = 0) -> Tensor:
        """Rotate x [batch, heads, tokens, head_dim] by its positions, the first of which is `start`."""
        here = slice(start, start + x.shape[2])
        first, second = x.chunk(2, dim=-1)
        return x * self.cos[here] + torch.cat((-second, first), dim=-1) * self.sin[here]


class KeyValues:
    """The keys and values of one block, for the tokens so far."""

    def __init__(self, length: int) -> None:
        self.length = length
        self.filled = 0
        self.store: Tensor | None = None

    def extend(self, key: Tensor, value: Tensor) -> tuple[Tensor, Tensor]:
        """Add key, value [rows, heads, new, head_dim]; return those of all tokens so far."""
        rows, heads, new, head_dim = key.shape
        if self.store is None:
            self.store = key.new_empty(2, rows, heads, self.length, head_dim)
        elif new != 1:
            raise ValueError("a cache that is not empty grows by one token at a time")
        end = self.filled + new
        self.store[0, :, :, self.filled : end] = key
        self.store[1, :, :, self.filled : end] = value
        self.filled = end
        return self.store[0, :, :, :end], self.store[1, :, :, :end]


class _Attend(torch.autograd.Function):
    """Rotation, scores, softmax and mixing of heads by compiled loops between batched multiplies."""

    @staticmethod
    def forward(ctx: Any, qkv: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
        y, kept = kernels("attention_kernels").forward(qkv, cos, sin)
        ctx.save_for_backward(*kept, cos, sin)
        return y  # type: ignore[no-any-return]

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, None, None]:
        *kept, cos, sin = ctx.saved_tensors
        return kernels("attention_kernels").backward(kept, grads[0], cos, sin), None, None


class Attention(nn.Module):
    """Self-attention, full or causal, that may add to a cache."""

    def __init__(self, dim: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.qkv = Linear(dim, 3 * dim)
        self.out = Linear(dim, dim)

    def forward(self, x: Tensor, rope: Rope | None, *, causal: bool = False, cache: KeyValues | None = None) -> Tensor:
        """Attend from x [batch, new tokens, dim]; return the same shape."""
        batch, new, dim = x.shape
        qkv = self.qkv(x)
        if cache is None and not causal and new <= COMPILED_TOKENS and compiled_pays(qkv, COMPILED_ATTENTION):
            heads = qkv.view(batch, new, 3, self.heads, dim // self.heads)
            turns = (torch.ones(new, dim // self.heads), torch.zeros(new, dim // self.heads))
            turns = turns if rope is None else (rope.cos[:new], rope.sin[:new])
            return self.out(run(_Attend, heads, *turns))  # type: ignore[no-any-return]
        qkv = qkv.view(batch, new, 3, self.heads, dim // self.heads)
        query, key, value = qkv.permute(2, 0, 3, 1, 4)  # each [batch, heads, new, head_dim]
        if rope is not None:
            start = 0 if cache is None else cache.filled
            query, key = rope(query, start), rope(key, start)
        if cache is not None:
            key, value = cache.extend(key, value)
        # A single new token may see all tokens so far; several are the first ones, so that torch's mask fits.
        mixed = F.scaled_dot_product_attention(query, key, value, is_causal=causal and new > 1)
        return self.out(mixed.transpose(1, 2).reshape(batch, new, dim))  # type: ignore[no-any-return]


class Block(nn.Module):
    """Mix tokens, then channels; each followed by a residual sum and a post-norm."""

    def __init__(self, config: ModelConfig, length: int) -> None:
        super().__init__()
        tokens = config.mixing == "tokens"
        self.mixer = TokenMixing(length, config.token_hidden) if tokens else Attention(config.dim, config.heads)
        self.channels = SwiGLU(config.dim, config.channel_hidden)
        self.norm_over_tokens = tokens and config.mixing_norm == "tokens"

    def forward(self, x: Tensor, rope: Rope | None = None) -> Tensor:
        """Apply to x [batch, length, dim]; return the same shape."""
        mixed = x + (self.mixer(x, rope) if isinstance(self.mixer, Attention) else self.mixer(x))
        x = rms_norm(mixed, axis=1 if self.norm_over_tokens else -1)
        return rms_norm(x + self.channels(x))
