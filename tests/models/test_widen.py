"""A wider network that starts from a narrower one computes the same, and can be trained on from there."""

import io
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from rich.console import Console

from gram.config import ModelConfig, Recipe
from gram.models.reasoner import Reasoner
from gram.models.widen import can_widen, widen
from gram.solver import load
from gram.tasks.base import Structure
from gram.tasks.sudoku.generated import SudokuHard
from gram.training import train

ConfigBuilder = Callable[..., ModelConfig]
RecipeBuilder = Callable[..., Recipe]
BUILT_IN = {"mixing": "constraints", "positions": "none", "guidance": "fixed"}
TASK = SudokuHard(size=4)


def build(config: ConfigBuilder, structure: Structure, **changes: object) -> Reasoner:
    settings = config(**BUILT_IN, symbols=True, **changes)
    return Reasoner(settings, vocab_size=TASK.vocab_size, length=TASK.length, structure=structure).double()


def without_board() -> Structure:
    kinds = {name: kind for name, kind in TASK.structure.constraints.items() if name != "board"}
    return Structure(kinds, TASK.structure.symbols)


@pytest.mark.parametrize(("dim", "hidden"), [(8, 16), (16, 16), (24, 40)])
def test_a_wider_network_computes_the_same(tiny_config: ConfigBuilder, dim: int, hidden: int) -> None:
    narrow = build(tiny_config, without_board(), dim=8, channel_hidden=16)
    torch.nn.init.normal_(narrow.decoder.halt.weight)
    wide = build(tiny_config, TASK.structure, dim=dim, channel_hidden=hidden)
    assert can_widen(narrow, wide)
    widen(narrow, wide)
    inputs = torch.from_numpy(TASK.split("test").inputs[:3])
    states = [
        model.step(model.initial_state(3), model.encoder(inputs), lambda _: None).state for model in (narrow, wide)
    ]
    old, new = (model.decoder.logits(state.h) for model, state in zip((narrow, wide), states, strict=True))
    torch.testing.assert_close(new, old)
    old, new = (model.decoder.readout(state.h).q_halt for model, state in zip((narrow, wide), states, strict=True))
    torch.testing.assert_close(new, old)


def test_the_copies_of_a_channel_can_grow_apart(tiny_config: ConfigBuilder) -> None:
    narrow = build(tiny_config, TASK.structure, dim=8, channel_hidden=16)
    wide = build(tiny_config, TASK.structure, dim=16, channel_hidden=16)
    widen(narrow, wide)
    first, second = wide.low.blocks[0].gate_up.weight.chunk(2, dim=1)  # type: ignore[union-attr, operator]
    assert bool((first != second).all())


@pytest.mark.parametrize(
    "changes",
    [{"dim": 12}, {"dim": 16, "channel_hidden": 8}, {"dim": 16, "low_steps": 5}, {"layers": 3, "dim": 16}, {}],
)
def test_other_networks_cannot_be_widened(tiny_config: ConfigBuilder, changes: dict[str, int]) -> None:
    narrow = build(tiny_config, TASK.structure, dim=8, channel_hidden=16)
    other = build(tiny_config, TASK.structure, **{"dim": 8, "channel_hidden": 16, **changes})
    assert not can_widen(narrow, other)


def test_a_training_starts_from_a_narrower_model(queens_recipe: RecipeBuilder, tmp_path: Path) -> None:
    train(queens_recipe(model={**BUILT_IN, "dim": 8}), tmp_path / "narrow", Console(file=io.StringIO()))
    recipe = queens_recipe(model={**BUILT_IN, "dim": 16}, train={"lr": 1e-9})
    train(recipe, tmp_path / "wide", Console(file=io.StringIO()), start=tmp_path / "narrow")
    narrow, wide = load(tmp_path / "narrow"), load(tmp_path / "wide")
    inputs = narrow.task.split("test").inputs[0]
    answers = [solver.solve(inputs, width=1, temperature=0).best for solver in (narrow, wide)]
    assert (answers[0] == answers[1]).all()
