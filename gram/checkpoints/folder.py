"""A trained model is a folder: `config.json` (the recipe and the shapes) and `model.safetensors`. No pickle."""

from pathlib import Path
from typing import Any

import torch

from gram.checkpoints.weights import Header, check_same_shapes, read_header, read_tensors, write_tensors
from gram.config import Recipe, SampleOptions, stored_recipe
from gram.errors import GramError
from gram.files import CONFIG_FILE, read_json, write_json
from gram.models.base import Model
from gram.models.registry import build_model
from gram.tasks.base import Structure, checked_structure

FORMAT = 2
WEIGHTS_FILE, PUZZLES_FILE, RUN_FILE = "model.safetensors", "puzzles.json", "run.json"


def save_model(
    folder: Path,
    model: Model,
    recipe: Recipe,
    *,
    extra: dict[str, Any] | None = None,
    puzzle_table: dict[str, Any] | None = None,
) -> None:
    """Write the folder; each file is written atomically. `puzzle_table` describes the puzzle ids."""
    folder.mkdir(parents=True, exist_ok=True)
    config = {
        "format": FORMAT,
        "vocab_size": model.vocab_size,
        "length": model.length,
        **_structure_of(model),
        "recipe": recipe.model_dump(mode="json"),
        **(extra or {}),
    }
    tensors = {name: tensor.detach().cpu().contiguous() for name, tensor in model.state_dict().items()}
    write_tensors(folder / WEIGHTS_FILE, tensors, kind=model.checkpoint_type)
    if puzzle_table is not None:
        write_json(folder / PUZZLES_FILE, puzzle_table)
    write_json(folder / CONFIG_FILE, config)


def _structure_of(model: Model) -> dict[str, Any]:
    """Return the entry of config.json with the built-in structure of the task; empty for other models."""
    if not model.structure.constraints:
        return {}
    return {"structure": {"constraints": model.structure.constraints, "symbols": list(model.structure.symbols)}}


def load_model(folder: Path) -> tuple[Model, Recipe, dict[str, Any]]:
    """Read a folder; return the model in evaluation mode, its recipe, and all of config.json."""
    config_path, weights_path = folder / CONFIG_FILE, folder / WEIGHTS_FILE
    for path in (config_path, weights_path):
        if not path.is_file():
            raise GramError(f"{folder} is not a trained model: {path.name} is missing.")
    config = read_json(config_path)
    if not isinstance(config, dict) or not {"format", "recipe", "vocab_size", "length"} <= config.keys():
        raise GramError(f"{config_path} was not written by gram: use `gram import` for published checkpoints.")
    for key in ("format", "vocab_size", "length"):
        if not isinstance(config[key], int) or config[key] < 1:
            raise GramError(f"{config_path}: '{key}' must be a positive whole number, not {config[key]!r}.")
    check_format(folder, config["format"])
    recipe = stored_recipe(config["recipe"], source=str(config_path))
    structure = read_structure(config_path, config)
    sizes = {"vocab_size": config["vocab_size"], "length": config["length"]}
    header = read_header(weights_path)
    header.check_sizes(config_path, {**sizes, **recipe.model_dump(include={"model"})})
    with torch.device("meta"):  # only shapes: nothing is allocated before the weights are known to fit
        check_shapes(build_model(recipe, **sizes, structure=structure), header)
    model = build_model(recipe, **sizes, structure=structure)
    load_weights(model, weights_path)
    return model.eval(), recipe, config


def read_structure(path: Path, config: dict[str, Any]) -> Structure:
    """Return the task's structure in config.json, checked against its length and vocabulary."""
    content = config.get("structure", {})
    sizes = {"length": config["length"], "vocab_size": config["vocab_size"]}
    try:
        return checked_structure(content.get("constraints", {}), content.get("symbols", []), **sizes)
    except (AttributeError, GramError) as error:
        raise GramError(f"{path}: 'structure' is damaged: {error}") from error


def check_format(path: Path, found: int) -> None:
    """Raise `GramError` for a file of another version of gram."""
    if found > FORMAT:
        raise GramError(f"{path} has format {found}, newer than this gram reads ({FORMAT}): upgrade gram.")
    if found < FORMAT:
        raise GramError(f"{path} has format {found}, of an older gram: convert it with `gram migrate FOLDER`.")


def load_puzzle_table(folder: Path) -> dict[str, Any] | None:
    """Return what the puzzle ids of a model stand for; None for a model without."""
    path = folder / PUZZLES_FILE
    return read_json(path) if path.exists() else None


def stored_eval(folder: Path) -> SampleOptions | None:
    """Return the `eval` section of a model's config.json; None where there is no model yet."""
    path = folder / CONFIG_FILE
    if not path.exists():
        return None
    content = read_json(path)
    if not isinstance(content, dict) or "recipe" not in content:
        raise GramError(f"{path} was not written by gram.")
    return stored_recipe(content["recipe"], source=str(path)).eval


def change_eval_settings(folder: Path, **settings: Any) -> None:
    """Rewrite the `eval` section of a model's config.json; raise `GramError` for a value that is not allowed."""
    _, recipe, config = load_model(folder)
    changed = recipe.model_copy(update={"eval": recipe.eval.changed(**settings)})
    config["recipe"] = changed.model_dump(mode="json")
    write_json(folder / CONFIG_FILE, config)


def load_weights(model: Model, path: Path) -> None:
    """Load a safetensors file into a model; every tensor must be there, with the right shape, and no other."""
    check_shapes(model, read_header(path))
    model.load_state_dict(read_tensors(path))


def check_shapes(model: Model, header: Header) -> None:
    """Raise `GramError` if the weights do not fit this model, which may be on the meta device."""
    what = f"{header.path} does not fit the model in config.json"
    if header.kind not in (None, model.checkpoint_type):  # an MDLM and an absorbing D3PM have the same tensors
        raise GramError(f"{what}: it is of kind '{header.kind}', not '{model.checkpoint_type}'.")
    expected = {name: tuple(tensor.shape) for name, tensor in model.state_dict().items()}
    check_same_shapes(what, header.shapes, expected)
