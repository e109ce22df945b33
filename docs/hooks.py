"""What mkdocs calls while it builds the site: pages made from what the package ships, and formulas as MathML."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import typer
from latex2mathml.converter import convert
from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

from gram.checkpoints.card import CARD_FILE
from gram.checkpoints.find import shipped_models
from gram.cli.app import COMMANDS, build_app
from gram.config import RECIPES

ROOT = Path(__file__).parents[1]

ROOT_PAGES = {
    "README.md": "index.md",
    "CONTRIBUTING.md": "contributing.md",
    "CHANGELOG.md": "changelog.md",
    "SECURITY.md": "security.md",
}
"""Files of the repository's root, and the pages that they become."""
EQUATIONS = "equations.md"
FIGURE = re.compile(r'(<img [^>]*src="(?!data:)([^"]+)"[^>]*>)')
FOLDED = '<details class="mkdocstrings-source"'


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """Let a fence of `math`, which GitHub draws as well, become MathML: no script, no other host."""
    fences = config.mdx_configs.setdefault("pymdownx.superfences", {}).setdefault("custom_fences", [])
    fences.append({"name": "math", "class": "math", "format": formula})
    return config


def formula(source: str, *_: Any, **__: Any) -> str:
    """Render LaTeX as a block of MathML."""
    return f'<p class="math">{convert(source, display="block")}</p>'


def on_page_content(html: str, page: Page, **_: Any) -> str:
    """Let a figure open at its full size; show the source beside the equations, which other pages fold."""
    html = FIGURE.sub(r'<a href="\2">\1</a>', html)
    return html.replace(FOLDED, f"{FOLDED} open") if page.file.src_uri == EQUATIONS else html


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the generated pages."""
    pages = {
        **{page: root_page(name) for name, page in ROOT_PAGES.items()},
        "recipes.md": "\n".join(recipes_page()),
        "models.md": "\n".join(models_page()),
        "commands.md": "\n".join(commands_page()),
    }
    for path, content in pages.items():
        files.append(File.generated(config, path, content=content))
    return files


def root_page(name: str) -> str:
    """Return a file of the repository's root with its links as they are on the site."""
    text = (ROOT / name).read_text()
    for start, moved in {"docs/": "", **ROOT_PAGES}.items():
        text = text.replace(f"]({start}", f"]({moved}")
    return text


def recipes_page() -> Iterator[str]:
    """List every recipe that ships: the first sentence of its opening comment, and the file."""
    yield "# Recipes\n"
    yield "`gram train FOLDER/NAME` trains one of these recipes. Any setting can be changed on the command line, for"
    yield "example `gram train nqueens-8/gram model.dim=96`. A recipe of your own starts with `base: FOLDER/NAME` and"
    yield "has only what differs. [Settings](api/config.md) documents every key.\n"
    for folder in sorted({path.parent for path in RECIPES.rglob("*.yaml")}):
        yield f"## {folder.name}\n"
        for path in sorted(folder.glob("*.yaml")):
            text = path.read_text()
            yield f'??? note "`{folder.name}/{path.stem}`: {first_sentence(text)}"\n'.replace("\\", "")
            yield "    ```yaml"
            yield from (f"    {line}" for line in text.splitlines())
            yield "    ```\n"


def first_sentence(recipe: str) -> str:
    """Return the first sentence of a recipe's opening comment, which may go over several lines."""
    comment = " ".join(line.lstrip("# ") for line in recipe.split("\n#   ")[0].splitlines())
    return re.split(r"(?<=[.?]) ", comment, maxsplit=1)[0].replace('"', "'")


def models_page() -> Iterator[str]:
    """Join the cards of the shipped models; a card's headings move down one level."""
    yield "# Models\n"
    yield "These models ship with the package. `gram models` lists them, and `gram.load(NAME)` loads one. The results"
    yield "are those of each model's card; [Results](results.md) has every setting and the comparison with the paper.\n"
    for folder in shipped_models().values():
        card = re.sub(r"\A---\n.*?\n---\n", "", (folder / CARD_FILE).read_text(), flags=re.DOTALL)
        yield re.sub(r"^#", "##", card.strip(), flags=re.MULTILINE) + "\n"


def commands_page() -> Iterator[str]:
    """Document every command and option as the command line itself does."""
    yield "# Command line\n"
    app: Any = typer.main.get_command(build_app([name for group in COMMANDS.values() for name in group]))
    for group, commands in COMMANDS.items():
        yield f"{group}: {', '.join(f'[`gram {name}`](#gram-{name})' for name in commands)}.\n"
    for name, command in app.commands.items():
        yield f"## gram {name}\n\n{plain(command.help)}\n\n| option | meaning |\n|---|---|"
        for parameter in command.params:
            flags = [*parameter.opts, *parameter.secondary_opts]
            named = [parameter.name.upper()] if parameter.param_type_name == "argument" else flags
            label = ", ".join(f"`{name}`" for name in named)
            shown = parameter.default not in (None, False, (), "") and not callable(parameter.default)
            default = f" Default: `{parameter.default}`." if shown and not parameter.required else ""
            yield f"| {label} | {plain(parameter.help)}{default} |"
        yield ""


def plain(text: str | None) -> str:
    """Return a help text on one line, safe in a table, with options as code."""
    line = re.sub(r"[ \n]*\n[ \n]*", " ", (text or "").strip()).replace("|", "\\|")
    return re.sub(r"`[^`]*`|(--[a-z][a-z-]*)", lambda found: f"`{found[1]}`" if found[1] else found[0], line)
