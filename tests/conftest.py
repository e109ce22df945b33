"""Tiny models and what to feed them. The builders are session fixtures so that property tests may use them too."""

import os
import re
from collections.abc import Callable
from pathlib import Path

# Before torch is imported, and for child processes too: at these sizes several threads only wait for each other.
os.environ["OMP_NUM_THREADS"] = "1"

import pytest
import torch
import yaml
from hypothesis import settings
from torch import Tensor

from gram.config import ModelConfig, Recipe, parse_recipe
from gram.models.carry import Carry, Rows
from gram.models.reasoner import Reasoner
from gram.tasks.base import IGNORE
from gram.tasks.nqueens import NQueens

# No deadline: the machine may be busy. Derandomised: the same code gives the same verdict.
settings.register_profile("gram", deadline=None, derandomize=True)
settings.load_profile("gram")

TINY = {
    "dim": 8,
    "heads": 2,
    "layers": 1,
    "channel_hidden": 12,
    "token_hidden": 10,
    "guidance_hidden": 8,
    "low_steps": 2,
    "transitions": 2,
    "supervision_steps": 3,
}

ModelBuilder = Callable[..., Reasoner]
CarryBuilder = Callable[..., Carry]


@pytest.fixture(scope="session")
def tiny_config() -> Callable[..., ModelConfig]:
    """tiny_config(guidance="none", ...): a model of a few hundred parameters."""
    return lambda **changes: ModelConfig(**{**TINY, **changes})


@pytest.fixture(scope="session")
def tiny_model(tiny_config: Callable[..., ModelConfig]) -> ModelBuilder:
    """tiny_model(seed=0, vocab_size=5, length=6, **config): its halt and value heads are drawn at random, not zero."""

    def build(*, seed: int = 0, vocab_size: int = 5, length: int = 6, **changes: object) -> Reasoner:
        torch.manual_seed(seed)
        model = Reasoner(tiny_config(**changes), vocab_size=vocab_size, length=length)
        # As created these heads ignore the state, and a test of them would see nothing.
        for head in (model.decoder.halt, model.decoder.value):
            torch.nn.init.normal_(head.weight)
            torch.nn.init.normal_(head.bias)
        return model

    return build


@pytest.fixture(scope="session")
def tiny_carry() -> CarryBuilder:
    """tiny_carry(model, 4): random examples, a quarter of the labels missing, every slot at z_0 with old memory.

    steps, min_steps and lifetime may be numbers, or tensors [slots].
    """

    def build(
        model: Reasoner,
        count: int,
        *,
        seed: int = 0,
        steps: int | Tensor = 0,
        min_steps: int | Tensor = 0,
        lifetime: int | Tensor | None = None,
    ) -> Carry:
        generator = torch.Generator().manual_seed(seed)
        shape = (count, model.length)
        inputs = torch.randint(model.vocab_size, shape, generator=generator)
        targets = torch.randint(model.vocab_size, shape, generator=generator)
        targets[torch.rand(shape, generator=generator) < 0.25] = IGNORE
        state = model.initial_state(count)
        memory = torch.randn(state.h.shape, generator=generator)
        index = torch.arange(count)
        zeros = torch.zeros_like(index)
        lifetime = zeros + (model.steps_per_example if lifetime is None else lifetime)
        rows = Rows(inputs, targets, 1000 * seed + index, lifetime, zeros + min_steps, index)
        return Carry(rows, zeros + steps, torch.zeros(count, dtype=torch.bool), state, memory)

    return build


@pytest.fixture(scope="session")
def latin_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the data and the plugin of the example in docs/bring-your-own.md, made by its own code."""
    text = (Path(__file__).parents[1] / "docs" / "bring-your-own.md").read_text()
    writer, plugin = re.findall(r"```python\n(.*?)```", text, flags=re.DOTALL)
    folder = tmp_path_factory.mktemp("latin")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        exec(writer, {})
    (folder / "latin.py").write_text(plugin)
    return folder


@pytest.fixture(scope="session")
def queens() -> NQueens:
    """The five-queens task: 10 solutions, inputs with one to three of them."""
    return NQueens(size=5)


@pytest.fixture(scope="session")
def queens_recipe() -> Callable[..., Recipe]:
    """queens_recipe(train={"steps": 3}, ...): five queens and a tiny model; sections are merged with these."""
    sections = {
        "task": {"name": "nqueens", "options": {"size": 5}},
        "model": {**TINY, "dim": 16, "supervision_steps": 2},
        "objective": {},
        "train": {"steps": 4, "slots": 8, "log_every": 2, "eval_every": 4, "eval_inputs": 4, "eval_width": 2},
        "eval": {"depth": 2, "width": 3},
    }

    def build(**changes: dict[str, object]) -> Recipe:
        merged = {name: {**content, **changes.get(name, {})} for name, content in sections.items()}
        return parse_recipe(merged, source="the test")

    return build


@pytest.fixture
def queens_file(queens_recipe: Callable[..., Recipe], tmp_path: Path) -> Path:
    """The recipe of `queens_recipe` as a file."""
    path = tmp_path / "recipe.yaml"
    content = queens_recipe().model_dump(mode="json")
    del content["model"]["heads"]  # which do nothing without attention
    path.write_text(yaml.safe_dump(content))
    return path


@pytest.fixture(scope="session")
def queens_model(queens: NQueens, tiny_model: ModelBuilder) -> ModelBuilder:
    """queens_model(**config): a tiny random model of the five-queens task."""
    return lambda **changes: tiny_model(vocab_size=queens.vocab_size, length=queens.length, **changes)
