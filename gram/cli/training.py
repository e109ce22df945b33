"""The commands that make models: train, tune, bench and import. Heavy imports are inside the commands."""

import json
import os
from itertools import product
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from gram.cli.app import Device, Seed, app, console, is_first_process, load_solver
from gram.cli.report import FIGURES, check_target, ideal_text, percent, show_result, show_sweep
from gram.errors import GramError
from gram.progress import bar


@app.command()
def train(
    recipe: Annotated[Path | None, typer.Argument(help="Recipe file, such as recipes/nqueens-8/gram.yaml.")] = None,
    overrides: Annotated[list[str] | None, typer.Argument(help="Changes, such as train.lr=3e-4 train.seed=1.")] = None,
    out: Annotated[
        Path | None, typer.Option(help="Folder of the run; must not exist. Default: runs/FOLDER-RECIPE.")
    ] = None,
    resume: Annotated[
        Path | None,
        typer.Option(help="Go on with the run in this folder, exactly where it was; with a recipe, begin it if new."),
    ] = None,
) -> None:
    """Train a model by a recipe, and evaluate it on the test split. SIGTERM and Ctrl-C save the run first."""
    from gram.config import load_recipe

    settings = None if recipe is None else load_recipe(recipe, overrides or [])
    if resume is not None:
        if out is not None:
            raise GramError("--resume goes on in the run's own folder: leave out --out.")
        from gram.training.loop import resume as go_on

        folder, result = resume, go_on(resume, console, settings)
    elif settings is None or recipe is None:
        raise GramError("Give a recipe, such as recipes/nqueens-8/gram.yaml, or a run's folder with --resume.")
    else:
        from gram.training.loop import train as run

        folder = out or Path("runs") / f"{recipe.resolve().parent.name}-{recipe.stem}"
        result = run(settings, folder, console)
    if not is_first_process():
        return
    show_result(console, result)
    console.print(f"The model is in {folder}: gram solve {folder} PUZZLE", markup=False, soft_wrap=True)


@app.command()
def tune(
    model: Annotated[Path, typer.Argument(help="A run's folder.")],
    depths: Annotated[str, typer.Option(help="Depths to try.")] = "8,16",
    temperatures: Annotated[str, typer.Option(help="Temperatures to try.")] = "1,1.15,1.3,1.5",
    accuracy: Annotated[float, typer.Option(min=0, max=1, help="Smallest accuracy that a setting must have.")] = 0.99,
    width: Annotated[int, typer.Option(min=1, help="Trajectories per puzzle.")] = 20,
    limit: Annotated[int | None, typer.Option(min=1, help="Only the first inputs.")] = None,
    seed: Seed = 0,
    device: Device = "auto",
) -> None:
    """Choose depth and temperature on the VALIDATION split, and write them into the model's folder.

    The rule: of all settings whose accuracy (over all samples) reaches --accuracy, the one with the highest
    coverage; if none does, the one with the highest accuracy.
    """
    from gram.checkpoints.folder import CONFIG_FILE, change_eval_settings
    from gram.config import SampleOptions
    from gram.evaluation.tune import choose_setting, try_settings

    if not (model / CONFIG_FILE).is_file():
        raise GramError(f"{model} is not the folder of a trained model: {CONFIG_FILE} is missing.")
    check_target(model / "tuned")  # the folder must be writable
    tried_depths, tried_temperatures = _numbers(depths, int), _numbers(temperatures, float)
    for depth, temperature in product(tried_depths, tried_temperatures):
        SampleOptions().changed(depth=depth, temperature=temperature, width=width)  # refuses what cannot be sampled
    solver = load_solver(model.resolve(), device)
    total = len(solver.task.split("validation").distinct(limit).rows) * width * len(tried_temperatures)
    with bar(console, "sampling", total) as advance:
        tried = try_settings(
            solver, tried_depths, tried_temperatures, width=width, seed=seed, limit=limit, progress=advance
        )
    chosen = choose_setting(tried, accuracy)
    from rich.table import Table

    title = "validation split, headline weighting"
    table = Table("depth", "temperature", "accuracy", "coverage", title=title, caption=ideal_text(chosen))
    for item in tried:
        mark = " <- chosen" if item is chosen else ""
        table.add_row(
            str(item["depth"]),
            str(item["temperature"]),
            percent(item["accuracy_all_samples"]),
            percent(item["coverage"]) + mark,
        )
    console.print(table)
    change_eval_settings(model.resolve(), depth=chosen["depth"], temperature=chosen["temperature"], width=width)


@app.command("bench")
def run_bench(
    arguments: Annotated[
        list[str],
        typer.Argument(
            help="A recipe (with --compare two, or JSON files of --json), and changes such as model.dim=128."
        ),
    ],
    steps: Annotated[int, typer.Option(min=1, help="Training steps to time.")] = 20,
    puzzles: Annotated[int, typer.Option(min=1, help="Test inputs to sample.")] = 16,
    compare: Annotated[bool, typer.Option("--compare", help="Print the ratios of the second to the first.")] = False,
    json_file: Annotated[Path | None, typer.Option("--json", help="Write every figure here.")] = None,
) -> None:
    """Measure a recipe's speed here: steps, FLOP/s, share of the matrix-multiply peak, where the time goes."""
    check_target(json_file)
    from gram.cli.bench_report import bench_all, show_bench, show_ratios

    overrides = [argument for argument in arguments if "=" in argument]
    sources = [Path(argument) for argument in arguments if "=" not in argument]
    if len(sources) != (2 if compare else 1):
        raise GramError("Give one recipe, or two with --compare.")
    results = bench_all(console, sources, overrides, steps=steps, puzzles=puzzles)
    show_bench(console, results)
    if compare:
        show_ratios(console, *results.values())
    if json_file is not None:
        json_file.write_text(json.dumps(results if compare else next(iter(results.values())), indent=2) + "\n")


@app.command()
def plot(
    run: Annotated[Path, typer.Argument(help="A run's folder.")],
    figure: Annotated[Path | None, typer.Option(help="Where the figure goes. Default: RUN/curves.png.")] = None,
) -> None:
    """Draw a run's curves: losses, accuracies, and the full ELBO beside the surrogate."""
    target = figure or run / "curves.png"
    check_target(target, FIGURES)
    from gram.training.log import METRICS_FILE, read_metrics

    if not (run / METRICS_FILE).is_file():
        raise GramError(f"{run} is not the folder of a run: {METRICS_FILE} is missing.")
    lines = read_metrics(run)
    if not lines:
        raise GramError(f"{run} has no metrics yet.")
    from gram.plots.boards import run_figure

    run_figure(lines, str(run), target)
    console.print(f"Curves: {target}", markup=False, soft_wrap=True)


@app.command()
def sweep(
    recipe: Annotated[Path, typer.Argument(help="Recipe file.")],
    overrides: Annotated[list[str], typer.Argument(help="Changes; several values by commas: train.seed=0,1,2.")],
    out: Annotated[Path, typer.Option(help="Folder of the runs; what is in it already goes on.")] = Path("runs/sweep"),
    jobs: Annotated[int, typer.Option(min=1, help="Runs at once. Default: one per core.")] = os.cpu_count() or 1,
    threads: Annotated[int, typer.Option(min=1, help="Threads of each run.")] = 1,
    json_file: Annotated[Path | None, typer.Option("--json", help="Write the summary here.")] = None,
) -> None:
    """Train every combination of values, side by side; print mean and standard deviation over the seeds."""
    check_target(json_file)
    from gram.cli.sweep import plan, run_jobs, summary
    from gram.config import load_recipe

    fixed, planned = plan(overrides, out)
    for job in planned:  # a wrong key must not be found by the last run
        load_recipe(recipe, [*fixed, *(f"{key}={value}" for key, value in job.values.items())])
    with bar(console, "runs", len(planned)) as advance:
        failed = run_jobs(recipe, fixed, planned, at_once=jobs, threads=threads, progress=advance)
    entries = summary(planned)
    show_sweep(console, entries)
    if json_file is not None:
        json_file.write_text(json.dumps(entries, indent=2) + "\n")
    if failed:
        raise GramError(f"{len(failed)} of {len(planned)} runs failed: see {failed[0].folder}.log.")


@app.command("import")
def import_model(
    checkpoint: Annotated[Path, typer.Argument(help="A published checkpoint (.safetensors or torch file).")],
    kind: Annotated[Literal["trm", "hrm"], typer.Option("--as", help="Which published model it is.")],
    out: Annotated[Path, typer.Option(help="Folder to write; must not exist.")],
    task: Annotated[str, typer.Option(help="The task it was trained on.")] = "none",
    overrides: Annotated[
        list[str] | None, typer.Argument(help="What the file does not say, such as num_heads=8.")
    ] = None,
) -> None:
    """Turn a published HRM or TRM checkpoint into a gram model folder."""
    from gram.checkpoints.published import import_checkpoint

    settings: dict[str, object] = {}
    for override in overrides or []:
        key, equals, value = override.partition("=")
        if not equals:
            raise GramError(f"'{override}' is not of the form key=value, such as num_heads=8.")
        settings[key] = value
    folder = import_checkpoint(checkpoint, kind, out, task=task, overrides=settings)
    console.print(f"Imported into {folder}", markup=False, soft_wrap=True)


def _numbers(text: str, kind: type) -> list[Any]:
    try:
        return [kind(part) for part in text.split(",")]
    except ValueError as error:
        raise GramError(f"'{text}' is not a list of numbers such as 8,16.") from error
