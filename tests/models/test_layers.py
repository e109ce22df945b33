"""The building blocks against torch's own, or against the formula written out."""

import math
from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor
from torch.autograd import gradcheck
from torch.testing import assert_close

from gram.config import ModelConfig
from gram.models.layers import (
    NORM_EPSILON,
    ROPE_BASE,
    Attention,
    Block,
    Linear,
    Rope,
    SwiGLU,
    TokenMixing,
    gate,
    rms_norm,
    truncated_normal_,
)


def randn(*shape: int, seed: int = 0, scale: float = 1.0, grad: bool = False) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    x = scale * torch.randn(shape, generator=generator, dtype=torch.float64)
    return x.requires_grad_(grad)


def over_tokens(f: Callable[[Tensor], Tensor]) -> Callable[[Tensor], Tensor]:
    return lambda x: f(x.transpose(1, 2)).transpose(1, 2)


def torch_rms_norm(x: Tensor) -> Tensor:
    return F.rms_norm(x, x.shape[-1:], eps=NORM_EPSILON)


def torch_gate(x: Tensor, axis: int) -> Tensor:
    first, second = x.chunk(2, dim=axis)
    return F.silu(first) * second


def gradient(f: Callable[[Tensor], Tensor], x: Tensor, upstream: Tensor) -> Tensor:
    return torch.autograd.grad(f(x), x, upstream)[0]


# --- the hand-written autograd functions ------------------------------------------------------------------------------


@pytest.mark.parametrize("shape", [(7,), (3, 7), (2, 5, 8), (2, 3, 1)])
@pytest.mark.parametrize("scale", [1e-3, 1.0, 1e3])
def test_rms_norm_is_torchs(shape: tuple[int, ...], scale: float) -> None:
    x, upstream = randn(*shape, scale=scale, grad=True), randn(*shape, seed=1)
    assert_close(rms_norm(x), torch_rms_norm(x))
    assert_close(gradient(rms_norm, x, upstream), gradient(torch_rms_norm, x, upstream))


def test_rms_norm_over_tokens_is_torchs() -> None:
    x, upstream = randn(2, 5, 8, grad=True), randn(2, 5, 8, seed=1)
    ours, theirs = over_tokens(rms_norm), over_tokens(torch_rms_norm)
    assert_close(ours(x), theirs(x))
    assert_close(gradient(ours, x, upstream), gradient(theirs, x, upstream))


def test_rms_norm_of_zeros_is_zero_with_a_finite_gradient() -> None:
    x = torch.zeros(2, 4, dtype=torch.float64, requires_grad=True)
    assert rms_norm(x).abs().max() == 0
    assert_close(gradient(rms_norm, x, torch.ones_like(x)), torch.full_like(x, NORM_EPSILON**-0.5))


@settings(max_examples=30)
@given(st.lists(st.floats(-100, 100), min_size=1, max_size=9).filter(lambda row: max(map(abs, row)) > 1))
def test_rms_norm_gives_unit_root_mean_square(row: list[float]) -> None:
    y = rms_norm(torch.tensor(row, dtype=torch.float64))
    assert float(y.square().mean()) == pytest.approx(1, abs=1e-4)


@pytest.mark.parametrize("axis", [1, 2, -1])
@pytest.mark.parametrize("scale", [1.0, 30.0])
def test_gate_is_silu_times_up(axis: int, scale: float) -> None:
    x = randn(2, 6, 4, scale=scale, grad=True)
    upstream = randn(*torch_gate(x, axis).shape, seed=1)
    assert_close(gate(x, axis), torch_gate(x, axis))
    assert_close(gradient(lambda v: gate(v, axis), x, upstream), gradient(lambda v: torch_gate(v, axis), x, upstream))


@pytest.mark.parametrize(
    "f",
    [rms_norm, over_tokens(rms_norm), lambda x: gate(x, 1), lambda x: gate(x, -1), over_tokens(lambda x: gate(x, -1))],
    ids=["norm-channels", "norm-tokens", "gate-tokens", "gate-channels", "gate-transposed"],
)
def test_backward_is_the_numerical_derivative(f: Callable[[Tensor], Tensor]) -> None:
    assert gradcheck(f, (randn(2, 4, 6, grad=True),))


def test_backward_accepts_an_expanded_upstream_and_leaves_it_alone() -> None:
    # `sum` sends back one number with stride 0; writing into it would corrupt every other user of that gradient.
    for f in (rms_norm, lambda x: gate(x, -1)):
        x = randn(3, 4, grad=True)
        y = f(x)
        assert_close(gradient(f, x, torch.ones(()).double().expand(y.shape)), gradient(f, x, torch.ones_like(y)))
        upstream = randn(*y.shape, seed=2)
        kept = upstream.clone()
        gradient(f, x, upstream)
        assert torch.equal(upstream, kept)


@pytest.mark.parametrize(
    "f",
    [
        rms_norm,
        lambda x: gate(x, -1),
    ],
    ids=["norm", "gate"],
)
def test_second_derivatives_are_refused_rather_than_wrong(f: Callable[[Tensor], Tensor]) -> None:
    x = randn(2, 4, grad=True)
    with pytest.raises(RuntimeError, match="differentia"):  # noqa: PT012 - either of the two calls may refuse
        (first,) = torch.autograd.grad(f(x).square().sum(), x, create_graph=True)
        torch.autograd.grad(first.sum(), x)


# --- initialisation ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("std", [0.02, 1.0])
def test_truncated_normal_has_the_deviation_and_the_bounds(std: float) -> None:
    torch.manual_seed(0)
    values = truncated_normal_(torch.empty(400, 500), std)
    cut_std = 0.87962566103423978  # deviation of a standard normal cut at two deviations
    assert float(values.std()) == pytest.approx(std, rel=0.005)
    assert float(values.mean()) == pytest.approx(0, abs=0.01 * std)
    assert float(values.abs().max()) <= 2 * std / cut_std * (1 + 1e-6)
    assert float(values.abs().max()) > 1.99 * std / cut_std


def test_linear_keeps_the_variance_of_its_input() -> None:
    torch.manual_seed(0)
    layer = Linear(256, 512)
    assert layer.bias is None
    assert float(layer.weight.detach().std()) == pytest.approx(1 / 16, rel=0.02)


# --- SwiGLU over channels and over tokens -----------------------------------------------------------------------------


def test_swiglu_is_its_formula() -> None:
    layer = SwiGLU(6, 5).double()
    first, second = layer.gate_up.weight.chunk(2)
    x = randn(2, 4, 6)
    expected = (F.silu(x @ first.T) * (x @ second.T)) @ layer.down.weight.T
    assert_close(layer(x), expected)


def test_token_mixing_is_swiglu_on_the_transposed_tensor() -> None:
    torch.manual_seed(0)
    mixing, swiglu = TokenMixing(5, 7).double(), SwiGLU(5, 7).double()
    swiglu.load_state_dict(mixing.state_dict())
    x, upstream = randn(3, 5, 4, grad=True), randn(3, 5, 4, seed=1)
    ours, expected = mixing(x), over_tokens(swiglu)(x)
    assert_close(ours, expected)
    parameters = (mixing.gate_up.weight, mixing.down.weight), (swiglu.gate_up.weight, swiglu.down.weight)
    assert_close(
        torch.autograd.grad(ours, (x, *parameters[0]), upstream),
        torch.autograd.grad(expected, (x, *parameters[1]), upstream),
    )


def test_token_mixing_treats_every_channel_alike() -> None:
    mixing, x = TokenMixing(5, 7).double(), randn(2, 5, 4)
    order = [2, 0, 3, 1]
    assert_close(mixing(x[..., order]), mixing(x)[..., order])


# --- attention --------------------------------------------------------------------------------------------------------


def rotated(vector: Tensor, position: int) -> Tensor:
    """Rope by its definition: channel pair (i, i + d/2) is a complex number turned by position * base^(-2i/d)."""
    half = len(vector) // 2
    result = vector.clone()
    for i in range(half):
        angle = position * ROPE_BASE ** (-2 * i / len(vector))
        x, y = vector[i], vector[i + half]
        result[i] = x * math.cos(angle) - y * math.sin(angle)
        result[i + half] = x * math.sin(angle) + y * math.cos(angle)
    return result


def naive_attention(layer: Attention, x: Tensor, use_rope: bool) -> Tensor:
    batch, length, dim = x.shape
    size = dim // layer.heads
    parts = [x @ weight.T for weight in layer.qkv.weight.chunk(3)]
    result = torch.zeros_like(x)
    for b in range(batch):
        for head in range(layer.heads):
            q, k, v = (part[b, :, head * size : (head + 1) * size] for part in parts)
            if use_rope:
                q = torch.stack([rotated(row, i) for i, row in enumerate(q)])
                k = torch.stack([rotated(row, i) for i, row in enumerate(k)])
            for i in range(length):
                scores = torch.stack([q[i] @ k[j] / math.sqrt(size) for j in range(length)])
                weights = scores.exp() / scores.exp().sum()
                result[b, i, head * size : (head + 1) * size] = weights @ v
    return result @ layer.out.weight.T


@pytest.mark.parametrize("use_rope", [False, True])
def test_attention_is_the_naive_softmax(use_rope: bool) -> None:
    torch.manual_seed(0)
    layer, x = Attention(8, 2).double(), randn(2, 5, 8)
    rope = Rope(4, 5) if use_rope else None
    with torch.no_grad():
        assert_close(layer(x, rope), naive_attention(layer, x, use_rope), atol=1e-6, rtol=1e-6)


def test_rope_is_a_rotation() -> None:
    rope, x = Rope(6, 9), randn(2, 3, 9, 6)
    turned = rope(x)
    assert_close(turned.norm(dim=-1), x.norm(dim=-1), atol=1e-6, rtol=1e-6)
    assert_close(turned[:, :, 0], x[:, :, 0])
    assert not torch.allclose(turned[:, :, 1:], x[:, :, 1:], atol=1e-2)


def test_rope_scores_depend_on_the_distance_alone() -> None:
    rope, length = Rope(6, 9), 9
    query, key = (rope(randn(6, seed=seed).expand(1, 1, length, 6))[0, 0] for seed in (0, 1))
    scores = query @ key.T  # the same query and key at every position
    for distance in range(1 - length, length):
        diagonal = scores.diagonal(distance)
        assert_close(diagonal, diagonal[:1].expand_as(diagonal), atol=1e-5, rtol=1e-5)
    assert float((scores[0, 0] - scores[0, 1]).abs()) > 1e-3  # and does depend on it


def test_rope_tables_are_not_saved() -> None:
    assert not Rope(4, 3).state_dict()


# --- blocks -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("mixing", "mixing_norm"), [("tokens", "channels"), ("tokens", "tokens"), ("attention", "channels")]
)
def test_block_is_two_residual_sums_each_with_a_post_norm(mixing: str, mixing_norm: str) -> None:
    torch.manual_seed(0)
    config = ModelConfig(dim=8, channel_hidden=7, mixing=mixing, token_hidden=6, mixing_norm=mixing_norm, heads=2)
    block = Block(config, 5).double()
    rope = Rope(4, 5) if mixing == "attention" else None
    x = randn(2, 5, 8)
    mixed = x + (block.mixer(x, rope) if rope else block.mixer(x))
    axis = 1 if mixing_norm == "tokens" else 2
    middle = mixed / (mixed.square().mean(dim=axis, keepdim=True) + NORM_EPSILON).sqrt()
    expected = torch_rms_norm(middle + block.channels(middle))
    assert_close(block(x, rope), expected)
