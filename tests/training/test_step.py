"""One update: its micro-batches add up to the whole batch, whatever their number."""

import inspect
import re
from collections.abc import Callable
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.testing import assert_close

import gram
from gram.config import Recipe
from gram.models.base import StepResult
from gram.models.core import Network
from gram.tasks.nqueens import NQueens
from gram.training.distributed import SlotSharding
from gram.training.launch import make_fabric
from gram.training.step import CPU_MICRO_BATCH, Trainer, default_micro_batch, micro_batches

RecipeBuilder = Callable[..., Recipe]


@given(slots=st.integers(1, 60), rollouts=st.integers(0, 60), rows=st.integers(0, 70))
def test_micro_batches_are_equal_parts_of_the_slots_and_of_the_rollouts(slots: int, rollouts: int, rows: int) -> None:
    rollouts = min(rollouts, slots)
    parts = [list(range(slots))[part] for part in micro_batches(SlotSharding(slots, rollouts), rows)]
    assert sorted(slot for part in parts for slot in part) == list(range(slots))
    assert len({len(part) for part in parts}) == 1
    shares = {sum(slot < rollouts for slot in part) for part in parts}
    assert len(shares) == 1
    # The rollouts of a part come first, as those of the batch do.
    (share,) = shares
    assert all(slot < rollouts for part in parts for slot in part[:share])
    even = [n for n in range(1, slots + 1) if slots % n == rollouts % n == 0]
    small = [n for n in even if rows == 0 or slots // n <= rows]
    assert len(parts) == (small[0] if small else even[-1])  # no more than are needed, or as many as there can be


def test_the_number_of_micro_batches() -> None:
    def count(slots: int, rollouts: int, rows: int) -> int:
        return len(micro_batches(SlotSharding(slots, rollouts), rows))

    assert count(64, 32, 32) == 2
    assert count(64, 8, 10) == 8
    assert count(64, 0, 0) == 1  # no limit
    assert count(64, 3, 32) == 1  # rollouts cannot be shared evenly: all at once instead of an uneven mean
    assert count(64, 8, 4) == 8  # nor can these by 16: eight slots at a time are as near as it comes
    assert count(7, 0, 3) == 7
    assert default_micro_batch(torch.device("cpu")) == CPU_MICRO_BATCH
    assert default_micro_batch(torch.device("cuda")) == 0


KINDS: dict[str, dict[str, dict[str, object]]] = {
    "GRAM": {"objective": {"prior_share": 0.5}},
    "GRAM that learns from its rollouts": {"objective": {"prior_share": 0.5, "learn_from_rollouts": True}},
    "TRM": {
        "model": {"guidance": "none"},
        "objective": {"heads_reach_core": True},
        "train": {"halt_in_training": True},
    },
    "HRM": {
        "model": {"guidance": "none", "halting": "q_learning", "gradient": "call"},
        "objective": {"heads_reach_core": True},
        "train": {"halt_in_training": True},
    },
    "with a pool": {"objective": {"prior_share": 0.25}, "train": {"pool": 16, "release": 0.5}},
}


def trainer_of(queens_recipe: RecipeBuilder, queens: NQueens, kind: str, rows: int) -> Trainer:
    sections = KINDS[kind]
    train = {"slots": 8, "micro_batch": rows, "threads": 1, "warmup": 1, **sections.get("train", {})}
    recipe = queens_recipe(**{**sections, "train": train})
    trainer = Trainer(recipe, queens, queens.split("train"), make_fabric("cpu", "32-true"))
    for head in (trainer.model.decoder.halt, trainer.model.decoder.value):  # as created they ignore the state
        generator = torch.Generator().manual_seed(0)
        for parameter in (head.weight, head.bias):
            torch.nn.init.normal_(parameter, generator=generator)
    return trainer


def parts_of(trainer: Trainer, result: StepResult) -> list[Any]:
    gradients = {name: p.grad for name, p in trainer.model.named_parameters() if p.grad is not None}
    return [gradients, result.carry.tensors(), result.outputs]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("rows", [1, 2, 4])
def test_micro_batches_add_up_to_the_whole_batch(
    queens_recipe: RecipeBuilder, queens: NQueens, kind: str, rows: int
) -> None:
    whole, cut = (trainer_of(queens_recipe, queens, kind, size) for size in (8, rows))
    assert len(whole.micro_batches) == 1
    assert len(cut.micro_batches) > 1
    ended = 0
    for _ in range(3):  # so that trajectories end, and examples come anew, on the way
        results = []
        for trainer in (whole, cut):
            trainer.step_number += 1
            results.append(trainer.forward_backward())
        assert_close(parts_of(whole, results[0]), parts_of(cut, results[1]), rtol=1e-4, atol=1e-5)
        for name in ("loss", "reconstruction", "halt"):
            assert_close(results[0].metrics[name], results[1].metrics[name], rtol=1e-4, atol=1e-5)
        ended += int(results[0].carry.finished.sum())
        for trainer, result in zip((whole, cut), results, strict=True):
            trainer.apply()
            trainer.pool.put(result.carry)
    assert ended > 0


def test_a_step_that_is_not_finite_leaves_everything_as_it_was(queens_recipe: RecipeBuilder, queens: NQueens) -> None:
    trainer = trainer_of(queens_recipe, queens, "GRAM", 8)
    trainer.step()
    with torch.no_grad():
        trainer.model.decoder.lm.weight[0, 0] = float("nan")
    trainer.pool.tensors["finished"].fill_(True)  # new examples are dealt in the step that fails
    tensors, other = trainer.state()
    tensors, other = {name: tensor.clone() for name, tensor in tensors.items()}, deepcopy(other)
    metrics = trainer.step()
    assert not torch.as_tensor(metrics["gradient_norm"]).isfinite()
    after, now = trainer.state()
    assert now == other | {"step": other["step"] + 1}  # the examples of the deal too can be dealt again
    for name, tensor in tensors.items():
        assert torch.equal(after[name].nan_to_num(), tensor.nan_to_num()), name


def test_the_trainer_reaches_the_network_in_the_calls_that_the_docs_list(
    queens_recipe: RecipeBuilder, queens: NQueens, monkeypatch: pytest.MonkeyPatch
) -> None:
    stacks: list[list[str]] = []

    def record(network: Network, x: torch.Tensor, rope: object = None) -> torch.Tensor:
        if torch.is_grad_enabled():
            frames = [frame for frame in inspect.stack() if package in Path(frame.filename).parents]
            stacks.append([frame.frame.f_code.co_qualname for frame in frames][::-1])
        return plain(network, x)

    plain, package = Network.forward, Path(gram.__file__).parent
    monkeypatch.setattr(Network, "forward", record)
    trainer_of(queens_recipe, queens, "GRAM", 8).step()
    docs = (Path(__file__).parents[2] / "docs" / "how-it-works.md").read_text()
    listed = re.findall(r"^\| `(\w+\.\w+)` \|", docs[docs.index("in six calls") :], re.MULTILINE)
    assert len(listed) == 6
    assert stacks
    assert all([*stack, "Network.forward"] == ["Trainer.step", "Trainer.forward_backward", *listed] for stack in stacks)
