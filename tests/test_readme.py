"""The code of README and the documentation runs as it stands there, commands parse, and links lead somewhere."""

import math
import re
import shlex
from pathlib import Path
from typing import Any

import pytest
import typer

from gram.cli.app import build_app, main
from gram.config import load_recipe

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text()
PAGES = [
    *sorted(ROOT.glob("*.md")),
    *sorted((ROOT / "docs").glob("*.md")),
    *sorted((ROOT / "docs").glob("api/*.md")),
    *sorted((ROOT / "docs").glob("notebooks/*.ipynb")),
]
GENERATED = {"docs/recipes.md", "docs/models.md", "docs/commands.md"}
"""pages that docs/hooks.py makes; the strict build of the site checks links to them"""


def blocks(text: str, language: str = "") -> list[str]:
    fences = re.findall(r"^```(\w*)\n(.*?)^```$", text, flags=re.DOTALL | re.MULTILINE)
    return [block for found, block in fences if found == language]


def commands(text: str) -> list[list[str]]:
    """The arguments of every `gram` command in the blocks of a page, without comments."""
    lines = [line for block in blocks(text) for line in block.replace("\\\n", " ").splitlines()]
    found = [shlex.split(line, comments=True) for line in lines if re.match(r"(gram|torchrun|srun) ", line)]
    return [words[words.index("gram") + 1 :] for words in found]


QUICK, *SLOW = [commands(f"```\n{block}```") for block in blocks(README) if block.startswith("gram ")]
DOCUMENTED = [
    pytest.param(words, id=f"{page.stem}: {' '.join(words)}"[:90])
    for page in PAGES
    if page.suffix == ".md"
    for words in commands(page.read_text())
]


def test_the_quick_start_finds_verified_solutions(capsys: Any) -> None:
    exec(blocks(README, "python")[0], {})
    out = capsys.readouterr().out
    assert out.startswith("verified solution")
    assert re.search(r"^[1-4] different verified solutions", out, flags=re.MULTILINE)


def test_a_loop_of_your_own_is_short_and_learns() -> None:
    (loop,) = [block for block in blocks(README, "python") if "init_carry" in block]
    assert len(loop.splitlines()) <= 15
    scope: dict[str, Any] = {}
    exec(
        loop.replace("loss.backward()", "losses.append(loss.item()); loss.backward()"),
        scope | {"losses": (losses := [])},
    )
    assert len(losses) == 30
    assert all(map(math.isfinite, losses))
    assert sum(losses[-5:]) < 0.5 * sum(losses[:5])


@pytest.mark.parametrize("words", QUICK, ids=" ".join)
def test_the_commands_that_take_seconds_succeed(
    words: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any
) -> None:
    monkeypatch.chdir(tmp_path)  # figures are written to the working folder
    monkeypatch.setattr("sys.argv", ["gram", *words])
    with pytest.raises(SystemExit) as done:
        main()
    assert done.value.code in (None, 0), capsys.readouterr().err
    assert capsys.readouterr().out
    if "--figure" in words or words[0] == "latent":
        assert list(tmp_path.glob("*.png"))


def test_readme_has_quick_and_slow_commands() -> None:
    assert len(QUICK) >= 5
    assert {words[0] for group in SLOW for words in group} >= {"serve", "eval", "train", "sweep", "bench"}


@pytest.mark.parametrize("words", DOCUMENTED)
def test_every_documented_command_parses(words: list[str], latin_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(latin_folder)  # recipes/tokens reads the file that docs/bring-your-own.md writes
    name, *arguments = words
    command = typer.main.get_command(build_app([name])).commands[name]  # type: ignore[attr-defined]
    with command.make_context(name, list(arguments)) as context:
        given = dict(context.params)
    recipe = given.get("recipe")
    if isinstance(recipe, str) and "/" in recipe:  # not a placeholder such as RECIPE or mine.yaml
        load_recipe(recipe, [one for one in given.get("overrides") or [] if "," not in one or "[" in one])


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_every_link_leads_to_a_file_and_a_heading(page: Path) -> None:
    for target in re.findall(r"\]\(([^)\s]+)\)", page.read_text()):
        if target.startswith(("http://", "https://", "#gram.")):
            continue
        name, _, anchor = target.partition("#")
        file = (page.parent / name).resolve() if name else page
        if file.relative_to(ROOT).as_posix() in GENERATED:
            continue
        assert file.is_file(), target
        if anchor and not anchor.startswith("gram."):  # those are the API reference's
            assert anchor in headings(file), target


def headings(page: Path) -> set[str]:
    """The anchors of a page, as GitHub and the site make them."""
    titles = re.findall(r"^#+ (.*)$", page.read_text(), flags=re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", title.lower()).strip().replace(" ", "-") for title in titles}
