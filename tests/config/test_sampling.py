"""Sampling options: what is not allowed is refused where they are made, in a sentence where a person gave them."""

import pytest
from pydantic import ValidationError

from gram.config import Recipe, SampleOptions, parse_recipe
from gram.errors import GramError


@pytest.mark.parametrize(
    "options",
    [
        {"width": 0},
        {"depth": 0},
        {"width": -3},
        {"temperature": -0.1},
        {"temperature": float("nan")},
        {"perturb": -1.0},
        {"halt_at": 1.0},
        {"decode": "beam"},
        {"initial": "zero"},
    ],
    ids=str,
)
def test_bad_options_are_refused(options: dict[str, object]) -> None:
    (name,) = options
    with pytest.raises(ValidationError, match=name):
        SampleOptions(**options)
    with pytest.raises(GramError, match=name):
        SampleOptions().changed(**options)
    with pytest.raises(GramError, match=rf"eval\.{name}"):
        parse_recipe({"eval": options}, source="the test")


def test_an_unknown_option_is_refused() -> None:
    with pytest.raises(ValidationError, match="widht"):
        SampleOptions(widht=3)
    with pytest.raises(GramError, match=r"unknown key 'eval\.widht'"):
        parse_recipe({"eval": {"widht": 3}}, source="the test")


def test_changed_options_keep_the_others_and_leave_the_original() -> None:
    options = SampleOptions(width=3, temperature=0.5)
    changed = options.changed(width=7)
    assert (changed.width, changed.temperature) == (7, 0.5)
    assert options.width == 3


def test_only_some_options() -> None:
    assert SampleOptions(width=3, seed=4).only(frozenset({"seed", "width"})) == {"width": 3, "seed": 4}


def test_options_survive_a_recipe_file() -> None:
    recipe = parse_recipe({"eval": {"width": 3, "halt": True, "steps": 5}}, source="the test")
    assert recipe.eval == SampleOptions(width=3, halt=True, steps=5)
    assert Recipe.model_validate(recipe.model_dump(mode="json")).eval == recipe.eval
