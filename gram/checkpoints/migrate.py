"""Convert a model folder of an older version of gram to the current format."""

from pathlib import Path
from typing import Any

from gram.checkpoints.folder import FORMAT, RUN_FILE, WEIGHTS_FILE, load_model
from gram.checkpoints.weights import read_header, read_tensors, write_tensors
from gram.config import parse_recipe
from gram.errors import GramError
from gram.files import CONFIG_FILE, read_json, write_json

KINDS = {"autoregressive": "ar"}
"""Kinds of models whose names have changed."""


def migrate(folder: Path) -> list[str]:
    """Rewrite the files of a folder of format 1 in place; return what was done, one line for each file.

    Weights keep their values. Everything is converted before anything is written.
    """
    config_path, weights_path = folder / CONFIG_FILE, folder / WEIGHTS_FILE
    if not config_path.is_file() and not (folder / RUN_FILE).is_file():
        raise GramError(f"{folder} is neither a trained model nor a run: {CONFIG_FILE} and {RUN_FILE} are missing.")
    contents = {path: read_json(path) for path in (config_path, folder / RUN_FILE) if path.is_file()}
    for path, content in contents.items():
        if not isinstance(content, dict) or not isinstance(content.get("format"), int) or "recipe" not in content:
            raise GramError(f"{path} was not written by gram.")
    old = {path: content for path, content in contents.items() if content["format"] < FORMAT}
    if not old:
        return []
    for path, content in old.items():
        recipe = parse_recipe(converted(content["recipe"]), source=str(path))
        content |= {"format": FORMAT, "recipe": recipe.model_dump(mode="json")}
    done = []
    if config_path in old:
        tensors, kind = _converted_weights(weights_path, old[config_path]["recipe"]["model"])
        write_tensors(weights_path, tensors, kind=kind)
        done.append(f"{WEIGHTS_FILE}: {len(tensors)} tensors of a model of kind '{kind}'")
    for path, content in old.items():
        write_json(path, content)
        done.append(f"{path.name}: format {FORMAT}")
    if config_path in old:
        load_model(folder)  # raises if something does not fit
    return done


def converted(recipe: dict[str, Any]) -> dict[str, Any]:
    """Convert a recipe of format 1 to the current format."""
    recipe = {name: dict(section) if isinstance(section, dict) else section for name, section in recipe.items()}
    generative = recipe.pop("generative", None)
    if generative is not None:
        options = dict(generative.get("options", {}))
        if "kind" in options:
            options["noise"] = options.pop("kind")
        recipe["model"] = {"kind": KINDS.get(generative["name"], generative["name"]), **options}
        recipe.pop("objective", None)
    train = recipe.get("train", {})
    if "piece" in train:
        train["micro_batch"] = train.pop("piece")
    return recipe


def _converted_weights(path: Path, model: dict[str, Any]) -> tuple[dict[str, Any], str]:
    kind = read_header(path).kind or "recursive"
    tensors = {name.removeprefix("network."): tensor for name, tensor in read_tensors(path).items()}
    words = ["reasoner"] if kind == "recursive" else [KINDS.get(word, word) for word in kind.split()]
    if words[0] != model.get("kind", "reasoner"):
        raise GramError(
            f"{path} holds weights of kind '{kind}', but its recipe names a model of kind '{model['kind']}'."
        )
    return tensors, " ".join(words)
