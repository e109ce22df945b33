"""The command line, as a user meets it: answers, exit codes, and one clear sentence for every kind of bad input."""

import json
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path

import pytest

from gram.checkpoints.find import shipped_models
from gram.solver import load
from tests.pictures import checked_picture

Run = Callable[..., tuple[int, str, str]]
CORNER = "Q......./......../......../......../......../......../......../........"


def one_sentence(error: str) -> bool:
    return error.startswith("Error: ") and len(error.strip().splitlines()) == 1


def test_train_writes_a_model_that_evaluates(gram: Run, tiny_run: Path, tmp_path: Path) -> None:
    report = tmp_path / "report.json"
    code, out, _ = gram("eval", tiny_run, "--width", 3, "--json", report)
    assert code == 0
    assert "depth 2 x width 3" in out
    figures = json.loads(report.read_text())
    keys = {"accuracy", "coverage", "all_inputs", "mean_steps", "width", "depth", "seed", "split_hash", "by_solutions"}
    assert keys <= figures.keys()
    assert 0 <= figures["accuracy"] <= 1
    assert figures["width"] == 3


def test_an_existing_run_folder_is_left_alone(gram: Run, tiny_run: Path, tiny: list[str]) -> None:
    before = {path: path.read_bytes() for path in tiny_run.rglob("*") if path.is_file()}
    code, _, error = gram("train", "nqueens-8/gram", *tiny, "--out", tiny_run)
    assert code == 1
    assert one_sentence(error)
    assert "already exists" in error
    assert before == {path: path.read_bytes() for path in tiny_run.rglob("*") if path.is_file()}


def test_an_unverified_answer_is_not_called_a_solution(gram: Run, tiny_run: Path) -> None:
    # Four steps of training teach nothing, so the answer is wrong, and the exit code says so.
    code, out, _ = gram("solve", tiny_run, ".Q../..../..../....", "--width", 2)
    assert code == 3
    assert "NOT a solution" in out
    assert "0 of 1 distinct solutions" in out


def test_solving_until_the_first_solution_and_until_all(gram: Run, tmp_path: Path) -> None:
    report = tmp_path / "answers.json"
    code, out, _ = gram("solve", "nqueens-8", CORNER, "--until", "first", "--watch", "--json", report)
    assert code == 0
    assert "step 1: 1 active trajectories" in out
    assert "a solution was verified" in out
    answers = json.loads(report.read_text())
    assert answers["verified"]
    assert answers["stopped"] == "a solution was verified"
    code, out, _ = gram("solve", "nqueens-8", CORNER, "--until", "all", "--halt", "--halt-at", "0.99", "--json", report)
    assert code == 0
    assert "4 of 4 distinct solutions" in " ".join(out.split())
    assert json.loads(report.read_text())["estimate"]["high"] == 4


def test_evaluation_by_every_rule_with_calibration(gram: Run, tiny_run: Path, tmp_path: Path) -> None:
    figure, report = tmp_path / "heads.png", tmp_path / "report.json"
    code, out, _ = gram("eval", "nqueens-8", "--limit", 6, "--width", 4, "--calibration", "--figure", figure)
    assert code == 0
    assert "halt head" in out
    checked_picture(figure, least=300)
    code, _, _ = gram("eval", tiny_run, "--resample", "1", "--width", 4, "--json", report)
    assert code == 0
    figures = json.loads(report.read_text())
    assert figures["selection"].keys() == {"first", "vote", "value", "halt", "verified"}
    assert 1 <= figures["resampling"]["effective_sample_size"]["1"] <= 4


@pytest.mark.parametrize(
    "arguments",
    [
        ("solve", "nqueens-8", CORNER, "--until", "0"),
        ("solve", "nqueens-8", CORNER, "--until", "soon"),
        ("solve", "nqueens-8", CORNER, "--until", "0.00001s"),
        ("solve", "nqueens-8", CORNER, "--rule", "median"),
        ("solve", "nqueens-8", CORNER, "--halt-at", "1"),
        ("eval", "nqueens-8", "--depth", "0"),
        ("eval", "nqueens-8", "--resample", "x"),
        ("eval", "nqueens-8", "--resample", "99"),
        ("eval", "nqueens-8", "--calibration", "--figure", "curve.txt"),
        ("scaling", "nqueens-8", "--depths", "0,1"),
        ("scaling", "nqueens-8", "--widths", "many"),
        ("scaling", "nqueens-8", "nqueens-10"),
        ("latent", "nqueens-8", "Q"),
    ],
    ids=" ".join,
)
def test_bad_searches(gram: Run, arguments: tuple[str, ...]) -> None:
    code, _, error = gram(*arguments)
    assert code == 1
    assert one_sentence(error)


@pytest.mark.parametrize(
    ("puzzle", "message"),
    [
        ("Q...", "64"),
        (CORNER.replace("Q", "X"), "X"),
        (CORNER.replace("Q.", "QQ"), "attack"),
        ("Q......./..Q...../....Q.../......Q./.Q....../......../......../........", "No solution"),
    ],
)
def test_bad_boards(gram: Run, puzzle: str, message: str) -> None:
    code, _, error = gram("solve", "nqueens-8", puzzle)
    assert code == 1
    assert one_sentence(error)
    assert message in error


def test_bad_recipes_are_refused_before_anything_is_written(gram: Run, tmp_path: Path) -> None:
    out = tmp_path / "run"
    for override in (
        "model.dimm=3",
        "train.lr=fast",
        "train.device=tpu",
        "train.device=cpu:x",
        "train.seed=-1",
        "task.options.size=3",
        "task.options.size=banana",
        "task.options.seed=-1",
        "task.options.test_share=0",
        "task.options.test_share=0.9999",
        "eval.temperature=inf",
        "oops",
    ):
        overrides = [override]
        code, _, error = gram("train", "nqueens-8/gram", *overrides, "--out", out)
        assert code == 1, overrides
        assert one_sentence(error), error
        assert not out.exists()
    assert one_sentence(gram("train", tmp_path / "missing.yaml")[2])


def test_bad_models(gram: Run, tmp_path: Path, tiny_run: Path) -> None:
    broken = tmp_path / "broken"
    broken.mkdir()
    (broken / "config.json").write_bytes((tiny_run / "config.json").read_bytes())
    (broken / "model.safetensors").write_bytes((tiny_run / "model.safetensors").read_bytes()[:1000])
    for model in ("no-such-model", tmp_path, broken):
        code, _, error = gram("solve", model, CORNER)
        assert code == 1
        assert one_sentence(error), error


def test_targets_that_cannot_be_written_are_refused_before_the_work(gram: Run, tiny_run: Path, tmp_path: Path) -> None:
    weights = (tiny_run / "model.safetensors").read_bytes()
    targets = [
        ("--figure", tmp_path / "figure.xyz"),
        ("--figure", tmp_path / "missing" / "figure.png"),
        ("--figure", tmp_path),
        ("--json", tmp_path),
        ("--json", tmp_path / "missing" / "answers.json"),
        ("--json", tiny_run / "model.safetensors"),
    ]
    for option, target in targets:
        code, out, error = gram("solve", tiny_run, ".Q../..../..../....", option, target)
        assert (code, out) == (1, ""), target
        assert one_sentence(error), error
    assert (tiny_run / "model.safetensors").read_bytes() == weights


def test_tune_refuses_before_sampling(gram: Run, tiny_run: Path, tmp_path: Path) -> None:
    for arguments in (
        ["--depths", "0,2"],
        ["--temperatures", "1,-1"],
        ["--temperatures", "1:x"],
        ["--depths", "x"],
        ["--device", "banana"],
    ):
        code, _, error = gram("tune", tiny_run, *arguments)
        assert code == 1, arguments
        assert one_sentence(error), error
    assert "config.json is missing" in gram("tune", tmp_path)[2]
    # A shipped model is not for changing; the sentence gives the command that copies it.
    code, _, error = gram("tune", "nqueens-8")
    assert code == 1
    assert one_sentence(error)
    copy = re.search(r"`cp -r (\S+) (\S+)`", error)
    assert copy is not None
    assert (Path(copy[1]) / "config.json").is_file()


def test_tune_writes_the_chosen_setting(gram: Run, tiny_run: Path, tmp_path: Path) -> None:
    copy = tmp_path / "copy"
    shutil.copytree(tiny_run, copy)
    found = tmp_path / "tuned.json"
    code, out, _ = gram("tune", copy, "--depths", "1,3", "--temperatures", "0.5:0.25", "--width", 2, "--json", found)
    assert code == 0
    report = json.loads(found.read_text())
    assert [(item["depth"], item["temperature_final"]) for item in report["tried"]] == [(1, 0.25), (3, 0.25)]
    assert report["chosen"] in report["tried"]
    assert (report["split"], report["width"]) == ("validation", 2)
    assert "<- chosen" in out
    assert "0.5 to 0.25" in out
    settings = json.loads((copy / "config.json").read_text())["recipe"]["eval"]
    assert settings["depth"] in (1, 3)
    assert (settings["temperature"], settings["temperature_final"]) == (0.5, 0.25)


def test_a_puzzle_from_standard_input(tiny_run: Path) -> None:
    command = [sys.executable, "-m", "gram", "solve", str(tiny_run), "-"]
    for text, code in ((b"\xef\xbb\xbf.Q../..../..../....", 3), (b"\xff\xfe\x00", 1), (b"", 1)):
        done = subprocess.run(command, input=text, capture_output=True, check=False)
        assert done.returncode == code
        assert b"Traceback" not in done.stderr


@pytest.mark.parametrize("option", [("--width", 0), ("--depth", 0), ("--temperature", -1)])
def test_bad_options(gram: Run, option: tuple[str, int]) -> None:
    code, _, error = gram("solve", "nqueens-8", CORNER, *option)
    assert code == 1
    assert one_sentence(error)


@pytest.mark.parametrize("command", [("solve", "nqueens-8", CORNER), ("likelihood", "nqueens-8"), ("score", "x.npz")])
@pytest.mark.parametrize("seed", [-1, 2**32])
def test_a_seed_that_torch_cannot_take_is_refused(gram: Run, command: tuple[str, ...], seed: int) -> None:
    code, _, error = gram(*command, "--seed", seed)
    assert code == 2
    assert "Invalid value for '--seed'" in error


@pytest.mark.parametrize("rank", ["1", "x"])
def test_a_rank_without_other_processes_silences_nothing(
    gram: Run, monkeypatch: pytest.MonkeyPatch, rank: str, tmp_path: Path, tiny: list[str]
) -> None:
    monkeypatch.setenv("RANK", rank)
    assert one_sentence(gram("solve", "nosuch", CORNER)[2])
    assert one_sentence(gram("train", "nosuch.yaml")[2])
    monkeypatch.setenv("WORLD_SIZE", "two")
    monkeypatch.setenv("LOCAL_WORLD_SIZE", "two")
    assert one_sentence(gram("solve", "nosuch", CORNER)[2])
    code, _, error = gram("train", "nqueens-8/gram", *tiny, "--out", tmp_path / "nowhere")
    assert (code, "must be a whole number" in error) == (1, True)


def test_one_state_has_no_directions_to_be_drawn_along(gram: Run, tiny_run: Path, tmp_path: Path) -> None:
    line = ("latent", tiny_run, "--width", "1", "--depth", "1", "--figure", tmp_path / "latent.png")
    assert "raise --width or --depth" in gram(*line)[2]


def test_the_version_is_the_packages(gram: Run) -> None:
    assert gram("--version") == (0, f"{version('gram-reasoning')}\n", "")


def test_data_shows_splits_hash_and_examples(gram: Run, tmp_path: Path) -> None:
    code, out, _ = gram("data", "nqueens-7", "--show", 2, "--figure", tmp_path / "counts.png")
    assert code == 0
    assert "split hash" in out
    assert "Example 2" in out
    assert "solutions per input" in out
    assert "coverage of ideal models" in out
    checked_picture(tmp_path / "counts.png", least=300)
    for unknown in ("chess", "nqueens-", "nqueens-²", "nqueens-99"):
        code, _, error = gram("data", unknown)
        assert code == 1
        assert one_sentence(error)


def test_divergence_is_said_in_one_sentence(gram: Run, tmp_path: Path, tiny: list[str]) -> None:
    code, _, error = gram(
        "train", "nqueens-8/gram", *tiny, "train.lr=1e30", "train.warmup=0", "--out", tmp_path / "run"
    )
    assert code == 1
    assert "diverged at step" in error
    assert one_sentence(error)


def test_shipped_models_are_small() -> None:
    assert list(shipped_models()) == [
        "colouring-8",
        "colouring-10",
        "digits",
        "mnist",
        "nqueens-8",
        "nqueens-10",
        "sudoku-extreme",
        "sudoku-generation",
    ]
    for name, folder in shipped_models().items():
        assert sum(p.numel() for p in load(name).model.parameters()) <= 1_000_000
        assert sum(path.stat().st_size for path in folder.iterdir()) <= 4_000_000


def test_the_shipped_sudoku_model_solves_what_is_in_the_newspaper(gram: Run) -> None:
    puzzle = "530070000600195000098000060800060003400803001700020006060000280000419005000080079"
    code, out, _ = gram("solve", "sudoku-extreme", puzzle, "--until", "first")
    assert code == 0
    assert "1 of 1 distinct solutions found and verified" in " ".join(out.split())


@pytest.mark.parametrize("name", ["nqueens-8", "nqueens-10"])
def test_shipped_models_find_several_verified_solutions(gram: Run, tmp_path: Path, name: str) -> None:
    solver = load(name)
    board = "." * 3 + "Q" + "." * (solver.task.length - 4)
    report, figure = tmp_path / "answers.json", tmp_path / "steps.png"
    code, out, _ = gram("solve", name, board, "--width", 20, "--json", report, "--figure", figure)
    assert code == 0
    checked_picture(figure, least=300)
    answers = json.loads(report.read_text())
    assert answers["verified"]
    assert len(answers["solutions"]) >= 3, out
    known = {tuple(row) for row in solver.task.solutions(solver.task.parse(board)).tolist()}  # type: ignore[union-attr]
    assert {tuple(row) for row in answers["solutions"]} <= known


def test_demo_prints_boards_and_draws(gram: Run, tmp_path: Path) -> None:
    code, out, _ = gram("demo", "--figure", tmp_path / "demo.png")
    assert code == 0
    assert "distinct solutions found and verified" in out
    assert all(f"{name}: " in out for name in ("nqueens-8", "nqueens-10", "colouring-8", "sudoku-extreme"))
    assert "sudoku-generation: " in out
    checked_picture(tmp_path / "demo.png", least=300)
