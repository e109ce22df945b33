"""A setting of the user's that would do nothing is refused, with the reason; a base recipe may hold it."""

from pathlib import Path

import pytest

from gram.config import RECIPES, Recipe, load_recipe
from gram.config.dependent import DEPENDENCIES, flat
from gram.errors import GramError

BASE = "task: {name: nqueens, options: {size: 5}}\nmodel: {dim: 16}\n"


@pytest.fixture
def recipe(tmp_path: Path) -> Path:
    path = tmp_path / "recipe.yaml"
    path.write_text(BASE)
    return path


@pytest.mark.parametrize(
    ("overrides", "reason"),
    [
        (["model.heads=4"], "model.heads has no effect: it needs model.mixing to be attention, not tokens"),
        (["model.patch=4"], "it needs model.image, which is not set"),
        (["train.puzzle_lr=0.5"], "it needs model.puzzle_tokens, which is not set"),
        (["train.puzzle_weight_decay=0.5"], "it needs model.puzzle_tokens"),
        (["train.explore=0.5"], "it needs train.halt_in_training"),
        (["eval.top_p=0.9"], "it needs model.kind to be ar, not reasoner"),
        (["model.guidance=none", "objective.beta=2"], "objective.beta has no effect"),
        (["model.mixing=attention", "model.token_hidden=64"], "model.token_hidden has no effect"),
        (["model.halting=q_learning", "eval.halt_at=0.7"], "eval.halt_at has no effect"),
        (["model.kind=mdlm", "eval.depth=3"], "eval.depth has no effect: it needs model.kind to be reasoner"),
        (["objective.value_weight=0", "objective.value_target=token_accuracy"], "it needs objective.value_weight"),
    ],
)
def test_what_does_nothing_is_refused(recipe: Path, overrides: list[str], reason: str) -> None:
    with pytest.raises(GramError, match=reason):
        load_recipe(recipe, overrides)


@pytest.mark.parametrize(
    "overrides",
    [
        ["model.heads=8"],  # the default: nothing was ignored
        ["train.explore=0"],  # off is off
        ["model.mixing=attention", "model.heads=4"],
        ["model.guidance=none", "objective.prior_share=0", "train.halt_in_training=true", "train.explore=0.5"],
        ["eval.halt_at=0.7"],  # for --halt on the command line
    ],
)
def test_what_does_something_is_accepted(recipe: Path, overrides: list[str]) -> None:
    load_recipe(recipe, overrides)


def test_a_base_recipe_may_hold_what_its_variants_need(recipe: Path) -> None:
    recipe.write_text(BASE + "train: {explore: 0.5}\n")
    with pytest.raises(GramError, match=r"train\.explore has no effect"):
        load_recipe(recipe)
    variant = recipe.with_name("variant.yaml")
    variant.write_text("base: recipe.yaml\nmodel: {dim: 32}\n")
    assert load_recipe(variant).train.explore == 0.5
    load_recipe(variant, ["train.explore=0.5"])  # as it was
    with pytest.raises(GramError, match=r"train\.explore has no effect"):
        load_recipe(variant, ["train.explore=0.7"])


@pytest.mark.parametrize("content", ["", "# nothing\n", "{}", "base: []"])
def test_an_empty_recipe_is_refused(recipe: Path, content: str) -> None:
    recipe.write_text(content)
    with pytest.raises(GramError, match=r"is empty|must hold sections"):
        load_recipe(recipe, ["train.steps=3"])


def test_a_key_that_is_given_twice_is_refused(recipe: Path) -> None:
    with pytest.raises(GramError, match=r"train\.lr is given twice"):
        load_recipe(recipe, ["train.lr=0.1", "train.lr=0.2"])


def test_every_shipped_recipe_is_free_of_settings_that_do_nothing() -> None:
    for path in sorted(RECIPES.rglob("*.yaml")):
        load_recipe(path)


def test_the_table_names_settings_that_exist() -> None:
    known = {key for key, _ in flat(Recipe().model_dump())}
    for dependency in DEPENDENCIES:
        assert dependency.on in known | {"generative.name"}
        for key in dependency.keys:
            assert "*" in key or key in known
