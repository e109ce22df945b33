"""`gram reproduce` from data to table and figure, and `gram compare`."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from gram.experiments.registry import ENTRIES

Run = Callable[..., tuple[int, str, str]]
TINY = (
    "task.options.size=5",
    "model.dim=16",
    "model.channel_hidden=16",
    "model.token_hidden=16",
    "model.guidance_hidden=16",
    "model.supervision_steps=2",
    "train.steps=4",
    "train.slots=8",
    "train.eval_inputs=4",
)
CHANGES = [part for change in TINY for part in ("--set", change)]
ONE = ("reproduce", "ablation-mechanism", "--only", "nqueens-8-stochasticity-only", *CHANGES)


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_every_entry_is_listed_with_its_state(gram: Run, here: Path) -> None:
    code, out, _ = gram("reproduce")
    assert code == 0
    for name in ENTRIES:
        assert name in out
    assert "0 of 28" in out  # the grid of the objective


def test_one_run_goes_from_data_to_table_and_figure_and_is_not_run_again(gram: Run, here: Path) -> None:
    code, out, _ = gram(*ONE, "--launcher", "none", "--seeds", "4")
    assert code == 0
    path = here / "results" / "ablation-mechanism" / "nqueens-8-stochasticity-only-seed4.json"
    result = json.loads(path.read_text())
    assert (result["seed"], result["settings"]["train"]["seed"], result["metrics"]["width"]) == (4, 4, 5)
    assert result["training"]["cpu_minutes"] > 0
    assert result["extra"] == list(TINY)
    low, high = result["metrics"]["intervals"]["accuracy"]
    assert low <= result["metrics"]["accuracy"] <= high
    assert "table.md" in out
    table = (here / "results" / "ablation-mechanism" / "table.md").read_text()
    assert "stochasticity only (`nqueens-8/stochasticity-only`, seed 4" in table
    assert (here / "results" / "ablation-mechanism" / "figure.pdf").is_file()
    written = path.stat().st_mtime_ns
    code, out, _ = gram(*ONE, "--launcher", "none", "--seeds", "4")
    assert (code, path.stat().st_mtime_ns) == (0, written)
    code, out, _ = gram("reproduce", "ablation-mechanism", "--dry-run", "--seeds", "4", "--only", "nqueens-8")
    assert (code, out.count("done"), out.count("missing")) == (0, 1, 6)


def test_two_measurements_of_one_training_are_one_job_of_the_queue(gram: Run, here: Path) -> None:
    only = "nqueens-8-trm-sample,nqueens-8-trm-random"
    changes = [part for change in TINY if "guidance" not in change for part in ("--set", change)]
    code, out, _ = gram("reproduce", "ablation-mechanism", "--only", only, *changes, "--jobs", "2")
    assert code == 0
    assert "1 trainings to run" in out
    found = {
        path.name: json.loads(path.read_text()) for path in (here / "results" / "ablation-mechanism").glob("*.json")
    }
    assert set(found) == {"nqueens-8-trm-sample-seed0.json", "nqueens-8-trm-random-seed0.json"}
    assert found["nqueens-8-trm-sample-seed0.json"]["metrics"]["decode"] == "sample"
    assert found["nqueens-8-trm-random-seed0.json"]["metrics"]["initial"] == "random"
    assert [path.name for path in (here / "runs" / "reproduce").iterdir() if path.is_dir()] == ["nqueens-8-trm-seed0"]
    assert found["nqueens-8-trm-sample-seed0.json"]["tuning"]["rule"]["depths"] == [8, 16]


def test_a_run_that_fails_names_its_log(gram: Run, here: Path) -> None:
    code, _, err = gram("reproduce", "trajectories", "--only", "nqueens-8-trm", "--set", "task.options.size=3")
    assert code == 1
    assert "1 of 1 runs failed: see runs/reproduce/nqueens-8-trm-seed0.log" in " ".join(err.split())


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("nothing",), "There is no entry 'nothing'"),
        (("elbo", "--seeds", "one"), "--seeds takes numbers separated by commas"),
        (("elbo", "--only", "x"), "has no run 'x'"),
        (("elbo", "--write"), "--write makes all documents anew"),
        (("elbo", "--check"), "--check measures all shipped models"),
        (("--only", "x"), "need the name of an entry"),
        (("objective", "--scale", "paper"), "has no runs at the scale paper"),
        (("--check",), "No shipped model could be measured"),
    ],
)
def test_what_makes_no_sense_is_refused(gram: Run, here: Path, arguments: tuple[str, ...], message: str) -> None:
    code, _, err = gram("reproduce", *arguments)
    assert code == 1
    assert message in " ".join(err.split())


@pytest.mark.parametrize("dry", [("--dry-run",), ()])
@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("trajectories", "--set", "nosuch=1"), "unknown key 'nosuch'"),
        (("trajectories", "--set", "model.dims=3"), "unknown key 'model.dims'"),
        (("trajectories", "--set", "task.options.nosuch=1"), "has no option 'nosuch'"),
        (("trajectories", "--set", "train.steps"), "not of the form key=value"),
        (("trajectories", "--set", "train.seed=1"), "train.seed is given twice"),
        (("shipped", "--set", "train.steps=1"), "is a shipped model"),
    ],
)
def test_a_change_that_a_recipe_cannot_take_is_refused_before_anything_runs(
    gram: Run, here: Path, arguments: tuple[str, ...], dry: tuple[str, ...], message: str
) -> None:
    code, _, err = gram("reproduce", *arguments, *dry)
    assert (code, list(here.iterdir())) == (1, [])
    assert message in " ".join(err.split())


def test_two_models_are_compared(gram: Run, tiny_run: Path, tmp_path: Path) -> None:
    other = tmp_path / "other"
    other.symlink_to(tiny_run)
    code, out, _ = gram("compare", tiny_run, other, "--json", tmp_path / "found.json")
    assert code == 0
    assert "not clear" in out
    found = json.loads((tmp_path / "found.json").read_text())
    assert found["headline"]["accuracy"]["difference"] == 0
    assert found["all_inputs"]["coverage"]["interval"] == [0, 0]
    uniform, one = (f"{100 * value:.1f}%" for value in found["ideal"]["headline"]["a"].values())
    assert f"a uniform sampler would reach {uniform}, a perfect deterministic model {one}." in " ".join(out.split())
    code, _, err = gram("compare", tiny_run, "nqueens-8")
    assert code == 1
    assert "cannot be compared" in err
