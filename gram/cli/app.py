"""The command `gram`. Heavy imports are inside the commands, so that `gram --help` answers at once."""

import json
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, NoReturn

import typer
from rich.console import Console

from gram.cli.report import FIGURES, answers_as_json, check_target, show_answers, show_result, watch_search
from gram.errors import GramError, Interrupted, PeerDied
from gram.progress import bar

if TYPE_CHECKING:
    from gram.inference.resampling import Resampling
    from gram.options import SampleOptions
    from gram.solver import Solver

app = typer.Typer(
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
console = Console()

Model = Annotated[
    str,
    typer.Argument(help="A shipped model (nqueens-8, sudoku-generation, ...), a run's folder, or a hub id."),
]
Width = Annotated[int | None, typer.Option(help="Trajectories per puzzle. Default: the model's recipe.")]
Depth = Annotated[int | None, typer.Option(help="Supervision steps. Default: the model's recipe.")]
Temperature = Annotated[float | None, typer.Option(help="Noise temperature; 0 follows the mean. Default: the recipe.")]
Seed = Annotated[int, typer.Option(min=0, max=2**32 - 1, help="Seed of the noise.")]
Device = Annotated[str, typer.Option(help="auto, cpu, cuda or mps.")]
HaltAt = Annotated[float | None, typer.Option(help="Probability of being right from which on it says so.")]
Halt = Annotated[bool | None, typer.Option("--halt/--no-halt", help="Stop a trajectory when its halt head says so.")]
Steps = Annotated[int | None, typer.Option(min=1, help="Diffusion models: steps of the sampler. Default: all.")]
TopP = Annotated[float | None, typer.Option(help="Autoregressive models: share of probability to draw from.")]
ONE_THREAD_WIDTH = 64
"""Up to this many trajectories one thread is fastest: on a busy machine several would mostly wait for each other."""
Split = Literal["train", "validation", "test"]


def _version(wanted: bool) -> None:
    if wanted:
        from gram import __version__

        print(__version__)
        raise typer.Exit


@app.callback()
def every_command(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Say the version, and exit.")
    ] = False,
) -> None:
    """Generative recursive reasoning: tiny networks refine a latent state, at random, until many answers stand."""


@app.command("eval")
def evaluate_model(
    model: Model,
    width: Width = None,
    depth: Depth = None,
    temperature: Temperature = None,
    steps: Steps = None,
    top_p: TopP = None,
    seed: Seed = 0,
    halt: Halt = None,
    halt_at: HaltAt = None,
    device: Device = "auto",
    split: Annotated[Split, typer.Option(help="Which inputs.")] = "test",
    limit: Annotated[int | None, typer.Option(min=1, help="Only the first inputs of the split.")] = None,
    decode: Annotated[
        Literal["argmax", "sample"] | None, typer.Option(help="Ablation: sample the output tokens.")
    ] = None,
    initial: Annotated[
        Literal["fixed", "random"] | None, typer.Option(help="Ablation: draw z_0 anew each time.")
    ] = None,
    perturb: Annotated[
        float | None, typer.Option(help="PTRM: deviation of noise added to h before every step. Default: 0.")
    ] = None,
    resample: Annotated[str, typer.Option(help="Resample by value (LPRM) after these steps, such as 2,4.")] = "",
    power: Annotated[float, typer.Option(help="Resampling weights are value ** power.")] = 1.0,
    calibration: Annotated[bool, typer.Option("--calibration", help="Test both heads, and draw it.")] = False,
    figure: Annotated[Path, typer.Option(help="Where the calibration goes.")] = Path("gram-calibration.png"),
    json_file: Annotated[Path | None, typer.Option("--json", help="Write every figure and setting here.")] = None,
    submission: Annotated[Path | None, typer.Option(help="ARC: write a Kaggle submission file.")] = None,
) -> None:
    """Accuracy, coverage and steps on held-out inputs (validity for generated ones, pass@k for ARC)."""
    check_target(json_file)
    check_target(submission)
    check_target(figure if calibration else None, FIGURES)
    from gram.evaluation.evaluate import evaluate

    solver = load_solver(model, device)
    options = sampling_options(
        solver,
        width=width,
        depth=depth,
        temperature=temperature,
        steps=steps,
        top_p=top_p,
        seed=seed,
        halt=False if calibration else halt,
        halt_at=halt_at,
        decode=decode,
        initial=initial,
        perturb=perturb,
        keep_steps=calibration or None,
    )
    resampling = _resampling(resample, power, options)
    if calibration and not solver.task.has_rules:
        raise GramError(f"Task {solver.task.name} has no checker to calibrate the heads against.")
    if submission is not None and (solver.task.scoring != "votes" or split != "test"):
        raise GramError("A submission is written for the test split of ARC only.")
    examples = solver.task.split(split)
    total = len(examples.distinct(limit).rows) * options.width
    with bar(console, "sampling", total) as advance:
        result = evaluate(
            solver.model,
            solver.task,
            split,
            options,
            limit=limit,
            progress=advance,
            examples=examples,
            submission=submission,
            resampling=resampling,
        )
    result["model"] = model
    show_result(console, result)
    if calibration:
        from gram.plots.boards import calibration_figure

        title = f"{model}: {result['task']}, {split} split, depth {options.depth} x width {options.width}, seed {seed}"
        calibration_figure(result["calibration"], title, figure)
        console.print(f"Calibration, drawn: {figure}", markup=False, soft_wrap=True)
    if json_file is not None:
        json_file.write_text(json.dumps(result, indent=2) + "\n")
        console.print(f"Every figure with its settings: {json_file}", markup=False, soft_wrap=True)


@app.command()
def solve(
    model: Model,
    puzzle: Annotated[str, typer.Argument(help="The puzzle as text, rows separated by '/', or - for standard input.")],
    width: Width = None,
    depth: Depth = None,
    temperature: Temperature = None,
    seed: Seed = 0,
    halt: Halt = None,
    halt_at: HaltAt = None,
    until: Annotated[
        str | None, typer.Option(help="Instead of a width: first, all, seconds (10s), or a number of samples.")
    ] = None,
    rule: Annotated[
        str | None, typer.Option(help="How the answer is chosen: first, vote, value, halt, verified (default).")
    ] = None,
    watch: Annotated[bool, typer.Option("--watch", help="Print the best board after every supervision step.")] = False,
    device: Device = "auto",
    figure: Annotated[Path | None, typer.Option(help="Draw the boards over the steps into this file.")] = None,
    show: Annotated[int, typer.Option(min=0, help="How many distinct solutions to print.")] = 4,
    json_file: Annotated[Path | None, typer.Option("--json", help="Write the answers as JSON.")] = None,
) -> None:
    """Solve one puzzle: sample trajectories, verify their answers, print the distinct solutions."""
    check_target(figure, FIGURES)
    check_target(json_file)
    text = _standard_input() if puzzle == "-" else puzzle
    solver = load_solver(model, device)
    given = solver.task.parse(text)
    chosen_by = solver.rule(rule)  # type: ignore[arg-type]
    options = sampling_options(
        solver, width=width, depth=depth, temperature=temperature, seed=seed, halt=halt, halt_at=halt_at
    )
    if options.width <= ONE_THREAD_WIDTH:
        import torch

        torch.set_num_threads(1)
    settings = options.heeded(solver.model.sample_settings) | ({} if figure is None else {"keep_steps": True})
    if watch:
        result = watch_search(
            console, solver, solver.stream(given, until=until or options.width, **settings), chosen_by
        )
    else:
        result = solver.solve(given, until=until, rule=chosen_by, **settings)
    show_answers(console, result, show)
    if figure is not None:
        from gram.plots.boards import trajectories_figure

        trajectories_figure(result, figure)
        console.print(f"Boards over the steps: {figure}", markup=False, soft_wrap=True)
    if json_file is not None:
        json_file.write_text(json.dumps(answers_as_json(result), indent=2) + "\n")
    if not result.verified:
        raise typer.Exit(3)


@app.command()
def data(
    task: Annotated[str, typer.Argument(help="A task: nqueens-8, colouring-8, sudoku-hard, arc-1, mnist, tokens, ...")],
    options: Annotated[
        list[str] | None, typer.Argument(help="The task's options, such as seed=1 path=mine.jsonl.")
    ] = None,
    show: Annotated[int, typer.Option(min=0, help="Print this many examples.")] = 0,
    figure: Annotated[
        Path | None, typer.Option(help="Draw examples and the distribution of solution counts into this file.")
    ] = None,
) -> None:
    """Prepare a task's data; print its splits, their hash, solution counts, and examples."""
    check_target(figure, FIGURES)
    from gram.cli.data_report import report_data
    from gram.recipe import parse_options
    from gram.tasks import make_task

    report_data(console, make_task(task, **parse_options(options or [])), show, figure)


@app.command()
def demo(
    figure: Annotated[Path, typer.Option(help="Where the figure goes.")] = Path("gram-demo.png"),
    seed: Seed = 0,
) -> None:
    """Solve held-out puzzles with the shipped models, print boards, and draw the trajectories."""
    check_target(figure, FIGURES)
    from gram.cli.demo import run_demo

    run_demo(console, figure, seed)


def load_solver(model: str | Path, device: str) -> "Solver":
    """Load a model, and let the allocator keep its memory: this process does nothing else."""
    from gram.machine import keep_freed_memory
    from gram.solver import load

    keep_freed_memory()
    return load(model, device=device)


def load_same_task(models: list[str], device: str) -> "dict[str, Solver]":
    """Load several models whose figures are to stand beside each other."""
    solvers = {name: load_solver(name, device) for name in models}
    if len({(solver.task.name, solver.task.split_hash()) for solver in solvers.values()}) > 1:
        raise GramError("These models are of different tasks or splits: their figures cannot stand beside each other.")
    return solvers


def whole_numbers(name: str, text: str) -> list[int]:
    """Numbers from 1 on, separated by commas; sorted, each once."""
    try:
        numbers = sorted({int(part) for part in text.split(",")})
    except ValueError as error:
        raise GramError(f"{name} are whole numbers separated by commas, not '{text}'.") from error
    if numbers[0] < 1:
        raise GramError(f"{name} must be at least 1, not {numbers[0]}.")
    return numbers


def sampling_options(solver: "Solver", **given: Any) -> "SampleOptions":
    """The model's own options, changed by those given on the command line."""
    return solver.with_options(**{name: value for name, value in given.items() if value is not None})


def _resampling(steps: str, power: float, options: "SampleOptions") -> "Resampling | None":
    if not steps:
        return None
    from gram.inference.resampling import Resampling

    try:
        resampling = Resampling([int(step) for step in steps.split(",")], power)
    except ValueError as error:
        raise GramError(f"--resample takes steps separated by commas, such as 2,4, not '{steps}'.") from error
    resampling.check(options)
    return resampling


def _standard_input() -> str:
    if sys.stdin is None:
        raise GramError("There is no standard input to read the puzzle from.")
    return sys.stdin.buffer.read().decode("utf-8-sig", "replace")


def main() -> None:
    """Run the command; whatever the user can put right becomes one sentence on standard error and exit code 1."""
    import gram.cli.generation
    import gram.cli.inference
    import gram.cli.scores
    import gram.cli.serve
    import gram.cli.training  # noqa: F401 - their commands register themselves

    try:
        app()
    except Interrupted as error:
        _fail(str(error), error.exit_code)
    except GramError as error:
        _fail(str(error), quiet=not (is_first_process() or isinstance(error, PeerDied)))
    except (
        OSError,
        MemoryError,
        UnicodeError,
    ) as error:  # a full disk, a folder that may not be read, too large a width
        _fail(f"{type(error).__name__}: {' '.join(str(error).split()) or 'not enough memory'}")


def _fail(message: str, code: int = 1, *, quiet: bool = False) -> NoReturn:
    if not quiet:
        print(message if code > 1 else f"Error: {message}", file=sys.stderr)
    raise SystemExit(code)


def is_first_process() -> bool:
    """Whether this process speaks for all that torchrun or SLURM has started."""
    return int(os.environ.get("RANK", os.environ.get("SLURM_PROCID", 0))) == 0
