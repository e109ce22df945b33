"""The commands that make models: `train`, `sweep`, `plot` and `import`."""

from pathlib import Path
from typing import Annotated, Literal

import typer

from gram.checkpoints.find import find_model
from gram.checkpoints.migrate import migrate
from gram.checkpoints.published import import_checkpoint
from gram.cli.common import console, say, write_json
from gram.cli.launching import Launching, check_none_failed
from gram.cli.options import AllowOtherData, JsonFile, RecipeName
from gram.cli.report import show_result, show_sweep
from gram.cli.sweep import check_jobs, plan, queued, summary
from gram.cli.targets import check_targets
from gram.config import RECIPES, Recipe, find_recipe, load_recipe, parse_options
from gram.errors import GramError
from gram.plots.curves import runs_figure
from gram.processes import is_first_process
from gram.tasks import is_outside
from gram.training import loop
from gram.training.log import METRICS_FILE, read_metrics


def train(
    recipe: Annotated[
        str | None, typer.Argument(help="A shipped recipe such as nqueens-8/gram, or a recipe file.")
    ] = None,
    overrides: Annotated[list[str] | None, typer.Argument(help="Changes, such as train.lr=3e-4 train.seed=1.")] = None,
    out: Annotated[
        Path | None,
        typer.Option(
            help="Folder of the run; must not exist. Default: runs/FOLDER-RECIPE, or runs/NAME for NAME.yaml."
        ),
    ] = None,
    resume: Annotated[
        Path | None,
        typer.Option(help="Resume the run in this folder exactly; with a recipe, start it if the folder is new."),
    ] = None,
    plugin: Annotated[
        str | None, typer.Option(help="With --resume: the run's plugin of the task tokens. Its code is run.")
    ] = None,
    allow_other_data: AllowOtherData = False,
    start: Annotated[
        str | None,
        typer.Option(
            "--from", help="Start from the weights of this model, widened if need be, instead of random ones."
        ),
    ] = None,
) -> None:
    """Train a model by a recipe and evaluate it on the test split. SIGTERM and Ctrl-C save the run first."""
    settings = None if recipe is None else load_recipe(recipe, overrides or [])
    if resume is not None:
        if out is not None or start is not None:
            raise GramError("--resume continues the run in its own folder: leave out --out and --from.")
        folder = resume
        result = loop.resume(resume, console, settings, plugin=plugin, allow_other_data=allow_other_data)
    elif plugin is not None or allow_other_data:
        raise GramError("--plugin and --allow-other-data are for --resume: a new run takes its plugin from the recipe.")
    elif settings is None or recipe is None:
        raise GramError("Give a recipe, such as nqueens-8/gram, or a run's folder with --resume.")
    else:
        folder = out or Path("runs") / _run_name(recipe)
        result = loop.train(settings, folder, console, start=None if start is None else find_model(start))
    if not is_first_process():
        return
    show_result(console, result)
    say(f"The model is in {folder}: gram solve {folder} PUZZLE{_own_code(settings)}")


def plot(
    runs: Annotated[list[Path], typer.Argument(help="Folders of runs.")],
    figure: Annotated[
        Path | None, typer.Option(help="File of the figure. Default: RUN/curves.png of the first run.")
    ] = None,
) -> None:
    """Plot the training curves of one or several runs: losses, accuracies, and the ELBO beside the surrogate."""
    target = figure or runs[0] / "curves.png"
    check_targets([], figure=target)
    found = {}
    for run in runs:
        if not (run / METRICS_FILE).is_file():
            raise GramError(f"{run} is not the folder of a run: {METRICS_FILE} is missing.")
        lines, problems = read_metrics(run)
        for problem in problems:
            say(f"Warning: {problem}")
        if not lines:
            raise GramError(f"{run} has no metrics yet.")
        found[str(run)] = lines
    runs_figure(found, target)
    say(f"Curves: {target}")


def sweep(
    recipe: RecipeName,
    overrides: Annotated[
        list[str], typer.Argument(help="Changes; several values are separated by commas: train.seed=0,1,2.")
    ],
    out: Annotated[
        Path | None,
        typer.Option(help="Folder of the runs; unfinished ones are resumed. Default: runs/FOLDER-RECIPE-sweep."),
    ] = None,
    *,
    launching: Launching,
    json_file: JsonFile = None,
) -> None:
    """Train every combination of values side by side; print mean and standard deviation over the seeds."""
    path = find_recipe(recipe)
    check_targets([path], json=json_file)
    folder = out or Path("runs") / f"{_run_name(recipe)}-sweep"
    planned = plan(overrides, folder, threads=launching.threads)
    check_jobs(path, planned)
    failed = launching.run([queued(path, run) for run in planned], folder / ".jobs")
    entries = summary(planned)
    show_sweep(console, entries)
    write_json(json_file, entries)
    check_none_failed(failed, len(planned))


def import_model(
    checkpoint: Annotated[Path, typer.Argument(help="A published checkpoint (.safetensors or torch file).")],
    kind: Annotated[Literal["trm", "hrm"], typer.Option("--as", help="Checkpoint type.")],
    out: Annotated[Path, typer.Option(help="Folder to write; must not exist.")],
    task: Annotated[str, typer.Option(help="The task that the model was trained on.")] = "none",
    overrides: Annotated[
        list[str] | None, typer.Argument(help="Settings that the file does not contain, such as num_heads=8.")
    ] = None,
) -> None:
    """Convert a published HRM or TRM checkpoint to a gram model folder."""
    folder = import_checkpoint(checkpoint, kind, out, task=task, overrides=parse_options(overrides or []))
    say(f"Imported into {folder}")


def migrate_folder(
    folder: Annotated[Path, typer.Argument(help="A model or run folder that an older version of gram wrote.")],
) -> None:
    """Convert a model or run of an older version, in place.

    Weights keep their values. An unfinished run of an older version cannot be resumed: train on from its weights with
    `gram train RECIPE --from FOLDER`.
    """
    done = migrate(folder)
    for line in done:
        say(line)
    if not done:
        say(f"{folder} is already in the current format.")


def _own_code(recipe: Recipe | None) -> str:
    """Return the options that name the user's own code again: a model never runs it by itself."""
    if recipe is None:
        return ""
    plugin = recipe.task.options.get("plugin")
    task = f" --task {recipe.task.name}" if is_outside(recipe.task.name) else ""
    return f"{task} --plugin {plugin}" if plugin else task


def _run_name(recipe: str) -> str:
    """Return nqueens-8-gram for the shipped recipe nqueens-8/gram, and mine for a file mine.yaml."""
    path = find_recipe(recipe).resolve()
    return f"{path.parent.name}-{path.stem}" if RECIPES.resolve() in path.parents else path.stem
