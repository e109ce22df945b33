"""Recipes: YAML files that become settings.

A recipe has the sections `task`, `model`, `objective`, `train` and `eval`. It may name a `base`, a file beside it or a
shipped recipe such as `nqueens-8/gram`, and then holds only the differences, so that a variant of a model is a few
lines. With a list of bases, later ones win: a task's recipe, then the differences that make it another model. Dotted
overrides (`train.lr=3e-4`) come last.
"""

from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

from omegaconf import DictConfig, ListConfig, OmegaConf
from omegaconf.errors import OmegaConfBaseException
from yaml import YAMLError  # type: ignore[import-untyped]

from gram.config.dependent import check_dependent
from gram.config.recipe import Recipe, parse_recipe
from gram.errors import GramError

UNREADABLE = (OmegaConfBaseException, YAMLError, ValueError, RecursionError)
"""What reading settings raises where they cannot be understood; RecursionError: thousands of levels."""
RECIPES = Path(__file__).parents[1] / "recipes"
"""The recipes that ship with the package: one folder per task."""


def load_recipe(path: str | Path, overrides: list[str] | None = None) -> Recipe:
    """Read a recipe (a file, or a shipped one by name), its bases, and `key=value` overrides.

    Raise `GramError` on anything unknown.
    """
    path = find_recipe(path)
    below, own = _read_with_bases(path, seen=())
    _check_form(overrides or [], "train.lr=3e-4")
    source = f"Recipe {path} with {', '.join(overrides)}" if overrides else f"Recipe {path}"
    try:
        changes = OmegaConf.from_dotlist(list(overrides or []))
        # Each level may hold what does nothing only as the base of another.
        levels: list[Any] = [OmegaConf.to_container(part) for part in (own, changes)]
        merged = [below, _merge(below, own, str(path))]
        merged.append(_merge(merged[-1], changes, source))
        contents: list[Any] = [OmegaConf.to_container(part, resolve=True) for part in merged]
    except UNREADABLE as error:
        raise GramError(f"{source}: {_in_one_line(error)}.") from error
    if not contents[1]:
        raise GramError(f"Recipe {path} is empty: name a task and a model, or a base recipe.")
    recipe = parse_recipe(contents[-1], source=str(path))
    if changes:
        check_dependent(levels[1], contents[2], partial(_settled, bases=contents[1]), source=f"Recipe {path}")
    check_dependent(levels[0], contents[1], partial(_settled, bases=contents[0]), source=f"Recipe {path}")
    return recipe


def _settled(content: Mapping[str, Any], bases: Mapping[str, Any]) -> dict[str, Any]:
    """Return all settings of a run; what `content` lacks comes from the base recipes, then from the defaults."""
    merged: Any = OmegaConf.to_container(OmegaConf.merge(bases, content))
    return parse_recipe(merged, source="The recipe").model_dump(mode="json")


def find_recipe(name: str | Path) -> Path:
    """Resolve a recipe file, or the name of a shipped recipe such as `nqueens-8/gram`, to a path."""
    path = Path(name)
    if path.is_file():
        return path
    shipped = RECIPES / f"{name}.yaml"
    if shipped.is_file() and RECIPES in shipped.resolve().parents:
        return shipped
    siblings = sorted(file.stem for file in (RECIPES / path.parent.name).glob("*.yaml"))
    if siblings and path.parent.name:
        raise GramError(f"There is no recipe '{name}'; for {path.parent.name} there are {', '.join(siblings)}.")
    folders = ", ".join(sorted(folder.name for folder in RECIPES.iterdir()))
    raise GramError(f"There is no recipe '{name}': give a file, or FOLDER/NAME with one of the folders {folders}.")


def _check_form(overrides: list[str], example: str) -> None:
    keys = set()
    for override in overrides:
        key, equals, _ = override.partition("=")
        if not equals:
            raise GramError(f"'{override}' is not of the form key=value, such as {example}.")
        if key in keys:
            raise GramError(f"{key} is given twice: give it once.")
        keys.add(key)


def parse_options(options: list[str]) -> dict[str, Any]:
    """Parse `key=value` options, with values in YAML: seed=1 is a number, shape=[9,9] a list."""
    _check_form(options, "seed=1")
    try:
        content = OmegaConf.to_container(OmegaConf.from_dotlist(options))
    except UNREADABLE as error:
        raise GramError(f"The options {' '.join(options)} cannot be read: {_in_one_line(error)}.") from error
    return {str(key): value for key, value in dict(content).items()}  # type: ignore[arg-type]


def _read_with_bases(path: Path, seen: tuple[Path, ...]) -> tuple[Any, Any]:
    """Read the file or files that the `base` key of a YAML file names (relative to it), and the file's own content."""
    if path.resolve() in seen:
        raise GramError(f"Recipe {path} is its own base.")
    if not path.is_file():
        raise GramError(f"There is no recipe at {path}.")
    try:
        content = OmegaConf.load(path)
        base = content.pop("base", None) if isinstance(content, DictConfig) else None
    except (*UNREADABLE, OSError) as error:
        raise GramError(f"Recipe {path} is not valid YAML: {_in_one_line(error)}.") from error
    if not isinstance(content, DictConfig):
        raise GramError(f"Recipe {path} must hold sections such as 'task:' and 'model:'.")
    merged = OmegaConf.create()
    for name in [] if base is None else base if isinstance(base, ListConfig) else [base]:
        beside, shipped = path.parent / str(name), RECIPES / f"{name}.yaml"
        found = shipped if shipped.is_file() and not beside.is_file() else beside
        parts = _read_with_bases(found, (*seen, path.resolve()))
        merged = _merge(merged, _merge(*parts, source=str(path)), source=str(path))
    return merged, content


def _merge(below: Any, above: Any, source: str) -> Any:
    """Merge two levels of a recipe; another task does not inherit the options of the task below."""
    try:
        name = OmegaConf.select(above, "task.name")
        if name is not None and name != OmegaConf.select(below, "task.name", default=name):
            below = OmegaConf.create(OmegaConf.to_container(below))
            below.task.pop("options", None)
        return OmegaConf.merge(below, above)
    except (OmegaConfBaseException, TypeError) as error:  # a list where a section was, for example
        raise GramError(f"{source} does not fit what it changes: {_in_one_line(error)}.") from error


def _in_one_line(error: Exception) -> str:
    return " ".join(str(error).split()) or type(error).__name__
