"""Invocations for `benchmarks/hostile.py`: every command of gram, with words that do not belong there."""

import random
from collections.abc import Iterator
from itertools import count
from pathlib import Path

import typer

from gram.cli.app import COMMANDS, build_app


def hostile_lines(run: Path, recipe: Path, data: Path, chance: random.Random) -> Iterator[list[str]]:
    """Yield invocations without end: valid ones with one or two words made hostile. All files are beside `run`."""
    folder = run.parent
    shown, board = folder / "shown", "Q..../...../...../...../....."
    good: dict[str, list[str]] = {
        "models": ["--json", f"{shown}.json"],
        "solve": [str(run), board, "--width", "2", "--seed", "1", "--json", f"{shown}.json"],
        "generate": ["sudoku-generation", "-n", "2", "--depth", "1", "--figure", f"{shown}.png"],
        "demo": ["--figure", f"{shown}.gif", "--seed", "x"],
        "data": ["nqueens-5", "seed=1", "--show", "1"],
        "train": [str(recipe), "train.steps=2", "train.lr=0.1", "--out", str(folder / "new")],
        "tune": [str(run), "--depths", "1,2", "--temperatures", "1", "--limit", "2", "--width", "2"],
        "sweep": [str(recipe), "train.seed=0,0", "--out", str(folder / "new"), "--jobs", "1"],
        "plot": [str(run), "--figure", f"{shown}.png"],
        "import": [str(run / "model.safetensors"), "--as", "trm", "--out", str(folder / "new")],
        "eval": [str(run), "--limit", "2", "--width", "2", "--depth", "1", "--json", f"{shown}.json"],
        "scaling": [str(run), "--depths", "1,2", "--widths", "1", "--limit", "2", "--figure", f"{shown}.png"],
        "latent": [str(run), board, "--width", "2", "--depth", "2", "--figure", f"{shown}.png"],
        "likelihood": [str(run), "--limit", "2", "--seed", "0", "--json", f"{shown}.json"],
        "images": [str(run), "--count", "10", "--depths", "1"],
        "score": [str(folder / "junk.bin"), "--batch", "5"],
        "migrate": [str(folder / "new")],
        # Never all right at once: it would serve until it is stopped.
        "serve": ["nqueens-8", "--max-width", "0", "--max-depth", "0", "--threads", "0", "--max-queue", "0"],
        "bench": [str(recipe), "--steps", "1", "--puzzles", "1", "--json", f"{shown}.json"],
    }
    missing = {name for commands in COMMANDS.values() for name in commands} - good.keys()
    assert not missing, f"no trials for {missing}"
    words = ["", "-", "--", "-1", "0", "nan", "inf", "1e999", str(10**30), "1,,2", "٣", "💥", "[", "{a: [", "x" * 5000]
    words += [str(run), str(folder), str(recipe), str(folder / "junk.bin"), str(data), "/dev/full"]
    words += [str(folder / "none" / "x.json"), str(run / "run.json"), "../..", "owner/name", "nqueens-8", "tokens"]
    words += ["train.threads=0", "model.heads=3", "task.options.size=99", "train.lr=nan", "eval.width=0", "model="]
    words += ["a.b=1", "=", "x=y"]
    words += ["task.name=tokens", f"task.options.path={data}", "model.dim=0", "model.dim=99999999999"]
    pairs = f"--until all --halt-at 0.7 --resample 1 --power 1e6 --width {10**30} --temperature nan --steps 3 --top-p 2"
    pairs += f" --plugin x.py --task x.py:X --resume {run} --json {recipe} --figure {run} --device abacus"
    pairs += f" --file {folder / 'puzzles.txt'} --out {data} --limit 0 --seed -1 --depth {2**31} --split tset"
    halves = pairs.split()
    extras = [halves[i : i + 2] for i in range(0, len(halves), 2)] + [["--halt"], ["--calibration"], ["x=1"]]
    names = list(good)
    known = {name: options_of(name) for name in names}
    for number in count():
        name = names[number % len(names)]
        line = list(good[name])
        values = [place for place, word in enumerate(line) if not word.startswith("-")]
        for _ in range(chance.randint(1, 2)):
            if chance.random() < 0.7:
                line[chance.choice(values)] = chance.choice(words)
            else:
                line += chance.choice([extra for extra in extras if extra[0] in known[name] or "=" in extra[0]])
        yield [name, *line]


def options_of(name: str) -> set[str]:
    """Return the options that a command has."""
    command = typer.main.get_command(build_app([name])).commands[name]  # type: ignore[attr-defined]
    return {option for parameter in command.params for option in parameter.opts}
