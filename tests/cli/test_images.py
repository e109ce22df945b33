"""The table of image generators: a line for each depth, drawn and scored once."""

import io
import json
from dataclasses import replace
from pathlib import Path

import pytest
from numpy.testing import assert_array_equal
from rich.console import Console

from gram.config import Recipe
from gram.experiments.images import image_rows
from gram.inference.sample import sample
from gram.solver import load
from gram.training.loop import train
from tests.cli.helpers import ROLLOUTS, SHORT, TINY, CannotWrite, command
from tests.pictures import checked_picture


@pytest.fixture(scope="module")
def image_folders(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """A GRAM, a VAE and a D3PM of 8 x 8 digits after two steps of training."""
    task = {"task": {"name": "digits", "options": {}}, "train": SHORT, "eval": {"depth": 2, "width": 4}}
    vae = {"model": {"kind": "vae", "hidden": 16}}
    gram_of_images = {"model": TINY | {"image": [8, 8], "supervision_steps": 2}, "objective": ROLLOUTS}
    found = []
    size = {"image": [8, 8], "patch": 4, "dim": 16, "layers": 1, "heads": 2, "hidden": 16, "time_dim": 8, "steps": 6}
    d3pm = {"model": {"kind": "d3pm", **size}}
    for name, changes in {"gram": gram_of_images, "vae": vae, "d3pm": d3pm}.items():
        found.append(str(tmp_path_factory.mktemp("images") / name))
        train(Recipe(**{**task, **changes}), Path(found[-1]), Console(file=io.StringIO()))
    return found


def test_the_table_of_image_generators_has_a_line_for_each_depth(image_folders: list[str], tmp_path: Path) -> None:
    figure, figures = tmp_path / "images.png", tmp_path / "images.json"
    arguments = ["-n", "12", "--depths", "3,1", "--figure", str(figure), "--json", str(figures)]
    done = command("images", *image_folders, *arguments)
    assert done.exit_code == 0, done.output
    rows = json.loads(figures.read_text())
    assert [row["steps"] for row in rows] == [1, 3, 1, 6]
    assert all(row["generated"] == 12 and row["fid"] > 0 for row in rows)
    width, height, _ = checked_picture(figure)
    assert width > height


def test_only_diffusion_models_take_steps(image_folders: list[str], tmp_path: Path) -> None:
    figures = tmp_path / "images.json"
    arguments = ["-n", "10", "--steps", "3", "--figure", str(tmp_path / "i.png"), "--json", str(figures)]
    done = command("images", *image_folders[1:], *arguments)
    assert done.exit_code == 0, done.output
    assert [row["steps"] for row in json.loads(figures.read_text())] == [1, 3]
    refused = command("images", *image_folders[:2], *arguments)
    assert "Option 'steps' is not supported by any of these models" in str(refused.exception)
    odd = command("images", image_folders[2], *arguments[:3], "4", *arguments[4:])
    assert "do not divide" in str(odd.exception)


def test_the_extra_is_asked_for_before_anything_is_drawn(
    image_folders: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("gram.evaluation.inception.find_spec", lambda name: None)
    monkeypatch.setattr("gram.experiments.images.image_rows", CannotWrite())
    done = command("images", *image_folders, "-n", "10", "--network", "inception")
    assert "need the extra inception" in str(done.exception)


def test_every_depth_shows_the_same_trajectories(image_folders: list[str]) -> None:
    solver = load(image_folders[0])
    (first, last) = image_rows("gram", solver, count=10, depths=[1, 2], options=solver.options)
    blank, options = solver.task.parse("")[None], replace(solver.options, width=10, keep_steps=True)
    kept = sample(solver.model, blank, options).step_outputs
    assert kept is not None
    assert_array_equal(first.shown, kept[0, :, 0])
    assert_array_equal(last.shown, kept[0, :, 1])
