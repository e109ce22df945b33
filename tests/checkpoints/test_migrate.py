"""Folders of format 1: refused with the sentence that helps, and converted without a change to any weight."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import save_file

from gram.checkpoints.folder import FORMAT, load_model
from gram.checkpoints.migrate import migrate
from gram.config import Recipe, parse_recipe
from gram.errors import GramError
from gram.models.base import Model
from gram.models.registry import build_model
from gram.training.run_checkpoint import read_run

RecipeBuilder = Callable[..., Recipe]
SMALL = {"dim": 16, "layers": 1, "heads": 2, "hidden": 16}
OLD: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "autoregressive": ({"name": "autoregressive", "options": SMALL}, {"kind": "ar", **SMALL}),
    "mdlm": ({"name": "mdlm", "options": {**SMALL, "sample_steps": 9}}, {"kind": "mdlm", **SMALL, "sample_steps": 9}),
    "d3pm": (
        {"name": "d3pm", "options": {**SMALL, "kind": "absorbing", "steps": 10}},
        {"kind": "d3pm", **SMALL, "noise": "absorbing", "steps": 10},
    ),
}
OLD_TYPES = {"autoregressive": "autoregressive", "mdlm": "mdlm", "d3pm": "d3pm absorbing"}
"""What the metadata of the weights called them."""


def old_sections(recipe: Recipe) -> dict[str, Any]:
    """A recipe as format 1 wrote it."""
    content = recipe.model_dump(mode="json")
    if content["model"].pop("kind") != "reasoner":
        content["model"] = {}
    content["train"]["piece"] = content["train"].pop("micro_batch")
    return {**content, "generative": None}


def write_old(folder: Path, model: Model, recipe: dict[str, Any], *, kind: str, prefix: str = "") -> None:
    folder.mkdir()
    tensors = {prefix + name: tensor.contiguous() for name, tensor in model.state_dict().items()}
    save_file(tensors, folder / "model.safetensors", metadata={"kind": kind})
    config = {"format": 1, "vocab_size": model.vocab_size, "length": model.length, "recipe": recipe, "steps": 7}
    (folder / "config.json").write_text(json.dumps(config))
    (folder / "run.json").write_text(json.dumps({"format": 1, "recipe": recipe}))


@pytest.fixture
def reasoner(queens_recipe: RecipeBuilder, tmp_path: Path) -> tuple[Path, Model, Recipe]:
    recipe = queens_recipe(train={"micro_batch": 4})
    torch.manual_seed(0)
    model = build_model(recipe, vocab_size=3, length=25)
    write_old(tmp_path / "old", model, old_sections(recipe), kind="recursive")
    return tmp_path / "old", model, recipe


def assert_same_weights(loaded: Model, model: Model) -> None:
    ours, theirs = loaded.state_dict(), model.state_dict()
    assert ours.keys() == theirs.keys()
    assert all(torch.equal(ours[name], theirs[name]) for name in ours)


def test_an_old_folder_is_refused_with_the_command_that_helps(reasoner: tuple[Path, Model, Recipe]) -> None:
    folder, _, _ = reasoner
    for read in (load_model, read_run):
        with pytest.raises(GramError, match=r"format 1, of an older gram: convert it with `gram migrate FOLDER`"):
            read(folder)


def test_a_reasoner_is_converted(reasoner: tuple[Path, Model, Recipe]) -> None:
    folder, model, recipe = reasoner
    done = migrate(folder)
    assert [line.partition(":")[0] for line in done] == ["model.safetensors", "config.json", "run.json"]
    loaded, found, config = load_model(folder)
    assert_same_weights(loaded, model)
    assert found == recipe
    assert found.train.micro_batch == 4
    assert (config["format"], config["steps"]) == (FORMAT, 7)
    assert read_run(folder).recipe == recipe
    before = {path.name: path.read_bytes() for path in folder.iterdir()}
    assert migrate(folder) == []  # a second time there is nothing to do
    assert before == {path.name: path.read_bytes() for path in folder.iterdir()}


@pytest.mark.parametrize("name", OLD)
def test_a_generative_model_is_converted(queens_recipe: RecipeBuilder, tmp_path: Path, name: str) -> None:
    generative, section = OLD[name]
    base = queens_recipe().model_dump(mode="json")
    recipe = parse_recipe({**base, "model": section}, source="the test")
    model = build_model(recipe, vocab_size=3, length=25)
    old = {**old_sections(queens_recipe()), "generative": generative}
    write_old(tmp_path / "old", model, old, kind=OLD_TYPES[name], prefix="network.")
    migrate(tmp_path / "old")
    loaded, found, _ = load_model(tmp_path / "old")
    assert_same_weights(loaded, model)
    assert found.model == recipe.model
    assert found == read_run(tmp_path / "old").recipe


def test_nothing_is_written_unless_everything_can_be_converted(reasoner: tuple[Path, Model, Recipe]) -> None:
    folder, _, recipe = reasoner
    broken = old_sections(recipe) | {"unheard_of": {}}
    (folder / "run.json").write_text(json.dumps({"format": 1, "recipe": broken}))
    before = {path.name: path.read_bytes() for path in folder.iterdir()}
    with pytest.raises(GramError, match="unheard_of"):
        migrate(folder)
    assert before == {path.name: path.read_bytes() for path in folder.iterdir()}


def test_weights_of_another_kind_and_folders_of_others_are_refused(
    reasoner: tuple[Path, Model, Recipe], tmp_path: Path
) -> None:
    folder, model, _ = reasoner
    save_file(dict(model.state_dict()), folder / "model.safetensors", metadata={"kind": "mdlm"})
    with pytest.raises(GramError, match="weights of kind 'mdlm'"):
        migrate(folder)
    with pytest.raises(GramError, match="neither a trained model nor a run"):
        migrate(tmp_path)
    (tmp_path / "config.json").write_text("[1]")
    with pytest.raises(GramError, match="was not written by gram"):
        migrate(tmp_path)
