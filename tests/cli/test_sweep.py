"""A sweep runs what is not done, side by side, and adds it up."""

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from gram.cli.app import main
from gram.cli.sweep import check_jobs, plan, summary
from gram.config import Recipe, load_recipe
from gram.errors import GramError
from gram.files import locked
from gram.training.run_checkpoint import begin_run, checkpoints_of
from tests.pictures import checked_picture


def test_every_combination_is_planned() -> None:
    jobs = plan(["train.seed=0,1,2", "model.dim=16", "train.lr=0.1,0.2", "train.betas=[0.9,0.95]"], Path("out"))
    assert jobs[0].overrides[:2] == ["model.dim=16", "train.betas=[0.9,0.95]"]
    assert jobs[0].overrides[2:] == ["train.seed=0", "train.lr=0.1", "train.threads=1"]
    assert len(jobs) == 6
    assert jobs[1].values == {"train.seed": "0", "train.lr": "0.2"}
    assert len({job.folder for job in jobs}) == 6


@pytest.mark.parametrize(
    "overrides",
    [["train.seed"], ["train.seed=1"], [], ["train.seed=0,1", "train.seed=2,3"], ["train.seed=0,1", "train.threads=2"]],
)
def test_what_is_no_sweep_is_refused(overrides: list[str]) -> None:
    with pytest.raises(GramError, match=r"such as|--threads"):
        plan(overrides, Path("out"))


def test_mean_and_deviation_over_the_seeds(tmp_path: Path) -> None:
    jobs = plan(["train.seed=0,1", "train.lr=1,2"], tmp_path)
    for job in jobs[:3]:  # the last is not done
        job.folder.mkdir()
        accuracy = int(job.values["train.seed"]) / 2
        figures = {"accuracy": accuracy, "accuracy_all_samples": 1.0, "coverage": 0.5, "train_minutes": 3}
        (job.folder / "test.json").write_text(json.dumps(figures))
    first, second = summary(jobs)
    assert (first["values"], first["runs"]) == ({"train.lr": "1"}, 2)
    assert first["accuracy"] == {"mean": 0.25, "deviation": pytest.approx(0.5**1.5)}
    assert (second["runs"], second["accuracy"]["deviation"]) == (1, None)


@pytest.mark.parametrize("values", ["train.seed=0,0", "train.lr=0.1,1e-1", "train.seed=1,01"])
def test_equal_values_are_refused(queens_file: Path, tmp_path: Path, values: str) -> None:
    with pytest.raises(GramError, match="are the same run"):
        check_jobs(queens_file, plan([values], tmp_path))


def test_runs_of_another_recipe_are_not_taken_for_these(
    queens_file: Path, tmp_path: Path, queens_recipe: Callable[..., Recipe]
) -> None:
    wanted = load_recipe(queens_file, ["train.seed=1", "train.threads=1"])
    jobs = plan(["train.seed=0,1"], tmp_path / "sweep")
    begin_run(jobs[1].folder, wanted)
    check_jobs(queens_file, jobs)  # the very same: it goes on
    for overrides in (["train.seed=0,1", "train.lr=0.5"], ["train.seed=0,1", "model.dim=32"]):
        with pytest.raises(GramError, match="holds another run"):
            check_jobs(queens_file, plan(overrides, tmp_path / "sweep"))
    with pytest.raises(GramError, match=r"train\.threads is 1 in the run and 2 now"):
        check_jobs(queens_file, plan(["train.seed=0,1"], tmp_path / "sweep", threads=2))


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_a_sweep_that_is_ended_ends_its_trainings_too(
    queens_file: Path, tmp_path: Path, number: signal.Signals
) -> None:
    line = [sys.executable, "-m", "gram", "sweep", str(queens_file), "train.seed=0,1", "train.steps=100000"]
    folders = [tmp_path / "out" / f"train.seed={seed}" for seed in (0, 1)]
    logs = [folder.with_name(f"{folder.name}.log") for folder in folders]
    deadline = time.monotonic() + 200
    errors = tmp_path / "errors.txt"  # not a pipe: the processes of the queue would keep it open
    with errors.open("w") as file:
        sweep = subprocess.Popen(
            [*line, "train.save_every=50", "--out", str(tmp_path / "out"), "--jobs", "2"],
            env=os.environ | {"PYTHONPATH": str(Path(__file__).parents[2])},
            stderr=file,
            stdout=subprocess.DEVNULL,
        )
    try:
        while not all(checkpoints_of(folder) for folder in folders):
            assert time.monotonic() < deadline
            assert sweep.poll() is None
            time.sleep(0.1)
        sweep.send_signal(number)
        sweep.wait(timeout=60)
    finally:
        sweep.kill()
    if number == signal.SIGTERM:
        assert sweep.returncode == 128 + signal.SIGTERM
        assert errors.read_text().splitlines()[-1].startswith("Stopped, and all runs were saved")
    else:  # nobody has waited for the trainings
        while not all(ended(folder) for folder in folders):
            assert time.monotonic() < deadline
            time.sleep(0.1)
    assert all(ended(folder) for folder in folders)
    assert all("saved" in log.read_text().splitlines()[-1] for log in logs)


def ended(folder: Path) -> bool:
    """Return whether nobody works in a run's folder any more."""
    try:
        with locked(folder):
            return True
    except GramError:
        return False


def test_a_real_sweep_skips_what_is_done_and_its_curves_can_be_drawn(
    queens_file: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    line = ["gram", "sweep", str(queens_file), "train.seed=0,1", "--out", str(tmp_path / "out"), "--jobs", "2"]
    for _ in range(2):
        monkeypatch.setattr("sys.argv", [*line, "--json", str(tmp_path / "summary.json")])
        with pytest.raises(SystemExit) as done:
            main()
        assert done.value.code == 0
    (entry,) = json.loads((tmp_path / "summary.json").read_text())
    assert entry["runs"] == 2
    tables = re.findall(r"the recipe\s*│\s*(\d+)\s*│\s*([\d.]+)±", capsys.readouterr().out)
    assert tables == [("2", f"{100 * entry['accuracy']['mean']:.1f}")] * 2
    assert (tmp_path / "out" / "train.seed=1.log").read_text().count("pairs") == 1  # not run again
    run = tmp_path / "out" / "train.seed=0"
    monkeypatch.setattr("sys.argv", ["gram", "plot", str(run)])
    with pytest.raises(SystemExit) as done:
        main()
    assert done.value.code == 0
    checked_picture(run / "curves.png", least=300)
