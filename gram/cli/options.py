"""Options that several commands share, as groups: a command takes a group as one parameter."""

import ast
import inspect
from collections.abc import Callable
from dataclasses import dataclass, fields
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Annotated, Any, Literal, get_type_hints

import typer

from gram.cli.common import refuse_ignored
from gram.config import SampleOptions
from gram.errors import GramError
from gram.machine import keep_freed_memory
from gram.solver import Solver, load

Model = Annotated[
    str, typer.Argument(help="A shipped model (see `gram models`), a model folder, or a Hugging Face hub id.")
]
Models = Annotated[list[str], typer.Argument(help="Models of one task: shipped names, model folders or hub ids.")]
RecipeName = Annotated[str, typer.Argument(help="A shipped recipe such as nqueens-8/gram, or a recipe file.")]
Seed = Annotated[int, typer.Option(min=0, max=2**32 - 1, help="Random seed of the sampler.")]
Split = Annotated[Literal["train", "validation", "test"], typer.Option(help="Split to evaluate.")]
Limit = Annotated[int | None, typer.Option(min=1, help="Use only the first inputs of the split.")]
JsonFile = Annotated[Path | None, typer.Option("--json", help="Write all metrics and settings to this file.")]
Figure = Annotated[Path, typer.Option(help="File of the figure.")]
Device = Annotated[str, typer.Option(help="auto, cpu, cuda or mps.")]
AllowOtherData = Annotated[
    bool, typer.Option("--allow-other-data", help="Accept data that has changed since the model was trained.")
]


def with_sampling_options(*names: str) -> Callable[[type], type]:
    """Add sampling options to a group: their types and help are those of the fields of `SampleOptions`."""

    def add(group: type) -> type:
        types = get_type_hints(SampleOptions)
        for name in names:
            flags = [f"--{name}/--no-{name}"] if types[name] is bool else []
            option = typer.Option(*flags, help=_docstrings()[name], rich_help_panel="Sampling options")
            group.__annotations__[name] = Annotated[types[name] | None, option]
            setattr(group, name, None)
        return group

    return add


@cache
def _docstrings() -> dict[str, str]:
    """Return the docstrings of the fields of `SampleOptions`, which Python does not keep."""
    # `inspect.getsource` of the class would take fifty times as long.
    tree: Any = ast.parse(Path(inspect.getfile(SampleOptions)).read_text())
    body = next(node.body for node in tree.body if getattr(node, "name", "") == SampleOptions.__name__)
    described = [(field, text) for field, text in pairwise(body) if isinstance(field, ast.AnnAssign)]
    return {ast.unparse(field.target): ast.literal_eval(text.value) for field, text in described}


@dataclass(frozen=True)
class Loading:
    """Where a model runs, and the task of one that was trained on a task outside the package."""

    device: Device = "auto"
    task: Annotated[
        str | None, typer.Option(help="Your task outside the package, such as mytask.py:Latin. Its code is run.")
    ] = None
    plugin: Annotated[
        str | None, typer.Option(help="Your plugin of the task tokens: a .py file or an installed one.")
    ] = None
    size: Annotated[
        int | None, typer.Option(min=1, help="Size of the board, for models that solve boards of any size.")
    ] = None

    def load(self, model: str | Path) -> Solver:
        """Load a model; this process does nothing else, so the allocator may keep its memory."""
        keep_freed_memory()
        return load(model, device=self.device, task=self.task, plugin=self.plugin, size=self.size)

    def load_same_task(self, models: list[str], *, allow_other_data: bool = False) -> dict[str, Solver]:
        """Load several models that are to be compared; raise `GramError` if their data differ, or has changed."""
        if len(set(models)) < len(models):
            raise GramError("A model is given twice: give each once.")
        solvers = {name: self.load(name) for name in models}
        if len({(solver.task.name, solver.task.split_hash()) for solver in solvers.values()}) > 1:
            raise GramError("These models belong to different tasks or splits and cannot be compared.")
        for solver in solvers.values():
            if not allow_other_data:
                solver.check_data()
        return solvers


@dataclass(frozen=True)
@with_sampling_options("depth", "temperature", "temperature_final", "horizon", "steps", "top_p")
class Sampling(Loading):
    """Sampling options; the defaults are those of the model's recipe."""

    seed: Seed = 0

    def given(self) -> dict[str, Any]:
        """Return the sampling options that were given, by name."""
        loading = [field.name for field in fields(Loading)]
        return {name: value for name, value in vars(self).items() if value is not None and name not in loading}

    def options(self, solver: Solver, **more: Any) -> SampleOptions:
        """Return the model's own options, changed by those that were given; raise `GramError` for ignored ones."""
        given = self.given()
        options = solver.with_options(**given | more)
        refuse_ignored(
            ("halt_at" in given and not options.halt, "--halt-at needs --halt."),
            ("halt_by" in given and not options.halt, "--halt-by needs --halt."),
        )
        return options


@dataclass(frozen=True)
@with_sampling_options("width", "halt", "halt_at", "halt_by")
class WideSampling(Sampling):
    """How the trajectories of a puzzle are sampled."""


@dataclass(frozen=True)
@with_sampling_options("decode", "initial", "perturb")
class Ablations(WideSampling):
    """How trajectories are sampled, with the ablations of the paper."""
