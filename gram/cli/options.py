"""Options that several commands share, as groups: a command takes a group as one parameter."""

from dataclasses import dataclass, fields
from pathlib import Path
from typing import Annotated, Any, Literal

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


def sampling_option(*names: str, **settings: Any) -> Any:
    """Declare an option that `--help` shows among those of the sampler."""
    return typer.Option(*names, rich_help_panel="Sampling options", **settings)


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
class Sampling(Loading):
    """Sampling options; the defaults are those of the model's recipe."""

    depth: Annotated[int | None, sampling_option(help="Supervision steps per trajectory.")] = None
    temperature: Annotated[float | None, sampling_option(help="Scale of the noise; 0 follows the mean.")] = None
    temperature_final: Annotated[
        float | None, sampling_option(help="The temperature moves linearly to this one over the depth.")
    ] = None
    steps: Annotated[int | None, sampling_option(min=1, help="Diffusion models: sampling steps.")] = None
    top_p: Annotated[float | None, sampling_option(help="Autoregressive models: nucleus sampling threshold.")] = None
    seed: Seed = 0

    def given(self) -> dict[str, Any]:
        """Return the sampling options that were given, by name."""
        loading = [field.name for field in fields(Loading)]
        return {name: value for name, value in vars(self).items() if value is not None and name not in loading}

    def options(self, solver: Solver, **more: Any) -> SampleOptions:
        """Return the model's own options, changed by those that were given; raise `GramError` for unsupported ones."""
        return solver.with_options(**self.given() | more)


@dataclass(frozen=True)
class WideSampling(Sampling):
    """How the trajectories of a puzzle are sampled."""

    width: Annotated[int | None, sampling_option(help="Trajectories per puzzle.")] = None
    halt: Annotated[
        bool | None, sampling_option("--halt/--no-halt", help="Stop trajectories that are predicted to be right.")
    ] = None
    halt_at: Annotated[
        float | None, sampling_option(help="Halt once the predicted probability of being correct exceeds this.")
    ] = None

    halt_by: Annotated[
        Literal["head", "output"] | None,
        sampling_option(help="What predicts that: the halt head, or the decoder's probability of its whole output."),
    ] = None

    def options(self, solver: Solver, **more: Any) -> SampleOptions:
        """Return the model's own options, changed by those that were given; raise `GramError` for ignored ones."""
        options = super().options(solver, **more)
        refuse_ignored(
            (self.halt_at is not None and not options.halt, "--halt-at needs --halt."),
            (self.halt_by is not None and not options.halt, "--halt-by needs --halt."),
        )
        return options


@dataclass(frozen=True)
class Ablations(WideSampling):
    """How trajectories are sampled, with the ablations of the paper."""

    decode: Annotated[
        Literal["argmax", "sample"] | None, sampling_option(help="Ablation: sample the output tokens.")
    ] = None
    initial: Annotated[Literal["fixed", "random"] | None, sampling_option(help="Ablation: sample the state z_0.")] = (
        None
    )
    perturb: Annotated[
        float | None, sampling_option(help="PTRM: standard deviation of noise added to h before every step.")
    ] = None
