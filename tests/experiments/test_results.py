"""Result files, the state of runs, and the tables, figures and documents that are made of them."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

from gram.errors import GramError
from gram.experiments import documents
from gram.experiments.entry import Column, Entry, Run
from gram.experiments.figures import draw_entry, figure_digest
from gram.experiments.registry import ENTRIES, find_entry
from gram.experiments.results import (
    Result,
    expected_minutes,
    load_results,
    provenance,
    result_path,
    shipped_model,
    state_of,
    training_folder,
    training_recipe,
    write_result,
)
from gram.experiments.tables import entry_table, objective_table, summary_table
from gram.files import locked
from gram.plots.paper import digest_of_figure

REPOSITORY = Path(__file__).parents[2]
ENTRY = Entry(
    name="tiny",
    title="A tiny table",
    cpu=(
        Run("nqueens-8", "GRAM", "nqueens-8/gram", seeds=(0, 1), minutes=5),
        Run("nqueens-8", "TRM", "nqueens-8/trm"),
    ),
    columns=(
        Column("accuracy", "accuracy"),
        Column("by vote", "selection.vote"),
        Column("edges", "conflicts", "number"),
    ),
    published={"nqueens-8": {"GRAM": {"accuracy": 99.7}, "TRM": {"accuracy": 66.8}}},
    figure="accuracy_and_coverage",
)
GRAM, TRM = ENTRY.cpu


def content_of(run: Run, seed: int, accuracy: float = 0.5, **more: Any) -> dict[str, Any]:
    metrics = {
        "accuracy": accuracy,
        "coverage": 0.4,
        "uniform_coverage": 0.9,
        "deterministic_coverage": 0.3,
        "selection": {"vote": 0.75},
        "conflicts": 12,
        "intervals": {"accuracy": [0.4, 0.6], "selection": {"vote": [0.7, 0.8]}},
        "headline_rows": 10,
        "inputs": 5,
        "inputs_in_split": 50,
        "depth": 8,
        "width": 20,
    }
    settings = training_recipe(run, seed, threads=1).model_dump(mode="json")
    about = {"split_hash": "abc", "parameters": 1234, "settings": settings}
    training = {"steps": 2600, "minutes": 3.0, "cpu_minutes": 2.5}
    return {**provenance(ENTRY, run, seed, "cpu"), **about, "training": training, "metrics": metrics, **more}


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def save(run: Run, seed: int, accuracy: float = 0.5, **more: Any) -> None:
    write_result(result_path(ENTRY, run, seed), content_of(run, seed, accuracy, **more))


def test_a_file_has_six_digits_and_lists_of_numbers_on_one_line(here: Path) -> None:
    write_result(Path("results/x/a.json"), {"a": [0.123456789, 1, None], "b": {"c": [[1, 2], [3.5, -4e-7]]}})
    text = Path("results/x/a.json").read_text()
    assert '"a": [0.123457, 1, null]' in text
    assert json.loads(text) == {"a": [0.123457, 1, None], "b": {"c": [[1, 2], [3.5, 0.0]]}}


def test_a_result_of_a_shipped_model_is_outdated_when_the_model_or_its_sampling_changed(here: Path) -> None:
    run = Run("puzzles", "nqueens-8", "nqueens-8/gram", shipped="nqueens-8", sampling={"halt": True})
    settings, weights = shipped_model(run)
    entry = replace(ENTRY, cpu=(run,))
    path = result_path(entry, run, 0)
    for content, state in (
        ({"metrics": settings, "weights": weights}, "done"),
        ({"metrics": settings}, "done"),  # older results do not say which weights
        ({"metrics": settings, "weights": "other"}, "outdated"),
        ({"metrics": settings | {"halt": False}, "weights": weights}, "outdated"),
        ({"metrics": settings | {"temperature": 3.0}, "weights": weights}, "outdated"),
    ):
        write_result(path, content)
        assert state_of(entry, run, 0) == state


def test_the_state_of_a_run(here: Path) -> None:
    assert state_of(ENTRY, GRAM, 0) == "missing"
    save(GRAM, 0)
    assert (state_of(ENTRY, GRAM, 0), state_of(ENTRY, GRAM, 1)) == ("done", "missing")
    save(GRAM, 1, note="From an earlier report.")
    assert state_of(ENTRY, GRAM, 1) == "reported"
    changed = content_of(TRM, 0)
    changed["settings"]["train"]["lr"] = 0.5
    write_result(result_path(ENTRY, TRM, 0), changed)
    assert state_of(ENTRY, TRM, 0) == "outdated"
    changed = content_of(TRM, 0)
    del changed["settings"]["train"]["lr"]  # a setting that did not exist yet
    write_result(result_path(ENTRY, TRM, 0), changed)
    assert state_of(ENTRY, TRM, 0) == "done"
    folder = training_folder(GRAM, 1)
    folder.mkdir(parents=True)
    with locked(folder):
        assert state_of(ENTRY, GRAM, 1) == "running"


def test_the_time_is_that_of_any_earlier_result_or_as_planned(here: Path) -> None:
    assert expected_minutes(GRAM, [ENTRY]) == 5
    assert expected_minutes(TRM, [ENTRY]) is None
    save(GRAM, 1)
    assert expected_minutes(GRAM, [ENTRY]) == 2.5


def test_the_time_is_not_that_of_another_training_whose_name_begins_alike(here: Path) -> None:
    other, measured_again = replace(GRAM, label="all-1"), replace(GRAM, variant="sample")
    entry = replace(ENTRY, cpu=(*ENTRY.cpu, other, measured_again))
    save(other, 0)
    save(GRAM, 0, extra=["train.steps=3"])
    assert expected_minutes(GRAM, [entry]) == 5
    assert expected_minutes(other, [entry]) == 2.5
    save(measured_again, 1, training={"cpu_minutes": 7.5})
    assert expected_minutes(GRAM, [entry]) == 7.5


def test_a_table_has_seeds_intervals_the_papers_values_and_what_is_missing(here: Path) -> None:
    save(TRM, 0)
    lines = entry_table(ENTRY, ENTRY.cpu, load_results(ENTRY, ENTRY.cpu)).splitlines()
    gram, trm = (next(line for line in lines if line.startswith(f"| {row} ")) for row in ("GRAM", "TRM"))
    assert "not run yet" in gram
    assert gram.endswith("| - | - | - | 99.7 |")
    assert "| 8 x 20; 5 inputs | 50.0 [40.0, 60.0] | 75.0 [70.0, 80.0] | 12.0 | 66.8 |" in trm
    assert "2,600 steps, 2 CPU minutes" in trm or "2,600 steps, 3 CPU minutes" in trm
    for seed, accuracy in ((0, 0.9), (1, 0.8)):
        save(GRAM, seed, accuracy, note="From an earlier report.")
    text = entry_table(ENTRY, ENTRY.cpu, load_results(ENTRY, ENTRY.cpu))
    assert "| GRAM (`nqueens-8/gram`, 2 seeds) † |" in text
    assert "| 85.0 ± 7.1 |" in text
    assert text.endswith("† From an earlier report.")
    save(TRM, 0, note="Measured again.")
    text = entry_table(ENTRY, ENTRY.cpu, load_results(ENTRY, ENTRY.cpu))
    assert "2 seeds) † |" in text
    assert "seed 0) †† |" in text
    assert text.endswith("\n\n† From an earlier report.\n\n†† Measured again.")  # each is a paragraph of its own
    save(GRAM, 0, 0.6)  # a report is not averaged with a result
    assert "| GRAM (`nqueens-8/gram`, seed 0) |" in entry_table(ENTRY, ENTRY.cpu, load_results(ENTRY, ENTRY.cpu))
    save(TRM, 0, extra=["train.steps=3"])
    assert "with `train.steps=3`" in entry_table(ENTRY, ENTRY.cpu, load_results(ENTRY, ENTRY.cpu))


def test_every_weighting_has_its_own_intervals() -> None:
    content = content_of(GRAM, 0)
    bounds = {"accuracy": [0.1, 0.3], "selection": {"vote": [0.5, 0.75]}}
    content["metrics"]["all_inputs"] = {"accuracy": 0.2, "selection": {"vote": 0.625}, "intervals": bounds}
    result = Result(GRAM, 0, content)
    assert result.interval("accuracy") == (0.4, 0.6)
    assert result.interval("selection.vote") == (0.7, 0.8)
    assert result.interval("all_inputs.accuracy") == (0.1, 0.3)
    assert result.interval("all_inputs.selection.vote") == (0.5, 0.75)
    assert result.interval("coverage") is result.interval("all_inputs.coverage") is None
    entry = replace(ENTRY, columns=(Column("all inputs: accuracy", "all_inputs.accuracy"),))
    assert "| 20.0 [10.0, 30.0] |" in entry_table(entry, [GRAM], [result])


def test_a_uniform_sampler_is_named_only_where_all_rows_have_one_split() -> None:
    same = [Result(run, 0, content_of(run, 0)) for run in (GRAM, TRM)]
    assert "a uniform sampler would cover 90.0%" in " ".join(entry_table(ENTRY, ENTRY.cpu, same).split())
    other = [same[0], Result(TRM, 0, content_of(TRM, 0) | {"split_hash": "def"})]
    assert "uniform sampler" not in entry_table(ENTRY, ENTRY.cpu, other)


def test_the_summary_has_what_ideal_models_would_cover(here: Path) -> None:
    for seed, accuracy in ((0, 0.9), (1, 0.8)):
        save(GRAM, seed, accuracy)
    header, _, gram, *rest = summary_table(ENTRY, ENTRY.cpu, load_results(ENTRY, ENTRY.cpu)).splitlines()
    assert header.endswith("| accuracy | coverage | uniform sampler | perfect deterministic | the paper |")
    assert gram.endswith("| 85.0 ± 7.1 | 40.0 ± 0.0 | 90.0 | 30.0 | 99.7 |")
    assert rest == []  # TRM has no result


def test_several_depths_are_several_rows(tmp_path: Path) -> None:
    entry = find_entry("mnist")
    run = entry.cpu[-1]
    scores = [{"steps": steps, "inception_score": 2.0 + steps, "fid": 7.0, "agreement": 0.5} for steps in (8, 16)]
    content = {"split_hash": "x", "parameters": 5, "metrics": {"records": scores, "samples": 1000}}
    text = entry_table(entry, [run], [Result(run, 0, content)])
    assert draw_entry(entry, [run], [Result(run, 0, content)], tmp_path / "scores.png")
    assert "GRAM, 16 steps (`mnist/gram`, seed 0) | 5 | - | steps 16 | 18.00 | 7.00 | 50.0 | 1.89 | 77.79 |" in text


def test_a_figure_knows_the_data_that_it_was_drawn_from(here: Path) -> None:
    save(GRAM, 0)
    path, results = Path("figure.png"), load_results(ENTRY, ENTRY.cpu)
    assert draw_entry(ENTRY, ENTRY.cpu, results, path)
    digest = figure_digest(ENTRY, ENTRY.cpu, results)
    assert digest_of_figure(path) == digest
    assert path.with_suffix(".pdf").read_bytes().startswith(b"%PDF")
    with Image.open(path) as image:
        assert image.width >= 600  # a column of 3.4 inches or more at 200 dots per inch
    before = path.with_suffix(".pdf").read_bytes()
    draw_entry(ENTRY, ENTRY.cpu, results, path)
    assert path.with_suffix(".pdf").read_bytes() == before  # no date in it
    save(GRAM, 0, accuracy=0.6)
    assert figure_digest(ENTRY, ENTRY.cpu, load_results(ENTRY, ENTRY.cpu)) != digest
    path.with_suffix(".pdf").unlink()
    assert digest_of_figure(path) is None
    assert not draw_entry(ENTRY, ENTRY.cpu, [], path)


def test_blocks_are_made_anew_and_the_rest_stays(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(ENTRIES, "tiny", ENTRY)
    monkeypatch.setattr(documents, "RECIPES", here / "recipes")
    save(GRAM, 0)
    recipe = here / "recipes" / "nqueens-8" / "gram.yaml"
    recipe.parent.mkdir(parents=True)
    recipe.write_text("# GRAM\n# Results: none yet.\nbase: x\n")
    readme = Path("README.md")
    readme.write_text("before\n<!-- results:tiny/nqueens-8 -->\nold\n<!-- end -->\nafter\n")
    assert set(documents.outdated_documents()) == {"README.md", "docs/figures/tiny.png", str(recipe)}
    assert len(documents.write_documents()) == 3
    text = readme.read_text()
    assert text.startswith("before\n<!-- results:tiny/nqueens-8 -->\n\n**nqueens-8**")
    assert text.endswith("<!-- end -->\nafter\n")
    assert recipe.read_text() == "# GRAM\n# Results: results/tiny/nqueens-8-gram-seed*.json.\nbase: x\n"
    assert list(documents.outdated_documents()) == []
    save(GRAM, 0, accuracy=0.7)
    assert "README.md" in set(documents.outdated_documents())
    readme.write_text("<!-- results:tiny/nothing -->\n<!-- end -->\n")
    with pytest.raises(GramError, match="has no group 'nothing'"):
        documents.write_documents()


def test_readme_docs_figures_and_recipes_say_what_the_results_say(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(REPOSITORY)
    assert list(documents.outdated_documents()) == [], "run `gram reproduce --write`"


def test_nothing_is_written_outside_a_checkout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    recipe = documents.RECIPES / "nqueens-8" / "gram.yaml"
    before = recipe.read_text()
    monkeypatch.chdir(tmp_path)
    with pytest.raises(GramError, match="in a checkout"):
        documents.write_documents()
    assert recipe.read_text() == before


def test_a_shipped_model_has_one_result_for_all_entries_that_show_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(REPOSITORY)
    for name in ("sudoku-generation", "validity", "shipped"):
        entry = find_entry(name)
        (run,) = (run for run in entry.cpu if run.shipped == "sudoku-generation")
        assert result_path(entry, run, 0) == Path("results/shipped/sudoku-generation.json")
        (result,) = load_results(entry, [run])
        assert result.metrics["samples"] == run.measuring["count"]
        assert "10,000 samples" in " ".join(entry_table(entry, [run], [result], run.group).split()) or not entry.columns
        assert state_of(entry, run, 0) == "done"


def test_every_cell_of_the_objectives_grid_is_done(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(REPOSITORY)
    entry = find_entry("objective")
    assert [state_of(entry, run, 0) for run in entry.cpu].count("done") == 28
    assert "| last, 4.5 | no | 95.4 / 87.6 |" in objective_table(load_results(entry, entry.cpu))
