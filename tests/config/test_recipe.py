"""The sections of a recipe: which kind of model they are for, and what they refuse together."""

from typing import Any

import pytest

from gram.config import (
    MODEL_KINDS,
    ArConfig,
    D3pmConfig,
    ModelConfig,
    Recipe,
    TrainConfig,
    model_settings,
    parse_recipe,
    stored_recipe,
)
from gram.errors import GramError


def parsed(**sections: Any) -> Recipe:
    return parse_recipe(sections, source="the test")


def test_the_kind_chooses_the_settings() -> None:
    assert parsed().model == ModelConfig()
    assert parsed(model={"dim": 32}).model == ModelConfig(dim=32)
    assert parsed(model={"kind": "ar", "dim": 32}).model == ArConfig(dim=32)
    assert parsed(model={"kind": "d3pm", "noise": "absorbing"}).model == D3pmConfig(noise="absorbing")
    for kind, settings in MODEL_KINDS.items():
        assert model_settings(kind) is settings
        assert settings().kind == kind


@pytest.mark.parametrize("kind", MODEL_KINDS)
def test_a_recipe_survives_being_written_out(kind: str) -> None:
    recipe = parsed(model={"kind": kind})
    assert Recipe.model_validate(recipe.model_dump(mode="json")) == recipe


@pytest.mark.parametrize(("value", "same"), [(1.0, True), (0.5, False)])
def test_a_stored_recipe_may_have_settings_that_were_removed(value: float, same: bool) -> None:
    """A model loads whatever their values; a run goes on only if they changed nothing."""
    content = {"objective": {"beta": 2.0, "exchange": value}}
    assert stored_recipe(content, "the test") == parsed(objective={"beta": 2.0})
    if same:
        assert stored_recipe(content, "the test", exact=True) == parsed(objective={"beta": 2.0})
    else:
        with pytest.raises(GramError, match=r"unknown key 'objective\.exchange'"):
            stored_recipe(content, "the test", exact=True)
    with pytest.raises(GramError, match=r"unknown key 'objective\.exchange'"):
        parse_recipe(content, "the test")


@pytest.mark.parametrize(
    ("sections", "message"),
    [
        ({"model": {"kind": "ar", "low_steps": 2}}, r"unknown key 'model\.low_steps'"),
        ({"model": {"kind": "unet"}}, "no model of kind 'unet'; the kinds are reasoner, ar, mdlm, d3pm, vae"),
        ({"model": 3}, "must be a section of settings"),
        ({"model": {"kind": "ar"}, "objective": {"beta": 2.0}}, "the objective section is for the kind reasoner"),
        ({"model": {"kind": "ar"}, "train": {"release": 0.5}}, r"train\.release is for models that carry a state"),
        ({"model": {"supervision": "final"}, "train": {"lifetime": [2, 4]}}, r"train\.lifetime needs deep"),
        ({"train": {"halt_in_training": True}}, "is for models without guidance"),
        ({"train": {"lifetime": [4, 2]}}, "must be a range"),
        ({"train": {"piece": 4}}, r"unknown key 'train\.piece'"),
    ],
    ids=str,
)
def test_what_does_not_go_together_is_refused(sections: dict[str, Any], message: str) -> None:
    with pytest.raises(GramError, match=message):
        parsed(**sections)


@pytest.mark.parametrize(
    ("generative", "kind"),
    [
        ({"name": "autoregressive", "options": {"dim": 16}}, "ar"),
        ({"name": "d3pm"}, "d3pm"),
        ({"options": {}}, r"\.\.\."),
        ("mdlm", r"\.\.\."),
    ],
)
def test_an_old_recipe_is_told_the_new_form(generative: Any, kind: str) -> None:
    with pytest.raises(GramError, match=rf"older version: write 'model: {{kind: {kind}, \.\.\.}}'.*gram migrate"):
        parsed(generative=generative)
    with pytest.raises(GramError, match="unknown key 'generative'"):  # a stored recipe of a reasoner: only the key
        parsed(generative=None)


def test_defaults_are_those_of_the_sections() -> None:
    assert parsed(train={}).train == TrainConfig()
    assert parsed() == Recipe()
