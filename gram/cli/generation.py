"""The commands about models that generate: samples out of nothing, and the likelihood of held-out answers."""

import json
import signal
import time
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from gram.cli.app import (
    Depth,
    Device,
    Model,
    Seed,
    Split,
    Steps,
    Temperature,
    TopP,
    app,
    console,
    load_same_task,
    load_solver,
    sampling_options,
    whole_numbers,
)
from gram.cli.report import FIGURES, check_target, settings_text, show_samples
from gram.errors import GramError, Interrupted
from gram.progress import bar

if TYPE_CHECKING:
    from gram.config import SampleOptions
    from gram.solver import Solver

STEPS = "8,16,32,64,128,256"
DRAWN = 100
"""Samples in a figure, at most."""
MOVING, ROWS = 16, 4
"""Samples whose coming about is drawn: in an animation, in a figure."""


@app.command()
def generate(
    model: Model,
    count: Annotated[int, typer.Option("--count", "-n", min=1, help="How many samples.")] = 16,
    depth: Depth = None,
    temperature: Temperature = None,
    steps: Steps = None,
    top_p: TopP = None,
    seed: Seed = 0,
    device: Device = "auto",
    out: Annotated[
        Path | None, typer.Option(help="Write all samples here (.npz); the same command goes on if it was broken off.")
    ] = None,
    figure: Annotated[Path, typer.Option(help="Draw the first hundred samples into this file.")] = Path(
        "gram-samples.png"
    ),
    process: Annotated[
        Path | None, typer.Option(help="Draw how samples come about, step by step: a figure, or a .gif that moves.")
    ] = None,
    show: Annotated[int, typer.Option(min=0, help="How many samples to print.")] = 4,
    json_file: Annotated[Path | None, typer.Option("--json", help="Write every figure and setting here.")] = None,
) -> None:
    """Generate boards or images out of nothing; say how many are valid, distinct and new."""
    check_target(out, (".npz",))
    check_target(figure, FIGURES)
    check_target(process, (*FIGURES, ".gif"))
    check_target(json_file)
    if process == figure:
        raise GramError(f"--figure and --process are both {figure}: give them different names.")
    from gram.evaluation.generation import score_samples
    from gram.inference.stream import already_drawn, chosen_options
    from gram.inference.stream import generate as draw
    from gram.plots.gallery import sheet_figure

    solver = load_solver(model, device)
    options = sampling_options(solver, depth=depth, temperature=temperature, steps=steps, top_p=top_p, seed=seed)
    chosen = chosen_options(solver, options)
    drawn = count - (already_drawn(solver, count, options, out) if out is not None else 0)
    if process is not None:
        _draw_process(model, solver, options, min(count, MOVING if process.suffix == ".gif" else ROWS), process)
    started = time.perf_counter()
    try:
        with bar(console, "generating", count) as advance:
            samples = draw(solver, count, options, path=out, progress=advance)
    except KeyboardInterrupt as error:
        kept = "Nothing was written." if out is None else f"The same command goes on from {out}.part."
        raise Interrupted(f"Stopped. {kept}", signal.SIGINT) from error
    seconds = time.perf_counter() - started
    scores = score_samples(solver.task, samples)
    show_samples(console, solver.task, samples[:show].astype(int), scores)
    settings = settings_text(chosen)
    console.print(
        f"{settings}; {solver.model.parameter_count:,} parameters; {drawn:,} drawn in {seconds:.1f} s", highlight=False
    )
    title = f"{Path(model).name}: {min(count, DRAWN)} of {count:,} samples, {settings}"
    sheet_figure(solver.task, samples[:DRAWN].astype(int), title, figure)
    for path, what in ((figure, "Samples, drawn"), (process, "How they came about"), (out, "All samples")):
        if path is not None:
            console.print(f"{what}: {path}", markup=False, soft_wrap=True)
    if json_file is not None:
        figures = {**scores, "model": model, "task": solver.task.name, "drawn": drawn, "seconds": seconds, **chosen}
        json_file.write_text(json.dumps(figures, indent=2) + "\n")


@app.command()
def likelihood(
    models: Annotated[list[str], typer.Argument(help="Models of one task: shipped names, run folders, or hub ids.")],
    split: Annotated[Split, typer.Option(help="Whose answers.")] = "test",
    limit: Annotated[int, typer.Option(min=1, help="Rows of the split.")] = 500,
    seed: Seed = 0,
    device: Device = "auto",
    json_file: Annotated[Path | None, typer.Option("--json", help="Write every figure here.")] = None,
) -> None:
    """How likely held-out answers are to each model, in nats: exact, or a lower bound, and said which."""
    check_target(json_file)
    from rich.table import Table

    from gram.evaluation.likelihood import likelihood as measure

    solvers = load_same_task(models, device)
    found = {}
    for name, solver in solvers.items():
        examples = solver.task.split(split)
        with bar(console, f"measuring {name}", min(limit, len(examples))) as advance:
            found[name] = measure(solver.model, examples, limit=limit, seed=seed, progress=advance)
    some = next(iter(solvers.values())).task
    title = f"{some.name}, {split} split {some.split_hash()}: log p(answer | input), mean over rows"
    table = Table("model", "parameters", "nats", "standard error", "rows", "how", title=title)
    for name, figures in found.items():
        sign = "" if figures.exact else ">= "
        shown = (f"{sign}{figures.nats:.2f}", f"{figures.error:.2f}", f"{figures.rows:,}", figures.meaning)
        table.add_row(name, f"{solvers[name].model.parameter_count:,}", *shown)
    console.print(table)
    if json_file is not None:
        json_file.write_text(json.dumps({name: asdict(figures) for name, figures in found.items()}, indent=2) + "\n")


@app.command()
def images(
    models: Annotated[list[str], typer.Argument(help="Models of mnist or digits: run folders, or hub ids.")],
    count: Annotated[int, typer.Option("--count", "-n", min=10, help="Images of each.")] = 1000,
    depths: Annotated[str, typer.Option(help="Supervision steps at which a recursive model is scored.")] = STEPS,
    network: Annotated[
        Literal["classifier", "inception"], typer.Option(help="Who looks: the shipped classifier, or Inception.")
    ] = "classifier",
    temperature: Temperature = None,
    steps: Steps = None,
    seed: Seed = 0,
    device: Device = "auto",
    figure: Annotated[Path, typer.Option(help="Draw ten images of each here.")] = Path("gram-images.png"),
    json_file: Annotated[Path | None, typer.Option("--json", help="Write every figure here.")] = None,
) -> None:
    """The paper's table of image generators: Inception Score and FID of every model, over depths."""
    check_target(figure, FIGURES)
    check_target(json_file)
    chosen_depths = whole_numbers("depths", depths)
    from rich.table import Table

    from gram.evaluation.image_scores import check_network
    from gram.experiments.images import image_rows
    from gram.plots.gallery import rows_figure
    from gram.tasks.images import BinaryImages

    solvers = load_same_task(models, device)
    task = next(iter(solvers.values())).task
    if not isinstance(task, BinaryImages):
        raise GramError(f"{task.name} has no images to score: give models of mnist or digits.")
    check_network(network)
    options = _options_of_each(solvers, temperature=temperature, steps=steps, seed=seed)
    rows = []
    for name, solver in solvers.items():
        with bar(console, f"drawing {name}", count) as advance:
            rows += image_rows(
                name,
                solver,
                count=count,
                depths=chosen_depths,
                options=options[name],
                network=network,
                device=device,
                progress=advance,
            )
    title = f"{task.name}: {count:,} images each against {rows[0].scores.real:,} grey ones, by {network}, seed {seed}"
    table = Table("model", "parameters", "steps", "Inception Score", "FID", title=title)
    for row in rows:
        score = "-" if row.scores.inception_score is None else f"{row.scores.inception_score:.2f}"
        table.add_row(row.model, f"{row.parameters:,}", str(row.steps), score, f"{row.scores.fid:.2f}")
    console.print(table)
    if rows[0].scores.note:
        console.print(f"No Inception Score: {rows[0].scores.note}", markup=False, soft_wrap=True)
    rows_figure(task, [(f"{Path(row.model).name}, {row.steps}", row.shown.astype(int)) for row in rows], title, figure)
    console.print(f"Ten images of each, drawn: {figure}", markup=False, soft_wrap=True)
    if json_file is not None:
        json_file.write_text(json.dumps([row.as_json() for row in rows], indent=2) + "\n")


def _options_of_each(solvers: "dict[str, Solver]", **given: Any) -> "dict[str, SampleOptions]":
    """Different models stand beside each other: each is told what it heeds, and everything must be heeded by one."""
    for key, value in given.items():
        if value is not None and not any(key in solver.model.supported for solver in solvers.values()):
            raise GramError(f"--{key} means nothing to any of these models.")
    return {
        name: sampling_options(solver, **{key: value for key, value in given.items() if key in solver.model.supported})
        for name, solver in solvers.items()
    }


def _draw_process(name: str, solver: "Solver", options: "SampleOptions", count: int, path: Path) -> None:
    """The first samples once more, keeping their steps."""
    from gram.inference.sample import sample
    from gram.inference.stream import blank_input
    from gram.plots.gallery import process_animation, process_figure

    trajectories = sample(solver.reasoner, blank_input(solver.task), replace(options, width=count, keep_steps=True))
    draw = process_animation if path.suffix == ".gif" else process_figure
    draw(solver.task, trajectories, Path(name).name, path)
