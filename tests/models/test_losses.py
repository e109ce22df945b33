"""Every term of the loss against its formula."""

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.testing import assert_close

from gram.models.coders import Readout
from gram.models.losses import (
    exactly_right,
    halt_loss,
    labelled_count,
    reconstruction_loss,
    squared_error,
    token_accuracy,
    token_cross_entropy,
)
from gram.tasks.base import IGNORE
from tests.models.helpers import binary_cross_entropy as bce

# --- cross-entropy ----------------------------------------------------------------------------------------------------


def naive_cross_entropy(logits: list[float], target: int, kind: str) -> float:
    def weight(x: float) -> float:
        if kind == "softmax":
            return math.exp(x)
        return x + 1 if x >= 0 else 1 / (1 - x)

    return 0.0 if target == IGNORE else -math.log(weight(logits[target]) / sum(map(weight, logits)))


@pytest.mark.parametrize("kind", ["softmax", "stablemax"])
@settings(max_examples=25)
@given(
    st.lists(
        st.tuples(st.lists(st.floats(-15, 15), min_size=3, max_size=3), st.sampled_from([0, 1, 2, IGNORE])),
        min_size=1,
        max_size=5,
    )
)
def test_cross_entropy_is_the_formula(kind: str, row: list[tuple[list[float], int]]) -> None:
    logits = torch.tensor([[token[0] for token in row]], dtype=torch.float64)
    targets = torch.tensor([[token[1] for token in row]])
    expected = [naive_cross_entropy(*token, kind) for token in row]
    found = token_cross_entropy(logits, targets, kind)
    assert_close(found, torch.tensor([expected]), rtol=1e-4, atol=1e-4)
    labelled = sum(token[1] != IGNORE for token in row)
    mean = float(reconstruction_loss(logits, targets, kind))
    assert mean == pytest.approx(sum(expected) / max(1, labelled), rel=1e-4, abs=1e-4)


@pytest.mark.parametrize("kind", ["softmax", "stablemax"])
def test_unlabelled_positions_cost_nothing_and_teach_nothing(kind: str) -> None:
    logits = torch.randn(2, 4, 3, generator=torch.Generator().manual_seed(0), requires_grad=True)
    targets = torch.tensor([[0, IGNORE, 2, IGNORE], [IGNORE] * 4])
    loss = reconstruction_loss(logits, targets, kind)
    assert float(loss[1].detach()) == 0
    (gradient,) = torch.autograd.grad(loss.sum(), logits)
    assert bool(gradient.isfinite().all())
    taught = gradient.abs().sum(dim=-1) > 0
    assert torch.equal(taught, targets != IGNORE)
    # More unlabelled positions beside them leave the mean over the labelled ones as it is.
    wider = torch.cat((logits, logits.detach()), dim=1), torch.cat((targets, torch.full_like(targets, IGNORE)), dim=1)
    assert_close(reconstruction_loss(*wider, kind), loss)


def test_stablemax_stays_finite_where_softmax_saturates() -> None:
    logits = torch.tensor([[[1e4, -1e4, 0.0]]])
    for target in range(3):
        assert bool(token_cross_entropy(logits, torch.tensor([[target]]), "stablemax").isfinite().all())


def test_verdicts_look_at_labelled_tokens_only() -> None:
    targets = torch.tensor([[0, 1, IGNORE], [0, 1, 2], [IGNORE] * 3])
    outputs = torch.tensor([[0, 1, 7], [0, 2, 2], [5, 5, 5]])
    assert labelled_count(targets).tolist() == [2, 3, 1]
    assert exactly_right(outputs, targets).tolist() == [True, False, True]
    assert_close(token_accuracy(outputs, targets), torch.tensor([1, 2 / 3, 0]))


# --- halting -------------------------------------------------------------------------------------------------------


@settings(max_examples=25)
@given(st.floats(-8, 8), st.floats(-8, 8), st.booleans(), st.floats(0, 1))
def test_halt_loss_in_both_forms(q_halt: float, q_continue: float, right: bool, target: float) -> None:
    readout = Readout(torch.tensor([q_halt]), torch.tensor([q_continue]), torch.zeros(1))
    verdict = torch.tensor([right])
    expected = bce(q_halt, float(right))
    assert float(halt_loss(readout, verdict, None)) == pytest.approx(expected, rel=1e-3, abs=1e-4)
    both = float(halt_loss(readout, verdict, torch.tensor([target])))
    assert both == pytest.approx(expected + bce(q_continue, target), rel=1e-3, abs=1e-4)


@pytest.mark.parametrize(("target", "expected"), [(None, 0.25), (0.75, 0.25 + 0.0625)])
def test_the_papers_halt_loss_is_a_squared_error(target: float | None, expected: float) -> None:
    readout = Readout(torch.zeros(1), torch.zeros(1), torch.zeros(1))
    continue_target = None if target is None else torch.tensor([target])
    for right in (True, False):
        loss = halt_loss(readout, torch.tensor([right]), continue_target, "squared")
        assert float(loss) == pytest.approx(expected)


def test_value_loss_is_the_squared_error_of_a_probability() -> None:
    loss = squared_error(torch.tensor([0.0, 100.0, -100.0]), torch.tensor([1.0, 1.0, 1.0]))
    assert_close(loss, torch.tensor([0.25, 0.0, 1.0]))
