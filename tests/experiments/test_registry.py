"""The registry: every name of the paper's tables and figures, runs that load, and trainings that entries share."""

import pytest

from gram.errors import GramError
from gram.experiments.entry import Entry, Run
from gram.experiments.figures import FIGURES
from gram.experiments.measures import MEASURES
from gram.experiments.registry import ENTRIES, find_entry, select_runs
from gram.experiments.results import training_recipe

NAMES = {
    "puzzles",
    "multi-solution",
    "mnist",
    "sudoku-generation",
    "ablation-architecture",
    "ablation-mechanism",
    "depth-width",
    "solutions-accuracy",
    "solutions-coverage",
    "elbo",
    "arc-samples",
    "arc-augmentation",
    "trajectories",
    "generation-process",
    "validity",
    "objective",
    "choices",
    "shipped",
}
RUNS = [run for entry in ENTRIES.values() for run in (*entry.cpu, *entry.paper)]
TRAINED = {run.training: run for run in RUNS if not run.shipped}


def test_every_table_and_figure_of_the_paper_has_an_entry() -> None:
    assert set(ENTRIES) == NAMES
    assert all(name == entry.name for name, entry in ENTRIES.items())


@pytest.mark.parametrize("run", TRAINED.values(), ids=TRAINED)
def test_every_training_has_a_recipe_that_loads(run: Run) -> None:
    recipe = training_recipe(run, 3, threads=2)
    assert (recipe.train.seed, recipe.train.threads) == (3, 2)


def test_runs_that_share_a_folder_share_everything_that_is_trained_or_tuned() -> None:
    for run in RUNS:
        if not run.shipped:
            same = TRAINED[run.training]
            assert (run.recipe, run.overrides, run.tuning) == (same.recipe, same.overrides, same.tuning), run.name


@pytest.mark.parametrize("entry", ENTRIES.values(), ids=ENTRIES)
def test_an_entry_is_whole(entry: Entry) -> None:
    for runs in (entry.cpu, entry.paper):
        names = [run.name for run in runs]
        assert len(set(names)) == len(names), "two runs would write the same file"
        for run in runs:
            assert (run.measure or entry.measure) in MEASURES
    assert entry.figure in {"", *FIGURES}
    assert entry.columns or entry.figure, "an entry without a table or a figure shows nothing"
    if entry.source:  # it draws the results of another entry, which must measure the same
        origin = ENTRIES[entry.source]
        assert (origin.cpu, origin.paper) == (entry.cpu, entry.paper)
        assert (origin.measure, origin.measuring) == (entry.measure, entry.measuring)
    groups = {run.group for run in entry.cpu} | {run.group for run in entry.paper}
    assert set(entry.published) <= groups
    rows = {run.row for run in (*entry.cpu, *entry.paper)}
    for published in entry.published.values():
        assert {row.split(", ")[0] if row.endswith(" steps") else row for row in published} <= rows
        keys = {column.key for column in entry.columns} | {"validity"}
        assert all(set(values) <= keys for values in published.values())


def test_the_papers_table_of_many_solutions_is_all_there() -> None:
    entry = find_entry("multi-solution")
    ours = {(run.group, run.row): run for run in entry.cpu if not run.apart}
    assert len(ours) == 32
    assert {(group, row) for group, rows in entry.published.items() for row in rows} == set(ours)
    assert all(run.seeds == (0, 1, 2) for (group, row), run in ours.items() if row == "GRAM" or group == "nqueens-8")
    assert entry.published["colouring-10"]["GRAM"] == {"conflicts": 3.3, "coverage": 51.3}
    assert entry.published["nqueens-10"]["AR"] == {"accuracy": 90.0, "coverage": 53.2}


def test_runs_are_selected_by_name_row_group_or_recipe() -> None:
    entry = find_entry("multi-solution")
    assert [run.name for run in select_runs(entry, "cpu", "nqueens-8-gram, colouring-8/ar")] == [
        "nqueens-8-gram",
        "colouring-8-ar",
    ]
    assert {run.group for run in select_runs(entry, "cpu", "HRM")} == set(entry.published)
    assert len(select_runs(entry, "paper", "colouring-10")) == 8
    for name in ("shipped", "sudoku-generation"):  # its own name is also the name of its group
        (run,) = select_runs(find_entry(name), "cpu", "sudoku-generation")
        assert run.shipped == "sudoku-generation"
    assert [run.name for run in select_runs(find_entry("shipped"), "cpu", "digits")] == ["digits"]
    for name, scale, only in (("multi-solution", "cpu", "nothing"), ("objective", "paper", "")):
        with pytest.raises(GramError, match=r"has no run"):
            select_runs(find_entry(name), scale, only)
    with pytest.raises(GramError, match="There is no entry 'tables'"):
        find_entry("tables")
