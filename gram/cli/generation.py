"""The commands about generative models: `generate`, `likelihood`, `images` and `score`."""

import time
from dataclasses import asdict, replace
from pathlib import Path
from typing import Annotated, Any, Literal

import typer
from rich.table import Table

from gram.cli.common import console, numbers, refuse_ignored, resumable, say, write_json
from gram.cli.options import AllowOtherData, Device, Figure, JsonFile, Loading, Model, Models, Sampling, Seed, Split
from gram.cli.report import show_samples
from gram.cli.targets import check_targets
from gram.config import SampleOptions, settings_text
from gram.errors import GramError
from gram.evaluation.generation import score_samples
from gram.evaluation.image_scores import ImageScores, check_network, image_scores
from gram.evaluation.likelihood import likelihood as measure
from gram.experiments.images import image_rows
from gram.inference import stream
from gram.inference.sample import sample, sharing_depths
from gram.plots.gallery import process_animation, process_figure, rows_figure, sheet_figure
from gram.progress import bar
from gram.solver import Solver
from gram.tasks.images import BinaryImages

DRAWN = 100
"""Samples in a figure, at most."""
MOVING, ROWS = 16, 4
"""Samples whose generation is drawn step by step: in an animation, in a figure."""
Network = Annotated[
    Literal["classifier", "inception"], typer.Option(help="Feature extractor: the shipped classifier, or Inception.")
]


def generate(
    model: Model,
    *,
    sampling: Sampling,
    count: Annotated[int, typer.Option("--count", "-n", min=1, help="Number of samples.")] = 16,
    out: Annotated[
        Path | None,
        typer.Option(help="Write all samples to this .npz file; the same command resumes an interrupted run."),
    ] = None,
    figure: Annotated[Path, typer.Option(help="Draw the first hundred samples into this file.")] = Path(
        "gram-samples.png"
    ),
    process: Annotated[
        Path | None, typer.Option(help="Draw how samples are generated, step by step: a figure, or an animated .gif.")
    ] = None,
    show: Annotated[int, typer.Option(min=0, help="Number of samples to print.")] = 4,
    json_file: JsonFile = None,
) -> None:
    """Generate boards or images unconditionally, and report how many are valid, distinct and new."""
    check_targets([model], (".npz",), out=out, figure=figure, process=process, json=json_file)
    solver = sampling.load(model)
    options = sampling.options(solver)
    chosen = stream.chosen_options(solver, options)
    drawn = count - (stream.already_drawn(solver, count, options, out) if out is not None else 0)
    if process is not None:
        _draw_process(model, solver, options, min(count, MOVING if process.suffix == ".gif" else ROWS), process)
    started = time.perf_counter()
    kept = "Nothing was written." if out is None else f"The same command resumes from {out}.part."
    with resumable(kept), bar(console, "generating", count) as advance:
        samples = stream.generate(solver, count, options, path=out, progress=advance)
    seconds = time.perf_counter() - started
    scores = score_samples(solver.task, samples)
    show_samples(console, solver.task, samples[:show].astype(int), scores)
    settings = settings_text(chosen)
    say(f"{settings}; {solver.model.parameter_count:,} parameters; {drawn:,} drawn in {seconds:.1f} s")
    title = f"{Path(model).name}: {min(count, DRAWN)} of {count:,} samples, {settings}"
    sheet_figure(solver.task, samples[:DRAWN].astype(int), title, figure)
    for path, what in ((figure, "Samples"), (process, "Step by step"), (out, "All samples")):
        if path is not None:
            say(f"{what}: {path}")
    about = {"model": model, "task": solver.task.name, "drawn": drawn, "seconds": seconds}
    write_json(json_file, {**scores, **about, **chosen})


def _draw_process(name: str, solver: Solver, options: SampleOptions, count: int, path: Path) -> None:
    """Draw the first samples once more, this time keeping their steps."""
    blank = stream.blank_input(solver.task)
    trajectories = sample(solver.reasoner, blank, replace(options, width=count, keep_steps=True))
    draw = process_animation if path.suffix == ".gif" else process_figure
    draw(solver.task, trajectories, Path(name).name, path)


def likelihood(
    models: Models,
    *,
    loading: Loading,
    split: Split = "test",
    limit: Annotated[int, typer.Option(min=1, help="Rows of the split.")] = 500,
    seed: Seed = 0,
    json_file: JsonFile = None,
    allow_other_data: AllowOtherData = False,
) -> None:
    """Measure the log-likelihood of held-out answers in nats: exact or a lower bound, and the table says which."""
    check_targets(models, json=json_file)
    solvers = loading.load_same_task(models, allow_other_data=allow_other_data)
    found = {}
    for name, solver in solvers.items():
        examples = solver.task.split(split)
        with bar(console, f"measuring {name}", min(limit, len(examples))) as advance:
            found[name] = measure(solver.model, examples, limit=limit, seed=seed, progress=advance)
    some = next(iter(solvers.values())).task
    title = f"{some.name}, {split} split {some.split_hash()}: log p(answer | input), mean over rows"
    table = Table("model", "parameters", "nats", "standard error", "rows", "estimate", title=title)
    for name, about in found.items():
        sign = "" if about.exact else ">= "
        shown = (f"{sign}{about.nats:.2f}", f"{about.error:.2f}", f"{about.rows:,}", about.meaning)
        table.add_row(name, f"{solvers[name].model.parameter_count:,}", *shown)
    console.print(table)
    write_json(json_file, {name: asdict(about) for name, about in found.items()})


def images(
    models: Models,
    *,
    loading: Loading,
    count: Annotated[int, typer.Option("--count", "-n", min=10, help="Images per model.")] = 1000,
    depths: Annotated[
        str | None,
        typer.Option(help="Supervision steps at which recursive models are scored; 8,16,32,64,128,256 by default."),
    ] = None,
    network: Network = "classifier",
    temperature: Annotated[float | None, typer.Option(help="Scale of the noise.")] = None,
    steps: Annotated[int | None, typer.Option(min=1, help="Diffusion models: sampling steps.")] = None,
    seed: Seed = 0,
    figure: Figure = Path("gram-images.png"),
    json_file: JsonFile = None,
    allow_other_data: AllowOtherData = False,
) -> None:
    """Compare image generators as the paper's table does: Inception Score and FID of every model, over depths."""
    check_targets(models, figure=figure, json=json_file)
    chosen_depths = numbers("depths", depths or "8,16,32,64,128,256")
    solvers = loading.load_same_task(models, allow_other_data=allow_other_data)
    recursive = any(solver.model.recursive for solver in solvers.values())
    refuse_ignored((depths is not None and not recursive, "--depths is for recursive models: these have none."))
    task = next(iter(solvers.values())).task
    if not isinstance(task, BinaryImages):
        raise GramError(f"{task.name} has no images to score: give models of mnist or digits.")
    check_network(network)
    options = _options_of_each(solvers, temperature=temperature, steps=steps, seed=seed)
    rows = []
    for name, solver in solvers.items():
        total = count * len(sharing_depths(solver.model, options[name], chosen_depths))
        with bar(console, f"drawing {name}", total) as advance:
            rows += image_rows(
                name,
                solver,
                count=count,
                depths=chosen_depths,
                options=options[name],
                network=network,
                device=loading.device,
                progress=advance,
            )
    title = f"{task.name}: {count:,} images each against {rows[0].scores.real:,} grey ones, by {network}, seed {seed}"
    table = Table("model", "parameters", "steps", "Inception Score", "FID", "readable", title=title)
    for row in rows:
        score = "-" if row.scores.inception_score is None else f"{row.scores.inception_score:.2f}"
        table.add_row(row.model, f"{row.parameters:,}", str(row.steps), score, *_fid_and_readable(row.scores))
    console.print(table)
    _say_why_not(rows[0].scores)
    rows_figure(task, [(f"{Path(row.model).name}, {row.steps}", row.shown.astype(int)) for row in rows], title, figure)
    say(f"Ten images of each: {figure}")
    write_json(json_file, [row.as_json() for row in rows])


def _options_of_each(solvers: dict[str, Solver], **given: Any) -> dict[str, SampleOptions]:
    """Give each model the options that it supports; every option must be supported by one of them."""
    given = {key: value for key, value in given.items() if value is not None}
    supported = {name: solver.supported(solver.options).keys() for name, solver in solvers.items()}
    for key in given:
        if not any(key in keys for keys in supported.values()):
            raise GramError(f"Option '{key}' is not supported by any of these models.")
    return {
        name: solver.with_options(**{key: value for key, value in given.items() if key in supported[name]})
        for name, solver in solvers.items()
    }


def score(
    file: Annotated[Path, typer.Argument(help="Generated images: an .npz with `tokens` [images, length].")],
    network: Network = "classifier",
    real: Annotated[int | None, typer.Option(min=2, help="Inception: number of real images (10,000).")] = None,
    batch: Annotated[int, typer.Option(min=1, help="Images per batch of the network.")] = 50,
    device: Device = "auto",
    seed: Seed = 0,
    json_file: JsonFile = None,
) -> None:
    """Compute Inception Score and FID of generated digits (mnist, digits) against the grey images of the data."""
    check_targets([file], json=json_file)
    tokens, _ = stream.read_samples(file)
    scores = image_scores(tokens, network=network, real=real, batch=batch, device=device, seed=seed, console=console)
    say(f"{scores.generated:,} images of {scores.task} against {scores.real:,} grey ones, by the network {network}:")
    fid, readable = _fid_and_readable(scores)
    say(f"FID {fid}")
    _say_why_not(scores)
    if scores.inception_score is not None:
        say(f"Inception Score {scores.inception_score:.2f} +- {scores.inception_score_std:.2f}")
    if scores.agreement is not None:
        say(f"Readable: {readable} (two independent classifiers read the same digit)")
    write_json(json_file, asdict(scores))


def _fid_and_readable(scores: ImageScores) -> tuple[str, str]:
    """Return the FID with half of its interval, and the fraction of images in which two classifiers read one digit."""
    spread = "" if scores.fid_interval is None else f" +- {scores.fid_interval[1] - scores.fid:.2f}"
    return f"{scores.fid:.2f}{spread}", "-" if scores.agreement is None else f"{scores.agreement:.1%}"


def _say_why_not(scores: ImageScores) -> None:
    if scores.inception_score is None:
        say(f"No Inception Score: {scores.note}")
