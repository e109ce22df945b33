"""The networks of a transition: groups of rows without a gradient, and which applications the gradient reaches."""

import pytest
import torch
from torch import Tensor
from torch.testing import assert_close

from gram.config import ModelConfig
from gram.models.core import CACHED_NUMBERS, Network, cores, row_groups
from gram.models.layers import Block


@pytest.mark.parametrize(("rows", "share", "sizes"), [(7, 3, [3, 3, 1]), (3, 3, [3]), (2, 0.5, [1, 1]), (0, 3, [])])
def test_row_groups_hold_what_the_cache_does_and_at_least_one_row(rows: int, share: float, sizes: list[int]) -> None:
    x = torch.zeros(rows, 2)
    groups = row_groups(x, int(CACHED_NUMBERS / share))
    assert [len(x[group]) for group in groups] == sizes
    assert torch.equal(torch.cat([x[group] for group in groups] or [x]), x)
    assert len(row_groups(torch.zeros(7, 2, device="meta"), CACHED_NUMBERS)) == 1


def test_a_network_is_its_blocks_whether_or_not_its_rows_are_grouped() -> None:
    torch.manual_seed(0)
    block = Block(ModelConfig(dim=8, channel_hidden=7, token_hidden=6), 5).double()
    x = torch.randn(7, 5, 8, dtype=torch.float64)
    expected = block(block(x))
    network = Network([block, block], largest_row=CACHED_NUMBERS // 3)
    sizes: list[int] = []
    block.register_forward_pre_hook(lambda _, arguments: sizes.append(len(arguments[0])))
    assert_close(network(x), expected)
    assert sizes == [7, 7]  # with a gradient every result is kept anyway
    with torch.no_grad():
        assert_close(network(x), expected)
    assert sizes[2:] == [3, 3, 3, 3, 1, 1]


@pytest.mark.parametrize(
    ("gradient", "reached"),
    [("transition", "--- xxx"), ("call", "--- -xx"), ("step", "xxx xxx")],
)
@pytest.mark.parametrize("enabled", [True, False])
def test_the_gradient_reaches_the_applications_of_its_span(gradient: str, reached: str, enabled: bool) -> None:
    found = []

    class Watched(Network):
        def forward(self, x: Tensor, rope: object = None) -> Tensor:
            found.append("x" if torch.is_grad_enabled() else "-")
            return x

    network, x = Watched([]), torch.zeros(1)
    with torch.set_grad_enabled(enabled):
        for core in cores(network, network, None, low_steps=2, transitions=2, gradient=gradient):  # type: ignore[arg-type]
            for f_low in core.low:
                f_low(x)
            core.high(x)
            assert core.tracked == (found[-1] == "x")
    expected = reached.replace(" ", "")
    assert "".join(found) == (expected if enabled else "-" * len(expected))
