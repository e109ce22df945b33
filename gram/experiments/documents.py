"""Documents whose numbers come from result files: marked blocks, figures, recipes' lines of results, model cards.

A block stands between `<!-- results:NAME -->` (or `results:NAME/GROUP`) and `<!-- end -->`, and is replaced as a whole.
"""

import re
from collections.abc import Callable, Iterator
from functools import partial
from operator import methodcaller
from pathlib import Path

from gram.config import RECIPES
from gram.errors import GramError
from gram.experiments.cards import shipped_cards
from gram.experiments.figures import draw_entry, figure_digest
from gram.experiments.registry import ENTRIES, find_entry
from gram.experiments.results import RESULTS, load_results
from gram.experiments.tables import entry_table, summary_table
from gram.files import read_json, write_whole
from gram.plots.paper import digest_of_figure

DOCUMENTS = (Path("README.md"), Path("docs/results.md"))
FIGURES = Path("docs/figures")
BLOCK = re.compile(r"(<!-- results:([a-z0-9-]+)(?:/([a-z0-9-]+))? -->\n).*?(<!-- end -->)", re.DOTALL)
SUMMARY = "summary"
"""The group of a block that has one short table of all groups."""
HARMLESS = "train.eval_every="
"""A change that makes no other model."""
RESULT_LINE = re.compile(r"^# Results: .*\n", re.MULTILINE)


def block_text(name: str, group: str = "") -> str:
    """Return what stands in the block of an entry, or of one of its groups: its table at our scale, or a summary."""
    entry = find_entry(name)
    if group == SUMMARY:
        return summary_table(entry, entry.cpu, load_results(entry, entry.cpu))
    runs = [run for run in entry.cpu if not group or run.group == group]
    if not runs:
        raise GramError(f"{name} has no group '{group}'.")
    return entry_table(entry, runs, load_results(entry, runs), group)


def fill_blocks(text: str) -> str:
    """Return a document with all its blocks made anew."""
    return BLOCK.sub(lambda match: f"{match[1]}\n{block_text(match[2], match[3] or '')}\n\n{match[4]}", text)


def outdated_documents() -> Iterator[str]:
    """Yield the documents, figures, recipes and model cards that differ from what the results say."""
    yield from (str(path) for path, _ in _outdated())


def write_documents() -> list[str]:
    """Make everything anew that differs from what the results say, and return what was written.

    `GramError` outside a checkout: there the results are not at hand, and the recipes belong to an installed package.
    """
    if not RECIPES.resolve().is_relative_to(Path.cwd()):
        raise GramError("--write rewrites the documents and recipes of gram's repository: run it in a checkout of it.")
    written = []
    for path, write in _outdated():
        write()
        written.append(str(path))
    return written


def _outdated() -> Iterator[tuple[Path, Callable[[], object]]]:
    """Yield every file that differs from what the results say, and what makes it anew."""
    texts = [(path, fill_blocks(path.read_text())) for path in DOCUMENTS if path.is_file()]
    for path, text in [*texts, *_recipes(), *shipped_cards()]:
        if text != path.read_text():
            yield path, partial(write_whole, path, methodcaller("write_text", text))
    for name, entry in ENTRIES.items():
        results, path = load_results(entry, entry.cpu), FIGURES / f"{name}.png"
        if entry.figure and results and digest_of_figure(path) != figure_digest(entry, entry.cpu, results):
            yield path, partial(draw_entry, entry, entry.cpu, results, path)


def _recipes() -> Iterator[tuple[Path, str]]:
    """Yield every recipe file with a line of results, and its text with that line made anew."""
    known = _files_by_recipe()
    for path in sorted(RECIPES.rglob("*.yaml")):
        text = path.read_text()
        if RESULT_LINE.search(text):
            name = path.relative_to(RECIPES).with_suffix("").as_posix()
            yield path, RESULT_LINE.sub(f"# Results: {_result_line(known.get(name, []))}\n", text, count=1)


def _result_line(files: list[str]) -> str:
    """Name the result files of a recipe, in one line: files of several seeds by a pattern."""
    if not files:
        return "none yet."
    patterns = dict.fromkeys(re.sub(r"-seed\d+\.json$", "-seed*.json", file) for file in files)
    shown = list(patterns)[:3]
    more = f" and {len(patterns) - len(shown)} more" if len(patterns) > len(shown) else ""
    line = f"{', '.join(shown)}{more}."
    return line if len(line) <= 105 else f"{shown[0]} and {len(patterns) - 1} more."


def _files_by_recipe() -> dict[str, list[str]]:
    """Return the result files of every recipe that is measured as it stands, without changes."""
    found: dict[str, list[str]] = {}
    for path in sorted(RESULTS.glob("*/*.json")):
        content = read_json(path)
        if not isinstance(content, dict) or "recipe" not in content:
            continue
        if all(change.startswith(HARMLESS) for change in content.get("overrides", [])):
            found.setdefault(str(content["recipe"]), []).append(path.as_posix())
    return found
