"""Solve every puzzle of a file, in blocks that are written as they are done, so that the command can be resumed."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from rich.console import Console

from gram.cli.common import resumable, say
from gram.cli.options import WideSampling
from gram.cli.report import answers_as_json
from gram.errors import GramError
from gram.files import append_blocks
from gram.inference.stream import weights_digest
from gram.progress import bar
from gram.tasks.base import Task, Tokens

BLOCK = 64
"""Puzzles that are solved together and written at once."""
NAMED = 5
"""Bad lines that an error names."""


def solve_file(console: Console, model: str, file: Path, out: Path, sampling: WideSampling, rule: str | None) -> bool:
    """Write the answer to every puzzle of `file` to `out`, one JSON object per line; return whether all are verified.

    Answers of this very command that `out` holds already are kept.
    """
    solver = sampling.load(model)
    puzzles = read_puzzles(solver.task, file)
    lines, chosen_by = list(puzzles), solver.rule(rule)  # type: ignore[arg-type]
    settings = {
        "weights": weights_digest(solver.model),
        **solver.supported(sampling.options(solver)),
        "rule": chosen_by,
    }
    answers = read_answers(out, puzzles, settings)

    def solved() -> Iterator[bytes]:
        for start in range(len(answers), len(lines), BLOCK):
            some = lines[start : start + BLOCK]
            given = [puzzles[line] for line in some]
            results = solver.solve_many(given, rule=chosen_by, progress=False, **sampling.given())
            texts = (
                json.dumps({"line": line, **settings, **answers_as_json(result)}) + "\n"
                for line, result in zip(some, results, strict=True)
            )
            yield "".join(texts).encode()
            advance(len(some))

    with resumable(f"The same command resumes from {out}."), bar(console, "solving", len(lines)) as advance:
        advance(len(answers))
        append_blocks(out, sum(map(len, answers)), solved())
    verified = sum(bool(json.loads(answer)["verified"]) for answer in out.read_bytes().splitlines())
    say(f"{verified} of {len(lines)} answers verified: {out}")
    return verified == len(lines)


def read_puzzles(task: Task, file: Path) -> dict[int, Tokens]:
    """Return the puzzles [length] by line number, empty lines left out; raise `GramError` if any line is bad."""
    try:
        texts = file.read_text(encoding="utf-8-sig").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise GramError(f"{file} cannot be read as text ({type(error).__name__}).") from error
    puzzles: dict[int, Tokens] = {}
    bad: list[str] = []
    for number, text in enumerate(texts, start=1):
        try:
            if text.strip():
                puzzles[number] = task.parse(text.strip())
        except GramError as error:
            bad.append(f"line {number}: {str(error).rstrip('.')}")
    if bad:
        more = f"; and {len(bad) - NAMED} more" if len(bad) > NAMED else ""
        raise GramError(f"{file} has {len(bad)} bad lines ({'; '.join(bad[:NAMED])}{more}).")
    if not puzzles:
        raise GramError(f"{file} contains no puzzle: write one per line.")
    return puzzles


def read_answers(out: Path, puzzles: dict[int, Tokens], settings: dict[str, Any]) -> list[bytes]:
    """Return the lines of whole blocks that an interrupted call has left in `out`.

    `GramError` if they answer other puzzles or were sampled otherwise: nothing of another call is overwritten.
    """
    if not out.exists():
        return []
    content = out.read_bytes()
    if content and not content.startswith(b'{"line": '[: len(content)]):
        raise GramError(f"{out} contains other data than answers: choose another name.")
    found = [line for line in content.splitlines(keepends=True) if line.endswith(b"\n")]
    for answer, (number, given) in zip(found, puzzles.items(), strict=False):
        if not _answers(answer, {"line": number, "input": given.tolist(), **settings}):
            raise GramError(f"{out} holds answers to other puzzles or settings: remove it, or choose another name.")
    if len(found) > len(puzzles):
        raise GramError(f"{out} holds {len(found)} answers, more than there are puzzles: choose another name.")
    whole = len(found) if len(found) == len(puzzles) else len(found) // BLOCK * BLOCK
    return found[:whole]


def _answers(line: bytes, expected: dict[str, Any]) -> bool:
    try:
        content = json.loads(line)
    except ValueError:
        return False
    return isinstance(content, dict) and all(content.get(key) == value for key, value in expected.items())
