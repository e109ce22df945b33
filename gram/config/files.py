"""Recipes: YAML files that become settings.

A recipe has the sections `task`, `model`, `objective`, `train` and `eval`. It may name a `base`, a file beside it or a
shipped recipe such as `nqueens-8/gram`, and then holds only the differences, so that a variant of a model is a few
lines. With a list of bases, later ones win: a task's recipe, then the differences that make it another model. Dotted
overrides (`train.lr=3e-4`) come last.
"""

from pathlib import Path
from typing import Any

from omegaconf import DictConfig, ListConfig, OmegaConf
from omegaconf.errors import OmegaConfBaseException
from yaml import YAMLError  # type: ignore[import-untyped]

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
    merged = OmegaConf.create(_read_with_bases(path, seen=()))
    _check_form(overrides or [], "train.lr=3e-4")
    source = f"Recipe {path} with {', '.join(overrides)}" if overrides else f"Recipe {path}"
    try:
        changes = OmegaConf.from_dotlist(list(overrides or []))
        content = OmegaConf.to_container(_merge(merged, changes, source), resolve=True)
    except UNREADABLE as error:
        raise GramError(f"{source}: {_in_one_line(error)}.") from error
    return parse_recipe(content, source=str(path))


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
    for override in overrides:
        if "=" not in override:
            raise GramError(f"'{override}' is not of the form key=value, such as {example}.")


def parse_options(options: list[str]) -> dict[str, Any]:
    """`key=value` options, values read as YAML: seed=1 is a number, shape=[9,9] a list."""
    _check_form(options, "seed=1")
    try:
        content = OmegaConf.to_container(OmegaConf.from_dotlist(options))
    except UNREADABLE as error:
        raise GramError(f"The options {' '.join(options)} cannot be read: {_in_one_line(error)}.") from error
    return {str(key): value for key, value in dict(content).items()}  # type: ignore[arg-type]


def _read_with_bases(path: Path, seen: tuple[Path, ...]) -> Any:
    """Read one YAML file on top of the file or files that its `base` key names (relative to it)."""
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
        below = _read_with_bases(found, (*seen, path.resolve()))
        merged = _merge(merged, below, source=str(path))
    return _merge(merged, content, source=str(path))


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
