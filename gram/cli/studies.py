"""The commands that study a model beyond its scores: `scaling` and `latent`."""

from pathlib import Path
from typing import Annotated

import typer

from gram.cli.common import console, numbers, say, write_json
from gram.cli.options import AllowOtherData, Figure, JsonFile, Limit, Loading, Model, Models, Seed, Split
from gram.cli.report import show_study
from gram.cli.targets import check_targets
from gram.experiments.figures import scaling_figure
from gram.experiments.scaling import scaling_study
from gram.plots.latent import latent_figure, latent_paths
from gram.tasks.base import multimodal_input


def scaling(
    models: Models,
    *,
    loading: Loading,
    depths: Annotated[str, typer.Option(help="Supervision steps to evaluate at.")] = "1,2,4,8,16,32,64",
    widths: Annotated[str, typer.Option(help="Numbers of trajectories per puzzle.")] = "1,5,10,20,50",
    limit: Limit = 100,
    split: Split = "test",
    seed: Seed = 0,
    figure: Figure = Path("gram-scaling.png"),
    json_file: JsonFile = None,
    allow_other_data: AllowOtherData = False,
) -> None:
    """Measure accuracy over depth x width for every selection rule, and coverage.

    Smaller settings are read off the trajectories of the largest one; where a model's temperature falls over the depth,
    each depth is sampled by itself.
    """
    check_targets(models, figure=figure, json=json_file)
    steps, many = numbers("depths", depths), numbers("widths", widths)
    studies = {}
    for name, solver in loading.load_same_task(models, allow_other_data=allow_other_data).items():
        studies[name] = scaling_study(solver, steps, many, console, limit=limit, split=split, seed=seed)
        show_study(console, name, studies[name])
    scaling_figure(studies, figure)
    say(f"Accuracy over depth and width: {figure}")
    write_json(json_file, studies)


def latent(
    model: Model,
    puzzle: Annotated[str, typer.Argument(help="The puzzle as text. Default: a test input with many solutions.")] = "",
    *,
    loading: Loading,
    width: Annotated[int, typer.Option(min=1, help="Trajectories; a deterministic model has one.")] = 50,
    depth: Annotated[int | None, typer.Option(help="Supervision steps. Default: the model's own.")] = None,
    seed: Seed = 0,
    figure: Figure = Path("gram-latent.png"),
) -> None:
    """Plot the latent states of many trajectories on one puzzle over the loss landscape (PCA, k-d tree)."""
    check_targets([], figure=figure)
    solver = loading.load(model)
    given = solver.task.parse(puzzle) if puzzle else multimodal_input(solver.task)
    options = solver.with_options(width=width, seed=seed, **({} if depth is None else {"depth": depth}))
    paths = latent_paths(solver, given, options)
    count, ends = len(paths.valid), int(paths.valid.sum())
    title = f"{Path(model).name}: {count} trajectories of {options.depth} steps, {ends} end in a solution"
    latent_figure(paths, title, figure)
    say(f"{title}: {figure}")
