"""Baselines through the same loop, sampling, evaluation and files as the reasoner."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from rich.console import Console

from gram.config import Recipe, SampleOptions, parse_recipe
from gram.errors import GramError
from gram.evaluation.evaluate import evaluate
from gram.inference.sample import sample
from gram.solver import load
from gram.training.loop import resume, train

RecipeBuilder = Callable[..., Recipe]
SMALL = {"dim": 16, "layers": 1, "heads": 2, "hidden": 16}
OPTIONS = {
    "ar": SMALL,
    "mdlm": {**SMALL, "sample_steps": 8},
    "d3pm": {**SMALL, "steps": 10, "time_dim": 8},
}
CORNER = "Q..../...../...../...../....."


def recipe_of(queens_recipe: RecipeBuilder, name: str, **train_settings: object) -> Recipe:
    base = queens_recipe(train=train_settings).model_dump(mode="json")
    return Recipe.model_validate({**base, "model": {"kind": name, **OPTIONS[name]}})


@pytest.mark.parametrize("name", OPTIONS)
def test_a_run_trains_evaluates_and_loads(queens_recipe: RecipeBuilder, tmp_path: Path, name: str) -> None:
    result = train(recipe_of(queens_recipe, name), tmp_path / "run", Console(quiet=True))
    assert 0 <= result["accuracy"] <= 1
    solver = load(tmp_path / "run")
    answers = [solver.solve(CORNER, width=3).trajectories.outputs for _ in range(2)]
    assert answers[0].shape == (1, 3, 25)
    assert np.array_equal(*answers)
    lines = (tmp_path / "run" / "metrics.jsonl").read_text()
    assert "validation_nats" in lines
    assert '"nats"' in lines


def test_a_resumed_run_ends_in_the_same_weights(queens_recipe: RecipeBuilder, tmp_path: Path) -> None:
    recipe = recipe_of(queens_recipe, "mdlm", steps=4, save_every=2)
    train(recipe, tmp_path / "whole", Console(quiet=True))
    train(recipe, tmp_path / "cut", Console(quiet=True))
    newest = sorted((tmp_path / "cut" / "checkpoints").iterdir())[-1]
    newest.unlink()
    resume(tmp_path / "cut", Console(quiet=True))
    ours, theirs = (load(tmp_path / name).model.state_dict() for name in ("whole", "cut"))
    assert all(torch.equal(ours[name], theirs[name]) for name in ours)


def test_what_a_generative_model_cannot_do(queens_recipe: RecipeBuilder, tmp_path: Path) -> None:
    train(recipe_of(queens_recipe, "ar"), tmp_path / "run", Console(quiet=True))
    solver = load(tmp_path / "run")
    with pytest.raises(GramError, match="whole outputs"):
        solver.solve(CORNER, until="first")
    with pytest.raises(GramError, match="whole outputs"):
        solver.solve(CORNER, rule="value")
    with pytest.raises(GramError, match="whole outputs"):
        sample(solver.model, np.ones((1, 25), dtype=np.int64), SampleOptions(keep_steps=True))


@pytest.mark.parametrize(
    ("name", "unsupported", "supported"),
    [
        ("ar", {"steps": 5}, {"temperature": 0.5, "top_p": 0.5}),
        ("mdlm", {"temperature": 0.5}, {"steps": 5}),
        ("d3pm", {"depth": 4}, {"steps": 5}),
    ],
)
def test_an_option_is_used_or_refused(
    queens_recipe: RecipeBuilder, tmp_path: Path, name: str, unsupported: dict[str, Any], supported: dict[str, Any]
) -> None:
    train(recipe_of(queens_recipe, name), tmp_path / "run", Console(quiet=True))
    solver = load(tmp_path / "run")
    with pytest.raises(GramError, match=f"'{next(iter(unsupported))}' is not supported by this model"):
        solver.with_options(**unsupported)
    plain = solver.solve(CORNER, width=30)
    for option, value in supported.items():
        told = solver.solve(CORNER, width=30, **{option: value})
        assert told.settings[option] == value
        assert not np.array_equal(told.trajectories.outputs, plain.trajectories.outputs)
    result = evaluate(solver.model, solver.task, "test", solver.with_options(**supported), limit=2)
    assert set(supported) <= set(result)
    assert not set(unsupported) & set(result)
    assert set(result["selection"]) == {"first", "vote", "verified"}  # nobody asks heads that are not there
    assert result["mean_steps"] == supported.get("steps", 25)


def test_unknown_options_are_named_before_any_work(queens_recipe: RecipeBuilder) -> None:
    base = recipe_of(queens_recipe, "ar").model_dump(mode="json")
    with pytest.raises(GramError, match=r"unknown key 'model\.dimm'"):
        parse_recipe({**base, "model": {"kind": "ar", "dimm": 3}}, source="the test")


@pytest.mark.parametrize(("other", "options"), [("ar", SMALL), ("d3pm", {**SMALL, "noise": "absorbing"})])
def test_a_checkpoint_of_another_model_is_refused(
    queens_recipe: RecipeBuilder, tmp_path: Path, other: str, options: dict[str, Any]
) -> None:
    base = queens_recipe().model_dump(mode="json")
    for name, own in (("mdlm", SMALL), (other, options)):  # the tensors of MDLM and of this D3PM are alike
        recipe = Recipe.model_validate({**base, "model": {"kind": name, **own}})
        train(recipe, tmp_path / name, Console(quiet=True))
    weights = [tmp_path / name / "model.safetensors" for name in ("mdlm", other)]
    weights[1].write_bytes(weights[0].read_bytes())
    with pytest.raises(GramError, match="does not fit"):
        load(tmp_path / other)


@pytest.mark.parametrize("name", OPTIONS)
def test_positions_without_a_label_are_held_at_padding(queens_recipe: RecipeBuilder, tmp_path: Path, name: str) -> None:
    base = recipe_of(queens_recipe, name).model_dump(mode="json")
    task = {"name": "colouring", "options": {"size": 5, "train_graphs": 20, "test_graphs": 4}}
    train(Recipe.model_validate({**base, "task": task}), tmp_path / "run", Console(quiet=True))
    solver = load(tmp_path / "run")
    inputs = solver.task.split("test").inputs[:2]
    outputs = sample(solver.model, inputs, SampleOptions(width=30)).outputs
    assert (outputs[..., 5:] == 0).all()  # the colours of five vertices are all that is asked for
    assert outputs[..., :5].any()


def test_a_vae_draws_images_through_the_same_loop(queens_recipe: RecipeBuilder, tmp_path: Path) -> None:
    base = queens_recipe().model_dump(mode="json")
    images = {"task": {"name": "digits", "options": {}}, "model": {"kind": "vae", "hidden": 16}}
    result = train(Recipe.model_validate({**base, **images}), tmp_path / "run", Console(quiet=True))
    assert "validity" not in result  # nobody has judged the images
    assert 0 < result["uniqueness"] <= 1
    assert "validation_nats" in (tmp_path / "run" / "metrics.jsonl").read_text()
    with pytest.raises(GramError, match="A VAE is unconditional"):
        train(Recipe.model_validate({**base, "model": images["model"]}), tmp_path / "no", Console(quiet=True))
