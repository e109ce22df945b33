"""A sweep runs what is not done, side by side, and adds it up."""

import json
from pathlib import Path

import pytest

from gram.cli.app import main
from gram.cli.sweep import plan, summary
from gram.errors import GramError


def test_every_combination_is_planned() -> None:
    fixed, jobs = plan(["train.seed=0,1,2", "model.dim=16", "train.lr=0.1,0.2", "train.betas=[0.9,0.95]"], Path("out"))
    assert fixed == ["model.dim=16", "train.betas=[0.9,0.95]"]
    assert len(jobs) == 6
    assert jobs[1].values == {"train.seed": "0", "train.lr": "0.2"}
    assert len({job.folder for job in jobs}) == 6


@pytest.mark.parametrize("overrides", [["train.seed"], ["train.seed=1"], []])
def test_what_is_no_sweep_is_refused(overrides: list[str]) -> None:
    with pytest.raises(GramError, match="such as"):
        plan(overrides, Path("out"))


def test_mean_and_deviation_over_the_seeds(tmp_path: Path) -> None:
    _, jobs = plan(["train.seed=0,1", "train.lr=1,2"], tmp_path)
    for job in jobs[:3]:  # the last is not done
        job.folder.mkdir()
        accuracy = int(job.values["train.seed"]) / 2
        figures = {"accuracy": accuracy, "accuracy_all_samples": 1.0, "coverage": 0.5, "train_minutes": 3}
        (job.folder / "test.json").write_text(json.dumps(figures))
    first, second = summary(jobs)
    assert (first["values"], first["runs"]) == ({"train.lr": "1"}, 2)
    assert first["accuracy"] == {"mean": 0.25, "deviation": pytest.approx(0.5**1.5)}
    assert (second["runs"], second["accuracy"]["deviation"]) == (1, None)


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
    assert "2" in capsys.readouterr().out
    (entry,) = json.loads((tmp_path / "summary.json").read_text())
    assert entry["runs"] == 2
    assert (tmp_path / "out" / "train.seed=1.log").read_text().count("pairs") == 1  # not run again
    run = tmp_path / "out" / "train.seed=0"
    monkeypatch.setattr("sys.argv", ["gram", "plot", str(run)])
    with pytest.raises(SystemExit) as done:
        main()
    assert done.value.code == 0
    assert (run / "curves.png").read_bytes()[1:4] == b"PNG"
