"""Halting by default: `gram tune` switches it on, and reports have the metrics with it and at full depth."""

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
import yaml  # type: ignore[import-untyped]

from gram.checkpoints.folder import change_eval_settings
from gram.solver import load

Run = Callable[..., tuple[int, str, str]]
DEPTH = 3


@pytest.fixture
def halting(tiny_run: Path, tmp_path: Path) -> Path:
    """A model of which some trajectories halt, and others do not."""
    solver, folder = load(tiny_run), tmp_path / "model"
    torch.manual_seed(0)
    torch.nn.init.normal_(solver.reasoner.decoder.halt.weight)
    solver.save_pretrained(folder)
    confidence = solver.solve(".Q../..../..../....", depth=DEPTH, keep_steps=True).trajectories.history[2]
    change_eval_settings(folder, depth=DEPTH, halt=True, halt_at=float(np.median(confidence)))
    return folder


def test_tune_switches_halting_on_or_off(gram: Run, halting: Path, tmp_path: Path) -> None:
    found, before = tmp_path / "tuned.json", load(halting).options
    code, out, error = gram("tune", halting, "--depths", "1,3", "--temperatures", "1", "--width", 2, "--json", found)
    assert code == 0, error
    chosen, now = json.loads(found.read_text())["halt"], load(halting).options
    expected = {"halt_by": before.halt_by, "halt_at": before.halt_at} if chosen is None else chosen
    assert (now.halt, now.halt_by, now.halt_at) == (chosen is not None, expected["halt_by"], expected["halt_at"])
    assert f"Halting is {'on' if now.halt else 'off'}" in " ".join(out.split())


def test_a_model_that_halts_is_reported_with_halting_and_at_full_depth(
    gram: Run, halting: Path, tmp_path: Path
) -> None:
    reports, path = [], tmp_path / "report.json"
    for arguments in (["--card"], ["--no-halt"], ["--both"], []):
        code, out, error = gram("eval", halting, "--json", path, *arguments)
        assert code == 0, error
        reports.append(json.loads(path.read_text()))
        assert ("without halting: " in out) == ("full_depth" in reports[-1])
    carded, endless, both, plain = reports
    assert carded.pop("full_depth") == both.pop("full_depth")
    assert carded == both == plain
    assert plain["halt"]
    assert 1 < plain["mean_steps"] < endless["mean_steps"] == DEPTH
    card = (halting / "README.md").read_text()
    about = yaml.safe_load(card.split("---\n")[1])["gram"]
    assert about["settings"].endswith(f"halting at {plain['halt_at']}")
    assert about["mean_steps"] == pytest.approx(plain["mean_steps"], abs=0.005)
    for name in ("accuracy_all_samples", "coverage", "mean_steps"):
        assert about["full_depth"][name] == pytest.approx(endless[name], abs=1e-4)
    assert f"| mean steps | {plain['mean_steps']:.1f} | 3.0 |" in card


def test_what_looks_at_every_step_does_not_halt(gram: Run, halting: Path) -> None:
    code, out, error = gram("eval", halting, "--resample", "1")
    assert code == 0, error
    assert "mean steps 3.0" in out
    for arguments in (["--resample", "1"], ["--calibration"], ["--no-halt"]):
        assert "nothing halts" in gram("eval", halting, *arguments, "--both")[2]
    for option, halts in (("--halt", True), ("--no-halt", False)):
        code, out, _ = gram("solve", halting, ".Q../..../..../....", "--until", "20", option)
        assert code in (0, 3)
        assert ("halting at" in out) == halts
