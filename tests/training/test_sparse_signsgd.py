"""The puzzle embeddings' optimiser: the published rule, on the rows of the batch and on no other."""

import time

import pytest
import torch
from torch import Tensor, nn

from gram.training.optim import SparseSignSGD


def table(rows: int, dim: int = 3) -> nn.Embedding:
    torch.manual_seed(0)
    return nn.Embedding(rows, dim, sparse=True)


def use(embedding: nn.Embedding, ids: list[int], gradient: Tensor) -> None:
    """Give the uses of these ids this gradient [ids, dim]."""
    (embedding(torch.tensor(ids)) * gradient).sum().backward()


def test_the_rule_by_hand() -> None:
    embedding = table(4, dim=2)
    with torch.no_grad():
        embedding.weight.copy_(torch.tensor([[9.0, 9.0], [1.0, -2.0], [0.0, 4.0], [9.0, 9.0]]))
    # Row 1 is used twice: 3 - 5 = -2 and 1 + 1 = 2. Row 2's second gradient is zero: it only decays.
    use(embedding, [1, 2, 1], torch.tensor([[3.0, 1.0], [0.5, 0.0], [-5.0, 1.0]]))
    SparseSignSGD(embedding.parameters(), lr=0.1, weight_decay=0.5).step()
    expected = [[9, 9], [0.95 + 0.1, -1.9 - 0.1], [-0.1, 3.8], [9, 9]]
    torch.testing.assert_close(embedding.weight.detach(), torch.tensor(expected))


def test_it_agrees_with_the_dense_rule_over_many_steps() -> None:
    embedding = table(20)
    optimizer = SparseSignSGD(embedding.parameters(), lr=0.01, weight_decay=0.1)
    expected = embedding.weight.detach().clone()
    generator = torch.Generator().manual_seed(1)
    for _ in range(25):
        ids = torch.randint(0, 20, (8,), generator=generator)
        gradient = torch.randn(8, 3, generator=generator)
        summed = torch.zeros(20, 3).index_add_(0, ids, gradient)
        used = torch.zeros(20, dtype=torch.bool).index_fill_(0, ids, True)
        expected[used] = expected[used] * (1 - 0.01 * 0.1) - 0.01 * summed[used].sign()
        optimizer.zero_grad()
        use(embedding, ids.tolist(), gradient)
        optimizer.step()
    torch.testing.assert_close(embedding.weight.detach(), expected)


def test_untouched_rows_stay_bit_equal_and_touched_ones_move() -> None:
    embedding = table(1000)
    before = embedding.weight.detach().clone()
    use(embedding, [3, 500, 3], torch.ones(3, 3))
    SparseSignSGD(embedding.parameters(), lr=0.1, weight_decay=0.3).step()
    same = (embedding.weight.detach().view(torch.int32) == before.view(torch.int32)).all(dim=1)
    assert (~same).nonzero().flatten().tolist() == [3, 500]


def test_a_table_without_a_gradient_is_left_alone() -> None:
    used, idle = table(5), table(5)
    before = idle.weight.detach().clone()
    optimizer = SparseSignSGD([*used.parameters(), *idle.parameters()], lr=0.1)
    use(used, [0], torch.ones(1, 3))
    assert optimizer.step(lambda: 2.5) == 2.5
    assert torch.equal(idle.weight, before)
    assert not optimizer.state  # a million puzzles need no moments


def test_wrong_use_is_refused() -> None:
    dense = nn.Embedding(4, 2)
    optimizer = SparseSignSGD(dense.parameters(), lr=0.1)
    dense(torch.tensor([1])).sum().backward()
    with pytest.raises(ValueError, match="sparse=True"):
        optimizer.step()
    for wrong in ({"lr": -0.1}, {"weight_decay": -1.0}):
        with pytest.raises(ValueError, match="must not be negative"):
            SparseSignSGD(dense.parameters(), **wrong)


def test_the_time_of_an_update_does_not_grow_with_the_table() -> None:
    def seconds(rows: int) -> float:
        embedding = table(rows, dim=16)
        optimizer = SparseSignSGD(embedding.parameters(), lr=0.1)
        ids = torch.arange(0, rows, rows // 64)[:64].tolist()
        gradient = torch.ones(64, 16)
        times = []
        for _ in range(30):
            optimizer.zero_grad()
            started = time.perf_counter()
            use(embedding, ids, gradient)
            optimizer.step()
            times.append(time.perf_counter() - started)
        return min(times)  # the least disturbed one

    # A dense update of the larger table takes a thousand times as long.
    assert seconds(1_000_000) < 10 * seconds(1_000)
