"""What entries measure of models, on tiny random ones, and the figures that show it."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from rich.console import Console

from gram.config import Recipe, parse_recipe
from gram.errors import GramError
from gram.experiments.entry import Entry, Run
from gram.experiments.figures import FIGURES
from gram.experiments.measures import MEASURES, Measured
from gram.experiments.pictures import Shown
from gram.experiments.registry import ENTRIES
from gram.experiments.results import Result
from gram.models.reasoner import Reasoner
from gram.models.registry import build_model
from gram.plots.paper import digest_of_figure
from gram.solver import Solver
from gram.tasks import make_task
from gram.tasks.nqueens import NQueens

ModelBuilder = Callable[..., Reasoner]
BOARDS = {
    "name": "sudoku-generation",
    "options": {"size": 4, "train_boards": 40, "validation_boards": 4, "test_boards": 4},
}
SMALL = {"dim": 16, "channel_hidden": 16, "token_hidden": 16, "guidance_hidden": 16, "low_steps": 1}
DIFFUSION = {"kind": "d3pm", "noise": "absorbing", "steps": 10, "dim": 16, "layers": 1, "heads": 2, "hidden": 16}
ARC = {"name": "arc", "options": {"version": 1, "augmentations": 2}}


def solver_of(task: dict[str, Any], model: dict[str, Any], **sections: Any) -> Solver:
    recipe = parse_recipe({"task": task, "model": model, **sections}, source="the test")
    made = make_task(recipe.task.name, **recipe.task.options)
    torch.manual_seed(0)
    model_ = build_model(recipe, vocab_size=made.vocab_size, length=made.length, structure=made.structure)
    return Solver(model_.eval(), made, recipe)


def measured(solver: Solver, folder: Path | None = None, **sampling: Any) -> Measured:
    return Measured(solver, folder, sampling, Console(quiet=True))


def drawn(name: str, metrics: list[dict[str, Any]], path: Path, **labels: str) -> None:
    """Draw a figure from metrics as they come back from a file."""
    runs = [
        Run(labels.get("group", "nqueens-8"), f"model {n}", "nqueens-8/gram", label=str(n)) for n in range(len(metrics))
    ]
    if labels.get("recipe"):
        runs = [Run(run.group, run.row, labels["recipe"], label=run.label) for run in runs]
    results = [Result(run, 0, {"metrics": json.loads(json.dumps(m))}) for run, m in zip(runs, metrics, strict=True)]
    FIGURES[name](Shown(Entry("tiny", "tiny", tuple(runs)), runs, results, path, "digest"))
    assert digest_of_figure(path) == "digest"


@pytest.fixture(scope="module")
def queens_solver(queens: NQueens, queens_model: ModelBuilder, queens_recipe: Callable[..., Recipe]) -> Solver:
    return Solver(queens_model().eval(), queens, queens_recipe())


def test_depth_and_width_from_the_same_trajectories(queens_solver: Solver, tmp_path: Path) -> None:
    found = MEASURES["scaling"](measured(queens_solver), depths=(1, 2), widths=(1, 3), split="train", limit=20)
    assert len(found["records"]) == 4
    whole = MEASURES["solutions"](measured(queens_solver, width=3, depth=2), split="train", limit=20)
    assert [line["coverage"] for line in found["by_width"][3]] == [line["coverage"] for line in whole["by_solutions"]]
    assert found["by_width"][1][0]["intervals"]["coverage"][0] <= found["by_width"][1][0]["coverage"]
    for name in ("depth_width", "solutions_accuracy", "solutions_coverage"):
        drawn(name, [found, found], tmp_path / f"{name}.png")


def test_the_grid_of_settings_is_measured_on_the_validation_split(queens_solver: Solver, tmp_path: Path) -> None:
    (tmp_path / "metrics.jsonl").write_text('{"step": 1, "rollout_accuracy": 0.5, "posterior_accuracy": 1.0}\n')
    found = MEASURES["settings_grid"](
        measured(queens_solver, tmp_path), depths=(1, 2), temperatures=(1.0, 1.3), width=2, limit=4
    )
    assert [(record["depth"], record["temperature"]) for record in found["records"]] == [
        (1, 1.0),
        (2, 1.0),
        (1, 1.3),
        (2, 1.3),
    ]
    assert found["training"] == {"rollout_accuracy": 0.5, "posterior_accuracy": 1.0}
    drawn("objective", [found], tmp_path / "objective.png")


def test_the_elbo_is_read_from_the_log(queens_solver: Solver, tmp_path: Path) -> None:
    lines = [{"step": step, "validation_negative_elbo": 5.0 / step, "validation_surrogate": 1.0} for step in (1, 2)]
    (tmp_path / "metrics.jsonl").write_text(
        "".join(json.dumps(line) + "\n" for line in [{"step": 1, "loss": 2}, *lines])
    )
    found = MEASURES["elbo"](measured(queens_solver, tmp_path))
    assert found["curve"] == [
        {"negative_elbo": 5.0, "surrogate": 1.0, "step": 1},
        {"negative_elbo": 2.5, "surrogate": 1.0, "step": 2},
    ]
    drawn("elbo", [found], tmp_path / "elbo.png")
    with pytest.raises(GramError, match="has no log"):
        MEASURES["elbo"](measured(queens_solver))


def test_latent_trajectories_come_back_from_a_file_as_they_were(queens_solver: Solver, tmp_path: Path) -> None:
    found = MEASURES["latent"](measured(queens_solver), width=4, depth=3)
    assert np.shape(found["points"]) == (4, 4, 2)
    drawn("trajectories", [found, found], tmp_path / "trajectories.png")


def test_boards_are_scored_and_their_making_is_kept_from_t_0(tmp_path: Path) -> None:
    gram = solver_of(BOARDS, SMALL | {"supervision_steps": 3, "transitions": 1}, eval={"depth": 3})
    d3pm = solver_of(BOARDS, DIFFUSION)
    steps = []
    for solver in (gram, d3pm):
        found = MEASURES["generation"](measured(solver), count=12)
        assert found["samples"] == 12
        assert found["intervals"]["validity"][0] <= found["validity"]
        steps.append(MEASURES["process"](measured(solver), samples=2, columns=4))
    assert [frame["step"] for frame in steps[0]["frames"]] == [0, 1, 2, 3]
    assert [frame["step"] for frame in steps[1]["frames"]] == [0, 3, 7, 10]
    tokens = np.array([frame["tokens"] for frame in steps[1]["frames"]])
    assert (tokens[0] == 0).all()  # everything is masked
    assert (np.diff((tokens > 0).sum(axis=(1, 2))) > 0).all()  # and comes to light
    first = np.array(steps[0]["frames"][0]["tokens"])
    assert (first[0] == first[1]).all()  # z_0 is the same for all
    drawn("generation_process", steps, tmp_path / "process.png", recipe="sudoku-4/gram")
    drawn("validity_bars", [MEASURES["generation"](measured(gram), count=12)], tmp_path / "bars.png")


def test_arc_votes_by_samples_and_augmentations(tmp_path: Path) -> None:
    model = {"dim": 8, "channel_hidden": 8, "token_hidden": 8, "guidance_hidden": 8, "puzzle_tokens": 1}
    task = make_task("arc", **ARC["options"])
    small = {**model, "low_steps": 1, "transitions": 1, "puzzles": task.puzzles}
    solver = solver_of(ARC, small, eval={"depth": 1})
    found = MEASURES["votes"](measured(solver), widths=(1, 2), augmentations=(0, 1), limit=6)
    records = [(record["augmentations"], record["width"]) for record in found["records"]]
    assert records == [(0, 1), (0, 2), (1, 1), (1, 2)]
    assert all(0 <= record["pass@2"] <= 1 for record in found["records"])
    drawn("arc_samples", [found], tmp_path / "arc.png")


def test_every_figure_of_an_entry_is_drawn_here_or_from_a_real_result() -> None:
    here = {"depth_width", "solutions_accuracy", "solutions_coverage", "objective", "elbo", "trajectories"}
    here |= {"generation_process", "validity_bars", "arc_samples"}
    elsewhere = {"accuracy_and_coverage", "ablation_bars", "puzzle_bars", "image_scores"}  # the same bars and lines
    assert here | elsewhere == set(FIGURES) == {entry.figure for entry in ENTRIES.values() if entry.figure}
