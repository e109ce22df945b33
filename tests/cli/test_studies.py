"""`gram scaling` and `gram latent`: studies of a model, through the command line."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.pictures import checked_picture

Run = Callable[..., tuple[int, str, str]]


def test_scaling_and_latent_figures(gram: Run, tiny_run: Path, tmp_path: Path) -> None:
    figure, report = tmp_path / "scaling.png", tmp_path / "scaling.json"
    options = ("--depths", "1,2", "--widths", "1,3", "--limit", 4, "--figure", figure, "--json", report)
    code, _, _ = gram("scaling", tiny_run, *options)
    assert code == 0
    assert figure.stat().st_size > 10_000  # four steps of training solve nothing: the lines lie on the axes
    assert len(json.loads(report.read_text())[str(tiny_run)]["records"]) == 4
    code, _, _ = gram("latent", tiny_run, "--width", 5, "--figure", tmp_path / "latent.png")
    assert code == 0
    checked_picture(tmp_path / "latent.png", least=300)


def test_scaling_of_a_shipped_model_whose_temperature_falls(gram: Run, tmp_path: Path) -> None:
    figure, report = tmp_path / "scaling.png", tmp_path / "scaling.json"
    options = ("--depths", "2,4", "--widths", "1,3", "--limit", 8, "--figure", figure, "--json", report)
    code, _, error = gram("scaling", "nqueens-10", *options)
    assert (code, error) == (0, "")
    checked_picture(figure, least=300)
    study = json.loads(report.read_text())["nqueens-10"]
    assert study["temperature"] > study["temperature_final"]
    for record in study["records"]:  # each depth has the whole range of temperatures, as in an evaluation
        size = ("--depth", record["depth"], "--width", record["width"], "--limit", 8)
        assert gram("eval", "nqueens-10", *size, "--no-halt", "--json", report)[0] == 0
        alone = json.loads(report.read_text())["all_inputs"]
        assert record["coverage"] == pytest.approx(alone["coverage"])
        assert record["value"] == pytest.approx(alone["selection"]["value"])
