"""The commands `gram models` and `gram solve`."""

import sys
from pathlib import Path
from typing import Annotated

import typer
from rich.table import Table

from gram.checkpoints.find import list_models
from gram.cli.common import console, refuse_ignored, say, write_json
from gram.cli.options import JsonFile, Model, WideSampling
from gram.cli.report import answers_as_json, results_text, show_answers, watch_search
from gram.cli.solve_file import solve_file
from gram.cli.targets import check_targets
from gram.errors import GramError


def models(json_file: JsonFile = None) -> None:
    """List the shipped models with their task, size and held-out results."""
    check_targets([], json=json_file)
    table = Table("model", "task", "parameters", "held-out results")
    found = list_models()
    for name, about in found.items():
        table.add_row(name, about.task, f"{about.parameters:,}", results_text(about.results))
    console.print(table)
    say("Load one with gram.load(NAME) in Python, or give its name to any command that takes a model.")
    write_json(json_file, {name: about.as_json() for name, about in found.items()})


def solve(
    model: Model,
    puzzle: Annotated[
        str | None, typer.Argument(help="The puzzle as text, rows separated by '/', or - for standard input.")
    ] = None,
    *,
    sampling: WideSampling,
    file: Annotated[Path | None, typer.Option(help="Solve every puzzle of this text file, one per line.")] = None,
    out: Annotated[
        Path | None, typer.Option(help="With --file: write the answers to this JSON lines file, and resume from it.")
    ] = None,
    until: Annotated[
        str | None,
        typer.Option(help="Search until: first (verified solution), all, a time (10s) or a number of samples."),
    ] = None,
    rule: Annotated[
        str | None, typer.Option(help="Selection rule: first, vote, value, halt or verified (the default).")
    ] = None,
    watch: Annotated[bool, typer.Option("--watch", help="Print the best board after every supervision step.")] = False,
    figure: Annotated[Path | None, typer.Option(help="Plot the boards over the steps into this file.")] = None,
    show: Annotated[int | None, typer.Option(min=0, help="Number of solutions to print; 4 by default.")] = None,
    json_file: Annotated[Path | None, typer.Option("--json", help="Write the answers to this JSON file.")] = None,
) -> None:
    """Solve one puzzle: sample trajectories, verify their answers and print the distinct solutions.

    With --file and --out, solve every puzzle of a file; the same command resumes after an interruption. The exit code
    is 3 if an answer was not verified.
    """
    check_targets([model, file], (".jsonl", ".json"), figure=figure, json=json_file, out=out)
    refuse_ignored(
        (until is not None and "width" in sampling.given(), "--until decides how many samples there are: no --width.")
    )
    if (puzzle is None) == (file is None) or (file is None) != (out is None):
        raise GramError("Give a puzzle, or --file with the puzzles and --out for the answers.")
    if file is not None and out is not None:
        single = {"until": until, "watch": watch or None, "figure": figure, "json": json_file, "show": show}
        for name, value in single.items():
            if value is not None:
                raise GramError(f"--{name} is for a single puzzle: leave it out with --file.")
        raise typer.Exit(0 if solve_file(console, model, file, out, sampling, rule) else 3)
    solver = sampling.load(model)
    given = solver.task.parse(_standard_input() if puzzle == "-" else str(puzzle))
    chosen_by = solver.rule(rule)  # type: ignore[arg-type]
    options = sampling.given() | ({} if figure is None else {"keep_steps": True})
    width = sampling.options(solver).width  # refuses what would be ignored
    if watch:
        result = watch_search(console, solver, solver.stream(given, until=until or width, **options), chosen_by)
    else:
        result = solver.solve(given, until=until, rule=chosen_by, **options)
    show_answers(console, result, 4 if show is None else show)
    if figure is not None:
        result.plot(figure)
        say(f"Boards over the steps: {figure}")
    write_json(json_file, answers_as_json(result))
    if not result.verified:
        raise typer.Exit(3)


def _standard_input() -> str:
    if sys.stdin is None:
        raise GramError("There is no standard input to read the puzzle from.")
    return sys.stdin.buffer.read().decode("utf-8-sig", "replace")
