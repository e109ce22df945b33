"""The pool: every example under way has its turn once per round, and nothing is lost between visits."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from gram.config import Recipe
from gram.errors import GramError
from gram.models.reasoner import Reasoner
from gram.training.distributed import Team
from gram.training.pool import Pool, slot_tensors
from gram.training.slots import Slots

ModelBuilder = Callable[..., Reasoner]
SlotsBuilder = Callable[..., Slots]
RecipeBuilder = Callable[..., Recipe]


def pool_of(model: Reasoner, tiny_slots: SlotsBuilder, slots: int, layers: int, seed: int = 0) -> Pool:
    """Each example's number is its `index`: layer x slots + column."""
    made = [tiny_slots(model, slots, seed=layer) for layer in range(layers)]
    for layer, part in enumerate(made):
        part.index = layer * slots + torch.arange(slots)
    return Pool(made, Team(slots), seed)


@settings(max_examples=20)
@given(slots=st.integers(1, 5), layers=st.integers(1, 6), seed=st.integers(0, 5))
def test_every_example_has_its_turn_once_per_round(
    tiny_model: ModelBuilder, tiny_slots: SlotsBuilder, slots: int, layers: int, seed: int
) -> None:
    pool = pool_of(tiny_model(), tiny_slots, slots, layers, seed)
    for _round in range(3):
        seen = []
        for _turn in range(layers):
            batch = pool.take()
            assert (batch.index % slots).tolist() == list(range(slots))  # a column keeps its place, and so its role
            seen += batch.index.tolist()
            pool.put(batch)
        assert sorted(seen) == list(range(slots * layers))


def test_examples_meet_in_ever_new_company(tiny_model: ModelBuilder, tiny_slots: SlotsBuilder) -> None:
    pool = pool_of(tiny_model(), tiny_slots, 4, 8)
    batches = set()
    for _turn in range(16):
        batch = pool.take()
        batches.add(tuple(batch.index.tolist()))
        pool.put(batch)
    assert len(batches) > 12


def test_what_is_put_back_is_found_again_and_the_others_are_left(
    tiny_model: ModelBuilder, tiny_slots: SlotsBuilder
) -> None:
    pool = pool_of(tiny_model(), tiny_slots, 3, 4)
    before = {name: part.clone() for name, part in pool.tensors.items()}
    batch = pool.take()
    layer = batch.index // 3
    for name, part in slot_tensors(batch).items():
        part += 1
        assert torch.equal(pool.tensors[name], before[name])  # a copy
    pool.put(batch)
    columns = torch.arange(3)
    for name, part in pool.tensors.items():
        expected = before[name].clone()
        expected[columns, layer] += 1
        assert torch.equal(part, expected), name


@pytest.mark.parametrize(
    ("changes", "complaint"),
    [
        ({"train": {"pool": 12}}, "multiple of slots"),
        ({"train": {"pool": 16}, "model": {"supervision": "final"}}, "train.pool is for deep supervision"),
    ],
)
def test_a_pool_that_would_do_nothing_is_refused(
    queens_recipe: RecipeBuilder, changes: dict[str, Any], complaint: str
) -> None:
    with pytest.raises(GramError, match=complaint):
        queens_recipe(**changes)
