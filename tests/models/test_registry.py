"""Models by name, and a model class of somebody else's package by its entry point."""

import importlib.metadata
import sys
import types
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, Literal, Self

import numpy as np
import pytest
import torch
from rich.console import Console
from torch import Tensor, nn

from gram.config import MODEL_KINDS, Recipe, SampleOptions, Section, parse_recipe
from gram.errors import GramError
from gram.models.base import Job, Model, StepContext, StepResult, Steps
from gram.models.carry import Carry, Rows
from gram.models.reasoner import Reasoner
from gram.models.registry import MODELS, as_reasoner, build_model, model_class
from gram.solver import load
from gram.tasks.base import Structure, Tokens
from gram.training.loop import train


class EchoConfig(Section):
    """Settings of a model of one's own."""

    kind: Literal["echo"] = "echo"
    gain: float = 1.0


class Echo(Model):
    """Answers every position by its own table of logits, whatever is asked."""

    settings = EchoConfig
    supported = frozenset({"width", "seed"})
    likelihood_meaning = (True, "independent tokens")

    def __init__(self, config: EchoConfig, *, vocab_size: int, length: int) -> None:
        super().__init__(config, vocab_size=vocab_size, length=length)
        self.logits = nn.Parameter(torch.zeros(length, vocab_size))

    @classmethod
    def build(cls, config: Section, objective: Section, *, vocab_size: int, length: int, structure: Structure) -> Self:
        return cls(config, vocab_size=vocab_size, length=length)

    def training_step(self, rows: Rows, carry: Carry, context: StepContext) -> StepResult:
        carry = carry.take(rows)
        loss = -self.log_likelihood(carry.rows.inputs, carry.rows.targets).mean()
        carry = Carry(carry.rows, carry.steps + 1, torch.ones_like(carry.finished))
        return StepResult(loss, carry, carry.rows.targets, {"loss": loss.detach(), "nats": loss.detach()})

    def roll_out(
        self,
        inputs: Tokens,
        jobs: Iterable[Job],
        options: SampleOptions,
        *,
        puzzle_ids: Tokens | None = None,
        chunk: int | None = None,
    ) -> Iterator[Steps]:
        puzzle, trajectory = np.array(list(jobs)).T
        ones, zeros = np.ones(len(puzzle), dtype=np.int64), np.zeros(len(puzzle), dtype=np.float32)
        outputs = self.logits.argmax(dim=-1).numpy()[None].repeat(len(puzzle), axis=0)
        yield Steps(puzzle, trajectory, ones, outputs, zeros, zeros, ones > 0, ones < 0, None)

    def log_likelihood(
        self, inputs: Tensor, targets: Tensor, *, puzzle_ids: Tensor | None = None, seed: int = 0
    ) -> Tensor:
        chosen = (self.config.gain * self.logits).log_softmax(dim=-1).expand(len(targets), -1, -1)
        return chosen.gather(-1, targets[..., None]).sum(dim=(1, 2))


@pytest.fixture
def installed(monkeypatch: pytest.MonkeyPatch) -> None:
    """A package that offers `Echo` under the group `gram.models`."""
    module = types.ModuleType("their_package")
    module.Echo = Echo  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "their_package", module)
    points = importlib.metadata.EntryPoints(
        [importlib.metadata.EntryPoint("echo", "their_package:Echo", "gram.models")]
    )

    def found(**wanted: Any) -> importlib.metadata.EntryPoints:
        return points.select(**wanted)

    monkeypatch.setattr("gram.config.recipe.entry_points", found)


def test_every_kind_has_settings_that_name_it() -> None:
    assert MODELS.keys() == MODEL_KINDS.keys()
    for kind, found in MODELS.items():
        assert found.settings.model_fields["kind"].default == kind
        assert model_class(kind) is found


@pytest.mark.usefixtures("installed")
def test_a_model_of_ones_own_is_built_by_its_kind() -> None:
    recipe = parse_recipe({"model": {"kind": "echo", "gain": 2.0}}, source="the test")
    assert recipe.model == EchoConfig(gain=2.0)
    assert Recipe.model_validate(recipe.model_dump(mode="json")) == recipe
    model = build_model(recipe, vocab_size=3, length=4)
    assert isinstance(model, Echo)
    (steps, outputs), *others = model.process(torch.zeros(2, 4, dtype=torch.long)).items()
    assert not others  # the last outputs alone
    assert (steps, outputs.tolist()) == (1, [[0] * 4] * 2)
    with pytest.raises(GramError, match=r"unknown key 'model\.gian'"):
        parse_recipe({"model": {"kind": "echo", "gian": 2.0}}, source="the test")


def test_only_a_reasoner_is_taken_for_one(tiny_model: Callable[..., Reasoner]) -> None:
    model = tiny_model()
    assert as_reasoner(model, "no") is model
    with pytest.raises(GramError, match="a recursive model is needed"):
        as_reasoner(Echo(EchoConfig(), vocab_size=3, length=4), "a recursive model is needed")


@pytest.mark.usefixtures("installed")
def test_a_model_of_ones_own_is_trained_evaluated_and_loaded(queens_recipe: Any, tmp_path: Path) -> None:
    base = queens_recipe(train={"steps": 20, "lr": 0.1, "warmup": 0}).model_dump(mode="json")
    recipe = parse_recipe({**base, "model": {"kind": "echo"}}, source="the test")
    result = train(recipe, tmp_path / "run", Console(quiet=True))
    assert 0 <= result["accuracy"] <= 1
    solver = load(tmp_path / "run")
    assert isinstance(solver.model, Echo)
    assert bool(solver.model.logits.abs().sum() > 0)
    assert solver.solve("Q..../...../...../...../.....", width=2).trajectories.outputs.shape == (1, 2, 25)
    with pytest.raises(GramError, match="'temperature' is not supported"):
        solver.with_options(temperature=0.5)


def test_an_unknown_kind_is_named_with_those_that_there_are() -> None:
    with pytest.raises(GramError, match="no model of kind 'eco'; the kinds are reasoner, ar, mdlm, d3pm, vae"):
        parse_recipe({"model": {"kind": "eco"}}, source="the test")
