"""The command `reproduce`: every table and figure of the paper."""

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

import typer
from rich.table import Table

from gram.checkpoints.card import percent
from gram.cli.common import console, numbers, refuse_ignored, say
from gram.cli.launching import Launching, check_none_failed
from gram.errors import GramError
from gram.experiments.check import check_shipped
from gram.experiments.documents import outdated_documents, write_documents
from gram.experiments.entry import Entry, Scale
from gram.experiments.registry import ENTRIES, find_entry, select_runs
from gram.experiments.reproduce import Overview, check_changes, jobs_of, overview, write_outputs
from gram.experiments.results import State, log_file
from gram.experiments.work import execute


@dataclass(frozen=True)
class Reproducing(Launching):
    """Where and how many runs are trained at once, or one after another in this process."""

    launcher: Annotated[
        Literal["local", "slurm", "none"],
        typer.Option(
            help="local: processes on this machine; slurm: jobs of a cluster, through submitit; none: in this process."
        ),
    ] = "local"  # type: ignore[assignment]


def reproduce(
    name: Annotated[str, typer.Argument(help="A table or figure, such as multi-solution. Without: list all.")] = "",
    *,
    scale: Annotated[
        Scale, typer.Option(help="cpu: ours, an hour on one core at most; paper: the paper's settings, for GPUs.")
    ] = "cpu",
    seeds: Annotated[str, typer.Option(help="Seeds of the trainings, such as 0,1,2. Default: the entry's own.")] = "",
    only: Annotated[
        str, typer.Option(help="Only these runs: names, rows, groups or recipes, separated by commas.")
    ] = "",
    change: Annotated[
        list[str] | None, typer.Option("--set", help="Change a key of all recipes, such as train.steps=100.")
    ] = None,
    launching: Reproducing,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="List the runs and their state; run nothing.")] = False,
    write: Annotated[
        bool, typer.Option("--write", help="Rewrite the tables, figures and model cards from results/.")
    ] = False,
    check: Annotated[
        bool, typer.Option("--check", help="Measure the shipped models again on a tenth of their test splits.")
    ] = False,
) -> None:
    """Reproduce a table or figure of the paper: train what is missing, measure it, and make table and figure.

    Results are files below results/, one for each run and seed; trainings are folders below runs/. What was interrupted
    is resumed by the same command.
    """
    refuse_ignored(
        (write and (check or bool(name)), "--write makes all documents anew: give no name, and no --check."),
        (check and bool(name), "--check measures all shipped models: give no name."),
        (dry_run and not name, "--dry-run lists the runs of one entry: give its name."),
        (not name and bool(only or seeds or change), "--only, --seeds and --set need the name of an entry."),
    )
    if write:
        _write()
    elif check:
        _check()
    elif not name:
        _list(scale)
    else:
        chosen = numbers("seeds", seeds, least=0) if seeds else None
        _run(find_entry(name), scale, chosen, only, change or [], launching, dry_run)


def _list(scale: Scale) -> None:
    """Print every entry with its state and the time that it still takes."""
    caption = (
        "minutes: CPU minutes of training that are left, by earlier results or as planned; ? where neither says. "
        "reported: taken over from an earlier report. outdated: made with another recipe."
    )
    table = Table("name", "done", "minutes", "what it is", caption=caption)
    table.columns[0].no_wrap = True
    for entry in ENTRIES.values():
        found = overview(entry, entry.runs(scale))
        table.add_row(entry.name, _state_text(found), _minutes(found), entry.title)
    console.print(table)


def _state_text(found: Overview) -> str:
    """Say how many runs are done, and what else there is: 3 of 8, 1 running."""
    states: tuple[State, ...] = ("running", "reported", "outdated")
    others = [f"{count} {state}" for state in states if (count := found.count(state))]
    return ", ".join([f"{found.count('done')} of {len(found.pieces)}", *others])


def _minutes(found: Overview) -> str:
    return "?" if found.minutes is None else f"{found.minutes:.0f}"


def _run(
    entry: Entry,
    scale: Scale,
    seeds: list[int] | None,
    only: str,
    change: list[str],
    launching: Reproducing,
    dry_run: bool,
) -> None:
    runs = select_runs(entry, scale, only)
    check_changes(runs, change)
    found = overview(entry, runs, seeds)
    if dry_run:
        _show(found)
        return
    if entry.missing:
        say(f"Note: {entry.missing}")
    if launching.launcher == "none":
        _here(found, scale, launching.threads, change)
        failed, total = [], 0
    else:
        if elsewhere := found.count("running"):
            say(f"{elsewhere} runs are running already, in another process or on a cluster: they are left alone.")
        jobs = jobs_of(found, scale, threads=launching.threads, extra=change)
        total = len(jobs)
        if jobs:
            say(f"{entry.name}: {total} trainings to run or resume, {_minutes(found)} CPU minutes.")
        failed = launching.run(jobs, Path("runs") / ".jobs" / str(os.getpid()))  # several queues may run here
    for path in write_outputs(entry, scale):
        say(f"Written: {path}")
    check_none_failed(failed, total)


def _here(found: Overview, scale: Scale, threads: int, change: list[str]) -> None:
    """Run what is missing one after another in this process."""
    for pieces in found.by_training("done"):
        runs = [piece.run for piece in pieces]
        execute(found.entry, runs, pieces[0].seed, scale, console, threads=threads, extra=change)


def _show(found: Overview) -> None:
    table = Table("run", "seed", "state", "row", "log", title=found.entry.title)
    for piece in found.pieces:
        log = log_file(piece.run, piece.seed)
        shown = str(log) if log.is_file() else ""
        table.add_row(piece.run.name, str(piece.seed), piece.state, f"{piece.run.group}: {piece.run.row}", shown)
    console.print(table)
    say(f"{_minutes(found)} CPU minutes of training are left.")


def _write() -> None:
    written = write_documents()
    for path in written:
        say(f"Written: {path}")
    left = list(outdated_documents())
    if left:
        raise GramError(f"{left[0]} still differs from results/: this is a fault of gram.")
    if not written:
        say("Everything agrees with results/ already.")


def _check() -> None:
    compared, skipped = check_shipped(console)
    table = Table(
        "model", "metric", "result file", "now", "may differ by", "inputs", "", title="shipped models, a tenth"
    )
    for each in compared:
        values = (each.expected, each.found, each.allowed)
        shown = (f"{value:.2f}" if each.metric == "fid" else percent(value) for value in values)
        verdict = "agrees" if each.agrees else "DIFFERS"
        table.add_row(each.model, each.metric.replace("_", " "), *shown, f"{each.count:,}", verdict)
    console.print(table)
    for name, reason in skipped.items():
        say(f"{name} was not measured: {reason}")
    wrong = [each for each in compared if not each.agrees]
    if wrong:
        raise GramError(f"{len(wrong)} of {len(compared)} metrics do not agree with results/, {wrong[0].model} first.")
    if not compared:
        raise GramError("No shipped model could be measured: see above.")
