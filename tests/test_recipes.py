"""Every recipe loads, says what it is, and trains; and the variants are what their names promise."""

import re
from itertools import combinations
from pathlib import Path

import pytest
import torch
from omegaconf import OmegaConf

from gram.config import RECIPES as FOLDER
from gram.config import ModelConfig, Recipe, load_recipe, parse_recipe
from gram.models.base import Model
from gram.models.registry import build_model
from gram.tasks import make_task
from gram.training.fit import resolve_recipe
from gram.training.launch import make_fabric
from gram.training.step import Trainer

BASES = sorted(path for folder in ("paper", "cpu") for path in (FOLDER / folder).glob("*.yaml"))
"""parts that recipes share, not runs"""
RECIPES = sorted(set(FOLDER.rglob("*.yaml")) - set(BASES))
NQUEENS_8 = [path for path in RECIPES if path.parent.name == "nqueens-8" and load_recipe(path).model.kind == "reasoner"]
"""variants of the reasoner"""

TINY = [
    "task.options.size=4",
    "model.dim=16",
    "model.heads=2",
    "model.channel_hidden=16",
    "model.token_hidden=16",
    "model.guidance_hidden=16",
    "train.slots=8",
    "train.steps=2",
]


@pytest.fixture(autouse=True)
def _beside_the_documentations_data(latin_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """recipes/tokens reads the file that docs/bring-your-own.md writes."""
    monkeypatch.chdir(latin_folder)


def name_of(path: Path) -> str:
    return path.relative_to(FOLDER).with_suffix("").as_posix()


def full_size_model(recipe: Recipe) -> Model:
    task = make_task(recipe.task.name, **recipe.task.options)
    with torch.device("meta"):  # shapes without memory: the paper's sizes build at once
        return build_model(recipe, vocab_size=task.vocab_size, length=task.length, structure=task.structure)


def calls_per_example(model: ModelConfig) -> int:
    """How often a network runs over one example that makes all its supervision steps."""
    per_transition = model.low_steps + (model.state == "hierarchical")
    return per_transition * model.transitions * model.supervision_steps


def tiny_version(path: Path) -> Recipe:
    """The same variant, small enough for two updates in a blink."""
    model = load_recipe(path).model
    steps = f"model.supervision_steps={min(2, model.supervision_steps)}"
    # Many layers are the point of some baselines, and cheap at this width; elsewhere one will do.
    layers = f"model.layers={model.layers if model.layers > 2 else 1}"
    # Not as overrides: a size of parts that a variant does not have would be refused.
    content = OmegaConf.merge(load_recipe(path).model_dump(mode="json"), OmegaConf.from_dotlist([*TINY, steps, layers]))
    return parse_recipe(OmegaConf.to_container(content), source=str(path))


class TinyRun:
    """Two updates of a recipe, and what the gradient touched on the way.

    Two, because the auxiliary heads start at zero: what stands before them has no gradient until they have moved.
    """

    def __init__(self, recipe: Recipe) -> None:
        task = make_task(recipe.task.name, **recipe.task.options)
        trainer = Trainer(recipe, task, task.split("train"), make_fabric("cpu", "32-true"))
        self.model = trainer.model
        self.reached: set[str] = set()
        """names of the parameters that had a gradient in either update"""
        self.tracked_calls = 0
        """network calls that the gradient ran through, in both updates together"""
        for network in (self.model.low, self.model.high):
            if network is not None:
                network.register_forward_hook(self._count)
        for _ in range(recipe.train.steps):
            trainer.step_number += 1
            result = trainer.forward_backward()
            assert result.loss.isfinite()
            self._note_gradients()
            trainer.apply()
            trainer.pool.put(result.carry)

    def _count(self, *_: object) -> None:
        self.tracked_calls += torch.is_grad_enabled()

    def _note_gradients(self) -> None:
        for name, parameter in self.model.named_parameters():
            if parameter.grad is not None and parameter.grad.any():
                assert parameter.grad.isfinite().all(), name
                self.reached.add(name)


@pytest.mark.parametrize("path", RECIPES, ids=name_of)
def test_loads_and_opens_with_its_command_and_its_results(path: Path) -> None:
    load_recipe(path)
    head = []
    for line in path.read_text().splitlines():
        if not line.startswith("#"):
            break
        assert len(line) <= 120
        head.append(line)
    text = "\n".join(head)
    assert f"gram train {name_of(path)}\n" in text, "the first comment must give the recipe's own command"
    assert len(re.findall(r"^# Results: .+\.$", text, flags=re.MULTILINE)) == 1, "`gram reproduce --write` fills it in"
    assert "minutes" not in text, "numbers belong into result files"


@pytest.mark.parametrize("path", RECIPES, ids=name_of)
def test_builds_at_full_size_and_is_evaluated_like_the_others(path: Path) -> None:
    recipe = load_recipe(path)
    model = full_size_model(recipe)
    if make_task(recipe.task.name, **recipe.task.options).scoring == "solutions":
        assert recipe.eval.width == 20  # coverage means the same for every model
    if not isinstance(recipe.model, ModelConfig):
        assert not model.recursive
        return
    unguided = recipe.model.guidance in ("none", "fixed")
    assert model.guidance.learned != unguided
    if not path.stem.endswith("paper"):  # the paper knows no slots that roll out by themselves
        assert (recipe.objective.prior_share == 0) == unguided
    if recipe.model.supervision == "final":
        assert recipe.eval.depth == recipe.model.supervision_steps  # decoded where it was trained to be


SMALL = [path for path in RECIPES if path not in NQUEENS_8 and not path.stem.endswith(("paper", "-big", "-small"))]
"""recipes of our size, in other folders or of other kinds"""


@pytest.mark.parametrize("path", SMALL, ids=name_of)
def test_two_updates_of_every_recipe_of_our_size(path: Path) -> None:
    recipe = load_recipe(path)
    if recipe.task.name in ("sudoku-extreme", "mnist"):  # their data may have to be downloaded: the same shapes do
        stand_in = {"sudoku-extreme": ("sudoku", {"size": 9, "train_puzzles": 20}), "mnist": ("digits", {})}
        name, options = stand_in[recipe.task.name]
        update = {"task": recipe.task.model_copy(update={"name": name, "options": options})}
        if name == "digits" and getattr(recipe.model, "image", None) is not None:
            update["model"] = recipe.model.model_copy(update={"image": (8, 8)})
        recipe = recipe.model_copy(update=update)
    recipe = recipe.model_copy(update={"train": recipe.train.model_copy(update={"slots": 4, "pool": 0, "steps": 2})})
    task = make_task(recipe.task.name, **recipe.task.options)
    trainer = Trainer(resolve_recipe(recipe, task), task, task.split("train"), make_fabric("cpu", "32-true"))
    for _ in range(2):
        assert torch.as_tensor(trainer.step()["loss"]).isfinite()


@pytest.mark.parametrize(
    "path", [path for path in RECIPES if not path.stem.endswith(("paper", "-big", "-small"))], ids=name_of
)
def test_recipes_of_our_size_have_less_than_a_million_parameters(path: Path) -> None:
    assert sum(parameter.numel() for parameter in full_size_model(load_recipe(path)).parameters()) < 1_000_000


@pytest.mark.parametrize("path", NQUEENS_8, ids=name_of)
def test_the_gradient_reaches_what_the_variant_uses(path: Path) -> None:
    recipe = tiny_version(path)
    run = TinyRun(recipe)
    # An ablation keeps all four guidance heads, so that models compare at equal size, and leaves two of them unused.
    unused = {"stochasticity_only": ".mean.", "guide_only": ".log_sigma."}.get(recipe.model.guidance)
    names = {name for name, _ in run.model.named_parameters()}
    assert run.reached == {name for name in names if not (unused and name.startswith("guidance.") and unused in name)}

    model = recipe.model
    per_update = {
        "call": 2,  # the last f_L and the last f_H
        "transition": calls_per_example(model) // (model.transitions * model.supervision_steps),
        "step": calls_per_example(model) // (model.supervision_steps if model.supervision == "deep" else 1),
    }
    assert run.tracked_calls == recipe.train.steps * per_update[model.gradient]


def test_no_variant_is_a_copy_of_another() -> None:
    # A variant holds only differences: when gram.yaml moves, one of them may silently become its twin.
    recipes = {path: load_recipe(path) for path in RECIPES}
    twins = [(name_of(a), name_of(b)) for a, b in combinations(RECIPES, 2) if recipes[a] == recipes[b]]
    assert twins == []


@pytest.mark.parametrize("name", ["looped", "universal", "flat-gram", "flat-gram-final"])
def test_flat_variants_call_the_network_as_often_as_gram(name: str) -> None:
    flat, gram = (load_recipe(FOLDER / "nqueens-8" / f"{file}.yaml") for file in (name, "gram"))

    def calls_in_evaluation(recipe: Recipe) -> int:
        return calls_per_example(recipe.model) // recipe.model.supervision_steps * recipe.eval.depth

    assert calls_in_evaluation(flat) == calls_in_evaluation(gram)


@pytest.mark.parametrize("name", ["trm", "looped"])
def test_a_baseline_differs_from_gram_in_the_same_way_on_both_boards(name: str) -> None:
    small, large = (FOLDER / folder / f"{name}.yaml" for folder in ("nqueens-8", "nqueens-10"))
    differences = [OmegaConf.load(path) for path in (small, large)]
    for difference in differences:
        assert difference.train.pop("steps") > 0  # as many as fit into the time that gram.yaml takes on that board
        difference.get("model", {}).pop("mixing_norm", None)  # the large board needs another one; its recipe says why
        assert not difference.pop("model", None)
    assert differences[0] == differences[1] == {"base": ["gram.yaml", f"../cpu/{name}.yaml"], "train": {}}


@pytest.mark.parametrize("folder", ["nqueens-8", "nqueens-10", "colouring-8", "colouring-10"])
def test_the_papers_size_and_length(folder: str) -> None:
    recipe = load_recipe(FOLDER / folder / "gram-paper.yaml")
    parameters = sum(parameter.numel() for parameter in full_size_model(recipe).parameters())
    assert parameters == pytest.approx(10e6, rel=0.01)
    epochs = {"nqueens-8": 3000, "nqueens-10": 1000}.get(folder, 5000)
    pairs = len(make_task(recipe.task.name, **recipe.task.options).split("train"))
    assert recipe.train.steps == pytest.approx(epochs * pairs / recipe.train.slots, abs=1)
