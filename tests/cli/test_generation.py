"""`gram generate` and `gram likelihood`: unconditional samples by the thousand, interrupted and resumed."""

import io
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_array_equal
from rich.console import Console

from gram.config import ModelConfig, Recipe
from gram.errors import GramError, Interrupted
from gram.evaluation.generation import score_samples
from gram.evaluation.likelihood import likelihood
from gram.inference import stream
from gram.inference.sample import sample
from gram.inference.stream import generate
from gram.models.baselines.base import DRAWN_AT_ONCE
from gram.models.reasoner import Reasoner
from gram.solver import Solver, load
from gram.tasks.base import Examples
from gram.tasks.images import BLACK, MNIST, MNIST_FILES, WHITE
from gram.tasks.sudoku.generated import SudokuGeneration
from gram.tasks.sudoku.generator import random_boards
from gram.training.loop import train
from tests.cli.helpers import BOARDS, MODELS, SHORT, TINY, command
from tests.pictures import checked_picture


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Each model after two steps of training on 4x4 boards."""
    found = {}
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("GRAM_CACHE", str(tmp_path_factory.mktemp("cache")))
        for name, changes in MODELS.items():
            recipe = Recipe(**{"task": BOARDS, "train": SHORT, "eval": {"depth": 3, "width": 4}, **changes})
            found[name] = tmp_path_factory.mktemp("runs") / name
            train(recipe, found[name], Console(file=io.StringIO()))
    return found


@pytest.fixture
def solver(folders: dict[str, Path], request: pytest.FixtureRequest) -> Solver:
    return load(folders[getattr(request, "param", "gram")])


def run(*arguments: str) -> Any:
    return command("generate", *arguments)


@pytest.mark.parametrize("solver", ["gram", "d3pm"], indirect=True)
def test_a_broken_off_run_goes_on_to_the_same_result(
    solver: Solver, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stream, "BLOCK", DRAWN_AT_ONCE)
    options, count, path = solver.options, 2 * DRAWN_AT_ONCE + 20, tmp_path / "boards.npz"
    whole = generate(solver, count, options)

    real, calls = sample, []

    def interrupted(*arguments: Any, **keywords: Any) -> Any:
        calls.append(keywords["first"])
        if len(calls) == 2:
            raise KeyboardInterrupt
        return real(*arguments, **keywords)

    monkeypatch.setattr(stream, "sample", interrupted)
    with pytest.raises(KeyboardInterrupt):
        generate(solver, count, options, path=path)
    part = tmp_path / "boards.npz.part"
    with part.open("ab") as file:
        file.write(b"\x02" * 37)  # as if the machine had died in the middle of a block
    assert_array_equal(generate(solver, count, options, path=path), whole)
    assert calls == [0, DRAWN_AT_ONCE, DRAWN_AT_ONCE, 2 * DRAWN_AT_ONCE]  # the first block was not drawn again
    assert not part.exists()
    with np.load(path) as stored:
        assert_array_equal(stored["tokens"], whole)
        assert str(stored["task"]) == "sudoku-generation-4"
        assert json.loads(str(stored["settings"]))["seed"] == 0


def test_a_diffusion_model_samples_in_fewer_steps(folders: dict[str, Path]) -> None:
    solver = load(folders["d3pm"])
    few, all_ten = (generate(solver, 20, replace(solver.options, steps=steps)) for steps in (5, None))
    assert not np.array_equal(few, all_ten)
    assert_array_equal(generate(solver, 20, replace(solver.options, steps=10)), all_ten)


def test_a_finished_file_is_scored_again_without_drawing(folders: dict[str, Path], tmp_path: Path) -> None:
    out, figures = tmp_path / "boards.npz", tmp_path / "f.json"
    arguments = ["-n", "6", "--figure", str(tmp_path / "s.png"), "--out", str(out), "--json", str(figures)]
    found = []
    for _ in range(2):
        assert run(str(folders["gram"]), *arguments).exit_code == 0
        found.append(json.loads(figures.read_text()))
    assert [one["drawn"] for one in found] == [6, 0]
    assert found[0]["validity"] == found[1]["validity"]


@pytest.mark.parametrize("solver", ["trm"], indirect=True)
def test_a_model_without_noise_collapses(solver: Solver) -> None:
    assert len(np.unique(generate(solver, 30, solver.options), axis=0)) == 1


def test_puzzles_are_not_generated(tmp_path: Path) -> None:
    with pytest.raises(GramError, match="gram solve"):
        generate(load("nqueens-8"), 1, load("nqueens-8").options)


def test_scores_count_valid_distinct_and_new_boards() -> None:
    task = SudokuGeneration(size=4, train_boards=100, validation_boards=2, test_boards=2)
    known = task.split("train").targets[:3]
    fresh = task.split("test").targets
    wrong = np.full((4, 16), 2)
    scores = score_samples(task, np.concatenate([known, known, fresh, wrong]).astype(np.uint8))
    assert scores["validity"] == 8 / 12
    assert scores["uniqueness"] == 5 / 8
    assert scores["novelty"] == 2 / 5


def test_a_hundred_thousand_boards_are_judged_in_little_memory() -> None:
    task = SudokuGeneration(size=4, train_boards=100, validation_boards=2, test_boards=2)
    boards = random_boards(4, 1000, np.random.default_rng(0)).astype(np.uint8) + 1
    scores = score_samples(task, np.tile(boards, (100, 1)))
    assert scores["samples"] == 100_000
    assert scores["validity"] == 1
    assert scores["uniqueness"] == len(np.unique(boards, axis=0)) / 100_000


def test_the_command_prints_boards_and_draws_them(folders: dict[str, Path], tmp_path: Path) -> None:
    sheet, moving, figures = tmp_path / "sheet.png", tmp_path / "process.gif", tmp_path / "figures.json"
    common = ["-n", "5", "--figure", str(sheet)]
    done = run(str(folders["gram"]), *common, "--process", str(moving), "--json", str(figures))
    assert done.exit_code == 0, done.output
    assert "sample 4" in done.output
    assert "sample 5" not in done.output
    assert json.loads(figures.read_text())["samples"] == 5
    checked_picture(sheet)
    assert checked_picture(moving)[2] > 1
    still = tmp_path / "process.png"
    assert run(str(folders["gram"]), *common, "--process", str(still), "--show", "0").exit_code == 0
    width, height, frames = checked_picture(still)
    assert (width > height, frames) == (False, 1)  # four samples below each other, three steps


@pytest.mark.parametrize(
    ("model", "arguments", "message"),
    [
        ("d3pm", ["--process", "p.gif"], "no supervision steps"),
        ("d3pm", ["--steps", "3"], "do not divide the 10 steps"),
        ("ar", ["--steps", "3"], "Option 'steps' is not supported by this model"),
        ("gram", ["--steps", "3"], "Option 'steps' is not supported by this model"),
        ("gram", ["--out", "boards.csv"], "must end in"),
        ("gram", ["--process", "p.mp4"], "must end in"),
        ("gram", ["--process", "s.png"], "give it another name"),
        ("trm", ["--temperature", "3"], "Option 'temperature' is not supported by this model"),
    ],
)
def test_what_cannot_be_done_is_refused(
    folders: dict[str, Path], tmp_path: Path, model: str, arguments: list[str], message: str
) -> None:
    arguments = [argument if argument[0] in "-3" else str(tmp_path / argument) for argument in arguments]
    done = run(str(folders[model]), "--figure", str(tmp_path / "s.png"), *arguments)
    assert isinstance(done.exception, GramError)
    assert message in str(done.exception)


@pytest.mark.parametrize("solver", ["trm"], indirect=True)
def test_the_likelihood_of_a_model_without_noise_is_that_of_its_tokens(solver: Solver) -> None:
    examples = solver.task.split("test")
    found = likelihood(solver.model, examples)
    assert found.exact
    assert found.rows == 4
    # All rows share their input, so one prediction must explain all of them: no better than the entropy of each cell.
    counts = np.stack([(examples.targets == token).mean(axis=0) for token in range(2, 6)])
    entropy = -(counts * np.log(np.where(counts > 0, counts, 1))).sum()
    assert found.nats <= -entropy + 1e-6


def test_a_model_with_guidance_and_no_noise_has_an_exact_likelihood() -> None:
    model = Reasoner(ModelConfig(**TINY, guidance="guide_only"), vocab_size=6, length=16)
    task = SudokuGeneration(size=4, train_boards=10, validation_boards=2, test_boards=2)
    found = likelihood(model, task.split("train"))
    # At variance 0 the KL of a posterior is not finite: the prior's own prediction is what the answer costs.
    assert found.exact
    nothing = Examples(*(np.zeros((0, 16), dtype=np.int64),) * 2, np.zeros(0, dtype=np.int64))
    with pytest.raises(GramError, match="empty"):
        likelihood(model, nothing)


def test_the_bound_does_not_depend_on_how_rows_are_batched(
    folders: dict[str, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    solver = load(folders["ar"])
    whole = likelihood(solver.model, solver.task.split("train"))
    monkeypatch.setattr("gram.evaluation.likelihood.ROWS", 7)
    parts = likelihood(solver.model, solver.task.split("train"))
    assert whole.exact
    assert parts.nats == pytest.approx(whole.nats)
    assert whole.error > 0


def test_likelihoods_stand_side_by_side(folders: dict[str, Path], tmp_path: Path) -> None:
    figures = tmp_path / "nats.json"
    models = [str(folders[name]) for name in MODELS]
    done = command("likelihood", *models, "--limit", "3", "--json", str(figures))
    assert done.exit_code == 0, done.output
    found = json.loads(figures.read_text())
    assert [entry["exact"] for entry in found.values()] == [False, True, False, True]
    assert all(np.isfinite(entry["nats"]) and entry["nats"] < 0 for entry in found.values())
    mixed = command("likelihood", models[0], "nqueens-8")
    assert "different tasks" in str(mixed.exception)


def test_boards_are_no_images(folders: dict[str, Path]) -> None:
    done = command("images", str(folders["gram"]), "-n", "10", "--depths", "1")
    assert "no images to score" in str(done.exception)


def test_ctrl_c_says_how_to_go_on(folders: dict[str, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*_: Any, **__: Any) -> Any:
        raise KeyboardInterrupt

    monkeypatch.setattr(stream, "sample", interrupted)
    out = tmp_path / "boards.npz"
    done = run(str(folders["gram"]), "--figure", str(tmp_path / "s.png"), "--out", str(out))
    assert isinstance(done.exception, Interrupted)
    assert f"resumes from {out}.part" in str(done.exception)


def test_images_are_generated_without_the_training_data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GRAM_CACHE", str(tmp_path / "cache"))
    monkeypatch.delenv("GRAM_DATA", raising=False)
    task = MNIST()
    assert not task.data_is_here
    scores = score_samples(task, np.random.default_rng(0).integers(BLACK, WHITE + 1, (3, 784)))
    assert scores["uniqueness"] == 1
    assert "novelty" not in scores
    monkeypatch.setenv("GRAM_DATA", str(tmp_path))
    for name in MNIST_FILES:
        (tmp_path / "mnist").mkdir(exist_ok=True)
        (tmp_path / "mnist" / name).touch()
    assert task.data_is_here
