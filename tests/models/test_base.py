"""The carry: who takes a new example, what goes with it, and that slots can be cut and put together."""

from collections.abc import Callable
from dataclasses import replace

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from gram.models.carry import Carry, Rows
from gram.models.reasoner import Reasoner

ModelBuilder = Callable[..., Reasoner]
CarryBuilder = Callable[..., Carry]


def offer(count: int, length: int, *, first: int = 0, lifetime: int = 3) -> Rows:
    """Examples that can be recognised: everything of slot i is i more than in the first slot."""
    number = first + torch.arange(count)
    tokens = number[:, None].expand(count, length)
    return Rows(tokens, -tokens, number, torch.full((count,), lifetime), number % 2, number + 500)


@settings(max_examples=25)
@given(mask=st.lists(st.booleans(), min_size=1, max_size=6), flat=st.booleans())
def test_finished_slots_take_the_offer_and_the_others_stay_as_they_are(
    tiny_model: ModelBuilder, tiny_carry: CarryBuilder, mask: list[bool], flat: bool
) -> None:
    model = tiny_model(state="flat" if flat else "hierarchical")
    finished, count = torch.tensor(mask), len(mask)
    before = replace(tiny_carry(model, count, steps=2), finished=finished)
    before = replace(before, state=model.step(before.state, model.encoder(before.rows.inputs), lambda _t: None).state)
    offered, initial = offer(count, model.length, first=100), model.initial_state(count)
    after = before.take(offered, initial)
    old, new = before.tensors(), after.tensors()
    expected = {
        **vars(offered),
        "steps": torch.zeros(count).long(),
        "memory": initial.h,
        "h": initial.h,
        "l": initial.l,
    }
    assert not new.pop("finished").any()
    for name, tensor in new.items():
        assert torch.equal(tensor[~finished], old[name][~finished]), name
        assert torch.equal(tensor[finished], expected[name][finished]), name
    assert ("l" in new) != flat


def test_a_slots_first_example_stays_for_a_random_part_of_its_lifetime(tiny_model: ModelBuilder) -> None:
    model, count = tiny_model(length=1), 3000
    carry = model.init_carry(count)
    assert bool(carry.finished.all())
    first = carry.take(offer(count, 1, lifetime=5), model.initial_state(count))
    shares = torch.bincount(first.rows.lifetime, minlength=6) / count
    assert shares[0] == 0
    assert float((shares[1:] - 0.2).abs().max()) < 4.5 * (0.2 * 0.8 / count) ** 0.5
    assert not first.steps.any()  # nobody pretends to have made steps
    # From the second example on, an example has its whole lifetime.
    ended = replace(first, steps=first.rows.lifetime, finished=torch.ones_like(first.finished))
    second = ended.take(offer(count, 1, first=count, lifetime=5), model.initial_state(count))
    assert bool((second.rows.lifetime == 5).all())


def test_an_update_sees_slots_at_all_steps_from_early_on(tiny_model: ModelBuilder) -> None:
    model, count = tiny_model(length=1, supervision_steps=4), 400
    carry = model.init_carry(count)
    for step in range(12):
        carry = carry.take(offer(count, 1, first=step * count, lifetime=4), model.initial_state(count))
        if step >= 4:
            assert bool((torch.bincount(carry.steps, minlength=4) > count / 8).all())
        carry = replace(carry, steps=carry.steps + 1, finished=carry.steps + 1 >= carry.rows.lifetime)


@pytest.mark.parametrize("puzzles", [0, 3])
def test_a_carry_is_its_tensors(tiny_model: ModelBuilder, puzzles: int) -> None:
    model = tiny_model(puzzles=puzzles, puzzle_tokens=1)
    carry = model.init_carry(5)
    tensors = carry.tensors()
    assert all(len(tensor) == 5 for tensor in tensors.values())
    assert ("puzzle_ids" in tensors) == bool(puzzles)
    again = Carry.of(tensors).tensors()
    assert again.keys() == tensors.keys()
    assert all(torch.equal(again[name], tensors[name]) for name in tensors)


def test_parts_of_a_carry_and_of_rows_are_those_slots(tiny_model: ModelBuilder, tiny_carry: CarryBuilder) -> None:
    carry = tiny_carry(tiny_model(), 6)
    for part in (slice(1, None, 3), slice(2, 4)):
        for name, tensor in carry.part(part).tensors().items():
            assert torch.equal(tensor, carry.tensors()[name][part])
        assert torch.equal(carry.rows.part(part).targets, carry.rows.targets[part])
