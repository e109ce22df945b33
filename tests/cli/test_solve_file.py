"""`gram solve --file`: many puzzles, one JSON line each; an interrupted command resumes to the same answers."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from gram.cli import solve_file
from gram.solver import Solver

Run = Callable[..., tuple[int, str, str]]


def board(place: int) -> str:
    """The 8 x 8 board with one queen in its first row."""
    return "." * place + "Q" + "." * (63 - place)


@pytest.fixture
def puzzles(tmp_path: Path) -> Path:
    path = tmp_path / "puzzles.txt"
    path.write_text("\n".join([board(0), "", board(1), board(2), board(3), board(4)]) + "\n")
    return path


@pytest.fixture
def _small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(solve_file, "BLOCK", 2)


@pytest.mark.usefixtures("_small_blocks")
def test_every_puzzle_is_answered_in_order(gram: Run, puzzles: Path, tmp_path: Path) -> None:
    out = tmp_path / "answers.jsonl"
    code, said, _ = gram("solve", "nqueens-8", "--file", puzzles, "--out", out, "--width", 6)
    assert code == 0
    assert "5 of 5 answers verified" in said
    answers = [json.loads(line) for line in out.read_text().splitlines()]
    assert [answer["line"] for answer in answers] == [1, 3, 4, 5, 6]
    for place, answer in enumerate(answers):
        assert answer["verified"]
        assert answer["best"][place] == 2  # the given queen
        assert answer["best"].count(2) == 8
        assert answer["width"] == 6


@pytest.mark.usefixtures("_small_blocks")
def test_an_interrupted_command_resumes_to_the_same_answers(
    gram: Run, puzzles: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole, out = tmp_path / "whole.jsonl", tmp_path / "answers.jsonl"
    arguments = ("solve", "nqueens-8", "--file", puzzles, "--width", 4, "--out")
    gram(*arguments, whole)
    calls = []
    real = Solver.solve_many

    def interrupted(solver: Solver, some: list[Any], **options: Any) -> Any:
        calls.append(len(some))
        if len(calls) == 2:
            raise KeyboardInterrupt
        return real(solver, some, **options)

    monkeypatch.setattr(Solver, "solve_many", interrupted)
    code, _, error = gram(*arguments, out)
    assert code == 130
    assert f"resumes from {out}" in error
    assert out.read_bytes() == b"".join(whole.read_bytes().splitlines(keepends=True)[:2])
    with out.open("ab") as file:
        file.write(b'{"line": 4, "inp')  # as if the machine had died while it wrote
    assert gram(*arguments, out)[0] == gram(*arguments, whole)[0]
    assert out.read_bytes() == whole.read_bytes()
    assert calls == [2, 2, 2, 1]  # the first block was not solved again, and the whole file not at all


def test_another_commands_answers_are_left_alone(gram: Run, puzzles: Path, tmp_path: Path) -> None:
    out = tmp_path / "answers.jsonl"
    gram("solve", "nqueens-8", "--file", puzzles, "--out", out, "--width", 4)
    before = out.read_bytes()
    changes = (["--width", 5], ["--width", 4, "--seed", 1], ["--width", 4, "--rule", "first"])
    for arguments in changes:
        code, _, error = gram("solve", "nqueens-8", "--file", puzzles, "--out", out, *arguments)
        assert code == 1
        assert "other puzzles or settings" in error
    puzzles.write_text(board(5) + "\n")
    assert "other puzzles" in gram("solve", "nqueens-8", "--file", puzzles, "--out", out, "--width", 4)[2]
    assert out.read_bytes() == before


def test_bad_lines_are_named_before_any_work(gram: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Solver, "solve_many", lambda *_, **__: pytest.fail("work has begun"))
    path, out = tmp_path / "puzzles.txt", tmp_path / "answers.jsonl"
    path.write_text("\n".join([board(0), "Q...", board(1), "x" * 64, *["Q"] * 6]))
    code, _, error = gram("solve", "nqueens-8", "--file", path, "--out", out)
    assert code == 1
    assert len(error.strip().splitlines()) == 1
    assert "8 bad lines (line 2: " in error
    assert "line 4: " in error
    assert "and 3 more" in error
    assert not out.exists()
    for content in (b"", b"\n\n", b"\xff\xfe\x00"):
        path.write_bytes(content)
        assert gram("solve", "nqueens-8", "--file", path, "--out", out)[0] == 1
    assert gram("solve", "nqueens-8", "--file", tmp_path / "none.txt", "--out", out)[0] == 1


@pytest.mark.parametrize(
    "arguments", [[], ["--file", "p.txt"], ["--out", "a.jsonl"], [board(0), "--file", "p.txt", "--out", "a.jsonl"]]
)
def test_a_puzzle_or_a_file(gram: Run, arguments: list[str]) -> None:
    code, _, error = gram("solve", "nqueens-8", *arguments)
    assert code == 1
    assert "Give a puzzle, or --file" in error
