"""Nothing is overwritten by mistake, and no option is ignored: refused before the work, in one sentence."""

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from gram.cli.targets import check_target, check_targets
from gram.errors import GramError

Run = Callable[..., tuple[int, str, str]]
BOARD = "..../..../..../...."


@pytest.mark.parametrize("name", ["run.json", "test.json", "metrics.jsonl", "config.json", "checkpoints/a.json"])
def test_files_of_a_run_are_no_targets(tiny_run: Path, name: str) -> None:
    with pytest.raises(GramError, match="part of a model or a run"):
        check_target(tiny_run / name)


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("recipe.yaml", b"task: {}"),
        ("plugin.py", b"import os"),
        ("a.json", b"\x89PNG"),
        ("data.npz", b"PK"),
        ("x", b"?"),
    ],
)
def test_an_existing_file_of_another_kind_is_kept(tmp_path: Path, name: str, content: bytes) -> None:
    path = tmp_path / name
    path.write_bytes(content)
    with pytest.raises(GramError, match="another kind of file"):
        check_target(path)
    if path.suffix == ".json":
        path.write_text('{"depth": 3}')
        check_target(path)  # a report of before


def test_a_figure_does_not_replace_what_is_none(tmp_path: Path) -> None:
    (tmp_path / "a.png").write_text("my notes")
    with pytest.raises(GramError, match="another kind of file"):
        check_target(tmp_path / "a.png", (".png",))


def test_inputs_and_targets_are_different_files(tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    with pytest.raises(GramError, match="the command's own input"):
        check_targets([path], json=tmp_path / ".." / tmp_path.name / "a.json")
    with pytest.raises(GramError, match="also the file of --out"):
        check_targets([], (".json",), out=path, json=path)
    check_targets(["nqueens-8", None], figure=tmp_path / "a.png", json=tmp_path / "b.json", out=None)
    with pytest.raises(GramError, match=r"must end in one of \.png"):
        check_targets([], figure=path)


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        (("solve", "RUN", BOARD, "--until", "first", "--width", "3"), "no --width"),
        (("solve", "RUN", BOARD, "--halt-at", "0.7"), "--halt-at needs --halt"),
        (("eval", "RUN", "--halt-at", "0.7"), "--halt-at needs --halt"),
        (("eval", "RUN", "--power", "2"), "--power needs --resample"),
        (("eval", "RUN", "--figure", "x.png"), "--figure needs --calibration"),
        (("eval", "RUN", "--calibration", "--halt"), "leave out --halt"),
        (("scaling", "RUN", "RUN"), "given twice"),
        (("likelihood", "RUN", "RUN"), "given twice"),
        (("data", "colouring-5", "relabel=maybe"), "must be true or false"),
        (("data", "nqueens-5", "seed=1", "seed=2"), "given twice"),
    ],
)
def test_an_option_that_would_be_ignored_is_refused(
    gram: Run, tiny_run: Path, line: tuple[str, ...], reason: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    code, _, error = gram(*(str(tiny_run) if word == "RUN" else word for word in line))
    assert code == 1
    assert reason in error
    assert not list(tmp_path.iterdir())


def test_bench_results_cannot_be_changed(gram: Run, tmp_path: Path) -> None:
    for name in ("a.json", "b.json"):
        (tmp_path / name).write_text("{}")
    line = ("bench", tmp_path / "a.json", tmp_path / "b.json", "--compare", "model.dim=8")
    assert "no overrides" in gram(*line)[2]


def test_large_powers_give_numbers(gram: Run, tiny_run: Path, tmp_path: Path) -> None:
    code, out, error = gram("eval", tiny_run, "--resample", "1", "--power", "100000", "--json", tmp_path / "a.json")
    assert code == 0, error
    assert "NaN" not in (tmp_path / "a.json").read_text()
    assert "nan" not in out


def test_answers_do_not_replace_another_file(gram: Run, tiny_run: Path, tmp_path: Path) -> None:
    (tmp_path / "puzzles.txt").write_text(BOARD)
    precious = tmp_path / "answers.jsonl"
    precious.write_bytes(b"{precious, without a line end")
    code, _, error = gram("solve", tiny_run, "--file", tmp_path / "puzzles.txt", "--out", precious)
    assert (code, "other data than answers" in error) == (1, True)
    assert precious.read_bytes() == b"{precious, without a line end"


def test_tune_leaves_the_width_and_a_training_run_alone(gram: Run, tiny_run: Path, tmp_path: Path) -> None:
    copy = Path(shutil.copytree(tiny_run, tmp_path / "copy"))
    code, _, error = gram("tune", copy, "--depths", "1,2", "--temperatures", "1", "--width", "7", "--limit", "3")
    assert code == 0, error
    text = (copy / "config.json").read_text()
    assert '"width": 2' in text
