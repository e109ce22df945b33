"""Documents whose numbers come from result files: marked blocks, figures, and the line of results in recipe files.

A block stands between `<!-- results:NAME -->` (or `results:NAME/GROUP`) and `<!-- end -->`, and is replaced as a whole.
"""

import re
from collections.abc import Iterator
from pathlib import Path

from gram.config import RECIPES
from gram.errors import GramError
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
    """Yield the documents, figures and recipes that differ from what the results say."""
    for path in DOCUMENTS:
        if path.is_file() and fill_blocks(path.read_text()) != path.read_text():
            yield str(path)
    for name, path, digest in _figures():
        if digest_of_figure(path) != digest:
            yield f"{path} ({name})"
    for path, text in _recipes():
        if text != path.read_text():
            yield str(path)


def write_documents() -> list[str]:
    """Make everything anew that differs from what the results say, and return what was written.

    `GramError` outside a checkout: there the results are not at hand, and the recipes belong to an installed package.
    """
    if not RECIPES.resolve().is_relative_to(Path.cwd()):
        raise GramError("--write rewrites the documents and recipes of gram's repository: run it in a checkout of it.")
    written = []
    for path in DOCUMENTS:
        if path.is_file() and (text := fill_blocks(path.read_text())) != path.read_text():
            _write(path, text)
            written.append(str(path))
    for name, path, digest in _figures():
        if digest_of_figure(path) != digest:
            entry = ENTRIES[name]
            draw_entry(entry, entry.cpu, load_results(entry, entry.cpu), path)
            written.append(str(path))
    for path, text in list(_recipes()):
        if text != path.read_text():
            _write(path, text)
            written.append(str(path))
    return written


def _figures() -> Iterator[tuple[str, Path, str]]:
    """Yield entry, file and digest of every figure that there are results for."""
    for name, entry in ENTRIES.items():
        results = load_results(entry, entry.cpu)
        if entry.figure and results:
            yield name, FIGURES / f"{name}.png", figure_digest(entry, entry.cpu, results)


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


def _write(path: Path, text: str) -> None:
    write_whole(path, lambda target: target.write_text(text))
