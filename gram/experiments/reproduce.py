"""`gram reproduce`: what is there, what is missing, and how the rest is run, from data to table and figure."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from gram.errors import GramError
from gram.experiments.entry import Entry, Run, Scale
from gram.experiments.figures import draw_entry
from gram.experiments.queue import Job
from gram.experiments.registry import ENTRIES
from gram.experiments.results import (
    RESULTS,
    State,
    expected_minutes,
    load_results,
    log_file,
    state_of,
    training_folder,
    training_recipe,
)
from gram.experiments.tables import entry_table
from gram.files import write_whole
from gram.tasks import check_options


@dataclass(frozen=True)
class Piece:
    """One run and seed of an entry."""

    run: Run
    seed: int
    state: State


@dataclass(frozen=True)
class Overview:
    """How far an entry is at one scale."""

    entry: Entry
    pieces: tuple[Piece, ...]
    minutes: float | None
    """CPU minutes that are still to be trained; None where nobody knows"""

    def count(self, *states: State) -> int:
        """Return how many runs are in one of these states."""
        return sum(piece.state in states for piece in self.pieces)

    def by_training(self, *without: State) -> list[list[Piece]]:
        """Return the runs that are in none of these states, those that share a training together."""
        together: dict[Path, list[Piece]] = {}
        for piece in self.pieces:
            if piece.state not in without:
                key = Path(piece.run.shipped) if piece.run.shipped else training_folder(piece.run, piece.seed)
                together.setdefault(key, []).append(piece)
        return list(together.values())


def overview(entry: Entry, runs: Iterable[Run], seeds: Sequence[int] | None = None) -> Overview:
    """Look at the result files and the trainings of these runs."""
    pieces = tuple(
        Piece(run, seed, state_of(entry, run, seed))
        for run in runs
        for seed in ((0,) if run.shipped else seeds or run.seeds)
    )
    left: dict[Path, float | None] = {}
    for piece in pieces:
        folder = training_folder(piece.run, piece.seed)
        if piece.state != "done" and not (folder / "test.json").is_file():
            left[folder] = expected_minutes(piece.run, ENTRIES.values())
    known = [minutes for minutes in left.values() if minutes is not None]
    return Overview(entry, pieces, None if len(known) < len(left) else sum(known))


def check_changes(runs: Iterable[Run], change: Sequence[str]) -> None:
    """Raise `GramError` if any of these runs cannot take the user's changes to its recipe."""
    for run in runs if change else ():
        if run.shipped:
            raise GramError(
                f"--set changes trainings, but {run.name} is a shipped model, which is only measured: "
                "name the runs to train with --only."
            )
        recipe = training_recipe(run, run.seeds[0], threads=1, extra=change)
        check_options(recipe.task.name, recipe.task.options)


def jobs_of(found: Overview, scale: Scale, *, threads: int, extra: Sequence[str]) -> list[Job]:
    """Return a job for every training that lacks a result and is not running, with all measurements that share it."""
    jobs = []
    for pieces in found.by_training("done", "running"):
        run, seed = pieces[0].run, pieces[0].seed
        names = ",".join(piece.run.name for piece in pieces)
        arguments = ["reproduce", found.entry.name, "--only", names, "--seeds", str(seed), "--scale", scale]
        arguments += ["--launcher", "none", "--threads", str(threads)]
        for change in extra:
            arguments += ["--set", change]
        jobs.append(Job(tuple(arguments), log_file(run, seed), _all_done(found.entry, pieces), threads))
    return jobs


def _all_done(entry: Entry, pieces: Sequence[Piece]) -> Callable[[], bool]:
    return lambda: all(state_of(entry, piece.run, piece.seed) == "done" for piece in pieces)


def write_outputs(entry: Entry, scale: Scale) -> list[Path]:
    """Write table and figure of an entry beside its results, and return their files."""
    runs = entry.runs(scale)
    results = load_results(entry, runs)
    if not results:
        return []
    suffix = "" if scale == "cpu" else f"-{scale}"
    folder = RESULTS / entry.name
    folder.mkdir(parents=True, exist_ok=True)
    written = []
    if table := entry_table(entry, runs, results):
        path = folder / f"table{suffix}.md"
        write_whole(path, lambda target: target.write_text(f"# {entry.title}\n\n{table}\n"))
        written.append(path)
    figure = folder / f"figure{suffix}.png"
    if draw_entry(entry, runs, results, figure):
        written += [figure, figure.with_suffix(".pdf")]
    return written
