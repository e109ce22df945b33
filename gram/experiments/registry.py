"""All entries by name."""

from gram.errors import GramError
from gram.experiments.entries import (
    ablations,
    choices,
    generation,
    insight,
    multi_solution,
    objective,
    puzzles,
    scaling,
    shipped,
)
from gram.experiments.entry import Entry, Run, Scale

_FAMILIES = (puzzles, multi_solution, generation, ablations, scaling, insight, objective, choices, shipped)
ENTRIES: dict[str, Entry] = {entry.name: entry for family in _FAMILIES for entry in family.ENTRIES}


def find_entry(name: str) -> Entry:
    """Return an entry by name; `GramError` if there is none."""
    if name not in ENTRIES:
        raise GramError(f"There is no entry '{name}'; there is {', '.join(ENTRIES)}.")
    return ENTRIES[name]


def select_runs(entry: Entry, scale: Scale, only: str = "") -> tuple[Run, ...]:
    """Return the runs of an entry whose name, row, group or recipe is among `only` (names with commas), or all.

    A run's own name goes first: a shipped model may be called as the group that it belongs to.
    """
    runs = entry.runs(scale)
    if not runs:
        raise GramError(f"{entry.name} has no runs at the scale {scale}.")
    wanted = [name.strip() for name in only.split(",") if name.strip()]
    chosen: set[str] = set()
    for name in wanted:
        here = {run.name for run in runs if name == run.name}
        here = here or {run.name for run in runs if name in (run.row, run.group, run.recipe)}
        if not here:
            known = ", ".join(run.name for run in runs)
            raise GramError(f"{entry.name} has no run '{name}' at the scale {scale}; there is {known}.")
        chosen |= here
    return tuple(run for run in runs if run.name in chosen) if wanted else runs
