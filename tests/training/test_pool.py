"""The pool: every example under way has its turn once per round, and nothing is lost between visits."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from gram.config import Recipe
from gram.errors import GramError
from gram.models.carry import Carry
from gram.models.reasoner import Reasoner
from gram.training.distributed import SlotSharding
from gram.training.pool import Pool

ModelBuilder = Callable[..., Reasoner]
CarryBuilder = Callable[..., Carry]
RecipeBuilder = Callable[..., Recipe]


def pool_of(model: Reasoner, tiny_carry: CarryBuilder, slots: int, layers: int, seed: int = 0) -> Pool:
    """Each example's number is its `index`: layer x slots + column."""
    pool = Pool(tiny_carry(model, slots), layers, SlotSharding(slots), seed)
    for layer in range(layers):
        for name, part in tiny_carry(model, slots, seed=layer).tensors().items():
            pool.tensors[name][:, layer] = part
        pool.tensors["index"][:, layer] = layer * slots + torch.arange(slots)
    return pool


@settings(max_examples=20)
@given(slots=st.integers(1, 5), layers=st.integers(1, 6), seed=st.integers(0, 5))
def test_every_example_has_its_turn_once_per_round(
    tiny_model: ModelBuilder, tiny_carry: CarryBuilder, slots: int, layers: int, seed: int
) -> None:
    pool = pool_of(tiny_model(), tiny_carry, slots, layers, seed)
    for _round in range(3):
        seen = []
        for _turn in range(layers):
            batch = pool.take()
            assert (batch.rows.index % slots).tolist() == list(
                range(slots)
            )  # a column keeps its place, and so its role
            seen += batch.rows.index.tolist()
            pool.put(batch)
        assert sorted(seen) == list(range(slots * layers))


def test_examples_meet_in_ever_new_company(tiny_model: ModelBuilder, tiny_carry: CarryBuilder) -> None:
    pool = pool_of(tiny_model(), tiny_carry, 4, 8)
    batches = set()
    for _turn in range(16):
        batch = pool.take()
        batches.add(tuple(batch.rows.index.tolist()))
        pool.put(batch)
    assert len(batches) > 12


def test_what_is_put_back_is_found_again_and_the_others_are_left(
    tiny_model: ModelBuilder, tiny_carry: CarryBuilder
) -> None:
    pool = pool_of(tiny_model(), tiny_carry, 3, 4)
    before = {name: part.clone() for name, part in pool.tensors.items()}
    batch = pool.take()
    layer = batch.rows.index // 3
    changed = batch.tensors()
    for name, part in changed.items():
        part.copy_(~part if part.dtype == torch.bool else part + 1)
        assert torch.equal(pool.tensors[name], before[name])  # a copy
    pool.put(batch)
    columns = torch.arange(3)
    for name, part in pool.tensors.items():
        expected = before[name].clone()
        expected[columns, layer] = changed[name]
        assert torch.equal(part, expected), name


@pytest.mark.parametrize(
    ("changes", "complaint"),
    [
        ({"train": {"pool": 12}}, "multiple of slots"),
        ({"train": {"pool": 16}, "model": {"supervision": "final"}}, "train.pool needs deep supervision"),
    ],
)
def test_a_pool_that_would_do_nothing_is_refused(
    queens_recipe: RecipeBuilder, changes: dict[str, Any], complaint: str
) -> None:
    with pytest.raises(GramError, match=complaint):
        queens_recipe(**changes)
