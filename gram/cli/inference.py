"""Commands that study what more thinking buys: depth, width, and the paths of thought."""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from gram.cli.app import Depth, Device, Model, Seed, Split, app, console, load_same_task, load_solver, whole_numbers
from gram.cli.report import FIGURES, check_target
from gram.progress import bar

if TYPE_CHECKING:
    from gram.tasks.base import Task, Tokens

SEARCHED = 200
"""Test inputs among which `gram latent` takes the one with most solutions."""
DEPTHS = "1,2,4,8,16,32,64"
WIDTHS = "1,5,10,20,50"


@app.command()
def scaling(
    models: Annotated[list[str], typer.Argument(help="Models of one task: shipped names, run folders, or hub ids.")],
    depths: Annotated[str, typer.Option(help="Supervision steps to look at.")] = DEPTHS,
    widths: Annotated[str, typer.Option(help="Trajectories per puzzle to look at.")] = WIDTHS,
    limit: Annotated[int, typer.Option(min=1, help="Inputs of the split.")] = 100,
    split: Annotated[Split, typer.Option(help="Which inputs.")] = "test",
    seed: Seed = 0,
    device: Device = "auto",
    figure: Annotated[Path, typer.Option(help="Where the figure goes.")] = Path("gram-scaling.png"),
    json_file: Annotated[Path | None, typer.Option("--json", help="Write every figure and setting here.")] = None,
) -> None:
    """Accuracy over depth x width by every rule of choosing, from one pass over the same trajectories."""
    check_target(figure, FIGURES)
    check_target(json_file)
    steps, many = whole_numbers("depths", depths), whole_numbers("widths", widths)
    solvers = load_same_task(models, device)
    from gram.experiments.scaling import scaling_figure, scaling_study

    studies = {}
    for name, solver in solvers.items():
        count = len(solver.task.split(split).distinct(limit).rows)
        with bar(console, f"sampling {name}", count * max(many)) as advance:
            studies[name] = scaling_study(solver, steps, many, limit=limit, split=split, seed=seed, progress=advance)
        _show_study(name, studies[name])
    scaling_figure(studies, figure)
    console.print(f"Depth and width, drawn: {figure}", markup=False, soft_wrap=True)
    if json_file is not None:
        json_file.write_text(json.dumps(studies, indent=2) + "\n")


@app.command()
def latent(
    model: Model,
    puzzle: Annotated[str, typer.Argument(help="The puzzle as text. Default: a test input with many solutions.")] = "",
    width: Annotated[int, typer.Option(min=1, help="Trajectories; a deterministic model has one.")] = 50,
    depth: Depth = None,
    seed: Seed = 0,
    device: Device = "auto",
    figure: Annotated[Path, typer.Option(help="Where the figure goes.")] = Path("gram-latent.png"),
) -> None:
    """Draw the latent states of many trajectories on one puzzle over the loss landscape (PCA, k-d tree)."""
    check_target(figure, FIGURES)
    solver = load_solver(model, device)
    given = solver.task.parse(puzzle) if puzzle else _with_most_solutions(solver.task)
    options = solver.with_options(width=width, **({} if depth is None else {"depth": depth}))
    from gram.plots.latent import latent_figure, latent_paths

    count = 1 if solver.reasoner.is_deterministic(options) else width
    paths = latent_paths(solver, given, width=count, depth=options.depth, seed=seed)
    title = (
        f"{Path(model).name}: {count} trajectories of {options.depth} steps, {int(paths.valid.sum())} end in a solution"
    )
    latent_figure(paths, title, figure)
    console.print(f"{title}: {figure}", markup=False, soft_wrap=True)


def _with_most_solutions(task: "Task") -> "Tokens":
    inputs = task.split("test").distinct(SEARCHED).inputs
    counts = task.solution_counts(inputs)
    chosen: Tokens = inputs[0 if counts is None else int(counts.argmax())]
    return chosen


def _show_study(name: str, result: dict[str, Any]) -> None:
    from rich.table import Table

    from gram.cli.report import percent
    from gram.inference.select import RULES

    title = f"{name}: {result['inputs']} inputs of {result['task']}, {result['split']} split {result['split_hash']}"
    table = Table("depth", "width", *RULES, "coverage", title=title)
    for record in result["records"]:
        shares = (percent(record[key]) for key in (*RULES, "coverage"))
        table.add_row(str(record["depth"]), str(record["width"]), *shares)
    console.print(table)
