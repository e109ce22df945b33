import copy
import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn

from gram.config import ModelConfig, TrainConfig
from gram.models.reasoner import Reasoner
from gram.training.optim import AdamATan2, SparseSignSGD, build_optimizers, lr_factor


def scalar_reference(
    p: float, grads: list[float], *, lr: float, betas: tuple[float, float], weight_decay: float
) -> float:
    """The update rule for a single number, written with nothing but `math`."""
    m = v = 0.0
    for t, g in enumerate(grads, start=1):
        p -= lr * weight_decay * p
        m = betas[0] * m + (1 - betas[0]) * g
        v = betas[1] * v + (1 - betas[1]) * g * g
        p -= lr / (1 - betas[0] ** t) * math.atan2(m, math.sqrt(v / (1 - betas[1] ** t)))
    return p


def parameters(seed: int = 0) -> list[nn.Parameter]:
    generator = torch.Generator().manual_seed(seed)
    return [nn.Parameter(torch.randn(shape, dtype=torch.float64, generator=generator)) for shape in [(3, 4), (5,), ()]]


def gradients(params: list[nn.Parameter], steps: int, seed: int = 1) -> list[list[Tensor]]:
    generator = torch.Generator().manual_seed(seed)
    return [[torch.randn(p.shape, dtype=p.dtype, generator=generator) for p in params] for _ in range(steps)]


def descend(optimizer: torch.optim.Optimizer, params: list[nn.Parameter], grads: list[list[Tensor]]) -> None:
    for grads_at_step in grads:
        for p, g in zip(params, grads_at_step, strict=True):
            p.grad = g.clone()
        optimizer.step()


@given(
    start=st.floats(-10, 10),
    grads=st.lists(st.floats(-1e3, 1e3, allow_subnormal=False), min_size=1, max_size=12),
    lr=st.floats(1e-5, 0.1),
    # Not near 0: there a moment that rounds to zero decides between atan2(0, 0) = 0 and a quarter turn.
    betas=st.tuples(st.floats(0.1, 0.99), st.floats(0.1, 0.999)),
    weight_decay=st.floats(0, 1),
)
@settings(max_examples=100, deadline=None)
def test_one_number_follows_the_reference(start, grads, lr, betas, weight_decay):
    p = nn.Parameter(torch.tensor([start], dtype=torch.float64))
    optimizer = AdamATan2([p], lr=lr, betas=betas, weight_decay=weight_decay)
    descend(optimizer, [p], [[torch.tensor([g], dtype=torch.float64)] for g in grads])
    expected = scalar_reference(start, grads, lr=lr, betas=betas, weight_decay=weight_decay)
    assert p.item() == pytest.approx(expected, rel=1e-9, abs=1e-9)


def test_every_element_of_every_tensor_follows_the_reference():
    params = parameters()
    starts = [p.detach().clone() for p in params]
    grads = gradients(params, steps=20)
    settings = {"lr": 0.03, "betas": (0.9, 0.95), "weight_decay": 0.5}
    descend(AdamATan2(params, **settings), params, grads)
    for i, (p, start) in enumerate(zip(params, starts, strict=True)):
        for j, value in enumerate(p.flatten().tolist()):
            history = [g[i].flatten()[j].item() for g in grads]
            expected = scalar_reference(start.flatten()[j].item(), history, **settings)
            assert value == pytest.approx(expected, rel=1e-12)


def test_bias_correction_of_the_first_moment_is_outside_the_atan2():
    # The published kernel's first step: lr / 0.1 * atan2(0.1 g, |g|). Inside, it would be lr * pi / 4.
    p = nn.Parameter(torch.zeros(1, dtype=torch.float64))
    descend(AdamATan2([p], lr=0.1, betas=(0.9, 0.95)), [p], [[torch.full_like(p, 7.0)]])
    assert p.item() == pytest.approx(-0.1 * 10 * math.atan(0.1), rel=1e-12)


@given(scale=st.floats(1e-12, 1e12))
@settings(max_examples=50, deadline=None)
def test_scale_of_the_gradient_does_not_matter(scale):
    plain, scaled = parameters(), parameters()
    grads = gradients(plain, steps=5)
    descend(AdamATan2(plain, lr=0.1), plain, grads)
    descend(AdamATan2(scaled, lr=0.1), scaled, [[scale * g for g in grads_at_step] for grads_at_step in grads])
    for p, q in zip(plain, scaled, strict=True):
        torch.testing.assert_close(p, q, rtol=1e-10, atol=1e-10)


def test_restored_state_continues_identically():
    params = parameters()
    grads = gradients(params, steps=8)
    optimizer = AdamATan2(params, lr=0.05, weight_decay=0.1)
    descend(optimizer, params, grads[:4])

    restored = [nn.Parameter(p.detach().clone()) for p in params]
    other = AdamATan2(restored, lr=1.0)
    other.load_state_dict(copy.deepcopy(optimizer.state_dict()))

    descend(optimizer, params, grads[4:])
    descend(other, restored, grads[4:])
    for p, q in zip(params, restored, strict=True):
        assert torch.equal(p, q)


def test_zero_gradient_only_decays():
    p = nn.Parameter(torch.full((3,), 2.0))
    descend(AdamATan2([p], lr=0.1, weight_decay=0.5), [p], [[torch.zeros(3)]])
    torch.testing.assert_close(p.detach(), torch.full((3,), 2.0 * 0.95))


def test_parameter_without_gradient_waits_and_then_starts_at_step_one():
    early, late = nn.Parameter(torch.ones(1)), nn.Parameter(torch.ones(1))
    optimizer = AdamATan2([early, late], lr=0.1, weight_decay=0.5)
    early.grad = torch.ones(1)
    optimizer.step()
    assert late.item() == 1.0
    late.grad = early.grad.clone()
    optimizer.step()
    expected = scalar_reference(1.0, [1.0], lr=0.1, betas=(0.9, 0.95), weight_decay=0.5)
    assert late.item() == pytest.approx(expected, rel=1e-6)


def test_groups_keep_their_own_settings():
    slow, fast = nn.Parameter(torch.zeros(1)), nn.Parameter(torch.zeros(1))
    descend(
        AdamATan2([{"params": [slow], "lr": 0.01}, {"params": [fast], "lr": 0.1}]), [slow, fast], [[torch.ones(1)] * 2]
    )
    assert fast.item() == pytest.approx(10 * slow.item(), rel=1e-6)


def test_closure_is_run_with_gradients_and_its_loss_returned():
    p = nn.Parameter(torch.ones(1))
    optimizer = AdamATan2([p], lr=0.1)

    def closure() -> float:
        optimizer.zero_grad()
        loss = (p**2).sum()
        loss.backward()
        return loss.item()

    assert optimizer.step(closure) == 1.0
    assert p.item() < 1.0


def test_sparse_gradient_is_refused():
    embedding = nn.Embedding(4, 2, sparse=True)
    optimizer = AdamATan2(embedding.parameters())
    embedding(torch.tensor([1])).sum().backward()
    with pytest.raises(ValueError, match="dense gradients"):
        optimizer.step()


@pytest.mark.parametrize("bad", [{"lr": -1.0}, {"weight_decay": -0.1}, {"betas": (1.0, 0.9)}, {"betas": (0.9, -0.1)}])
def test_settings_out_of_range_are_refused(bad):
    with pytest.raises(ValueError, match="must"):
        AdamATan2([nn.Parameter(torch.zeros(1))], **bad)


@pytest.mark.parametrize(("name", "kind"), [("adamw", torch.optim.AdamW), ("adam_atan2", AdamATan2)])
def test_the_settings_are_passed_on(name, kind):
    model = Reasoner(ModelConfig(dim=8, guidance="none"), vocab_size=3, length=4)
    config = TrainConfig(optimizer=name, lr=0.01, weight_decay=0.3, betas=(0.8, 0.9))
    (optimizer,) = build_optimizers(model, config)
    assert type(optimizer) is kind
    (group,) = optimizer.param_groups
    assert (group["lr"], group["weight_decay"], group["betas"]) == (0.01, 0.3, (0.8, 0.9))
    assert len(group["params"]) == len(list(model.parameters()))


def test_puzzle_embeddings_have_an_optimiser_of_their_own():
    model = Reasoner(ModelConfig(dim=8, guidance="none", puzzle_tokens=2, puzzles=5), vocab_size=3, length=4)
    dense, sparse = build_optimizers(model, TrainConfig(puzzle_lr=0.5, puzzle_weight_decay=0.25))
    assert type(sparse) is SparseSignSGD
    (group,) = sparse.param_groups
    assert (group["lr"], group["weight_decay"]) == (0.5, 0.25)
    assert [id(p) for p in group["params"]] == [id(model.encoder.puzzles)]
    assert id(model.encoder.puzzles) not in {id(p) for group in dense.param_groups for p in group["params"]}


@pytest.mark.parametrize(
    ("step", "expected"), [(0, 0.0), (1, 0.1), (5, 0.5), (10, 1.0), (60, 0.6), (110, 0.2), (500, 0.2)]
)
def test_schedule_passes_through_its_end_points(step, expected):
    assert lr_factor(step, warmup=10, total=110, final=0.2) == pytest.approx(expected)


def test_schedule_with_final_one_is_constant_after_warmup():
    assert {lr_factor(step, warmup=4, total=20, final=1.0) for step in range(4, 30)} == {1.0}


def test_schedule_without_warmup_starts_at_the_peak():
    assert lr_factor(0, warmup=0, total=10, final=0.0) == 1.0
    assert lr_factor(10, warmup=0, total=10, final=0.0) == pytest.approx(0.0)


@given(warmup=st.integers(0, 50), total=st.integers(1, 100), final=st.floats(0, 1))
@settings(deadline=None)
def test_schedule_rises_then_falls_within_bounds(warmup, total, final):
    factors = [lr_factor(step, warmup=warmup, total=total, final=final) for step in range(warmup + total + 2)]
    assert factors[:warmup] == sorted(factors[:warmup])
    assert all(a >= b - 1e-12 for a, b in zip(factors[warmup:], factors[warmup + 1 :], strict=False))
    assert all(-1e-12 <= f <= 1 + 1e-12 for f in factors)
