"""The command `compare`: two models on the same inputs."""

from typing import Annotated, Any

import typer
from rich.table import Table

from gram.checkpoints.card import percent
from gram.cli.common import console, say, write_json
from gram.cli.options import AllowOtherData, JsonFile, Limit, Loading, Model, Seed, Split
from gram.cli.targets import check_targets
from gram.config import settings_text
from gram.evaluation.compare import compare_outcomes, outcomes
from gram.progress import bar


def compare(
    a: Model,
    b: Model,
    *,
    loading: Loading,
    split: Split = "test",
    limit: Limit = None,
    width: Annotated[
        int | None, typer.Option(min=1, help="Trajectories per puzzle; each model's own by default.")
    ] = None,
    seed: Seed = 0,
    json_file: JsonFile = None,
    allow_other_data: AllowOtherData = False,
) -> None:
    """Compare two models on the same inputs: differences with 95% intervals, by a paired bootstrap over the inputs.

    Each model is sampled with its own depth and temperature. A difference is clear if its interval excludes 0.
    """
    check_targets([a, b], json=json_file)
    solvers = loading.load_same_task([a, b], allow_other_data=allow_other_data)
    more: dict[str, Any] = {} if width is None else {"width": width}
    options = {name: solver.with_options(seed=seed, **more) for name, solver in solvers.items()}
    task = solvers[a].task
    asked = task.split(split).distinct(limit)
    judged = {}
    for name, solver in solvers.items():
        with bar(console, f"sampling {name}", len(asked.rows) * options[name].width) as advance:
            judged[name] = outcomes(solver, asked, options[name], advance)
    found = compare_outcomes(judged[a], judged[b], asked.rows, (options[a].width, options[b].width))
    settings = {name: solver.supported(options[name]) for name, solver in solvers.items()}
    show_comparison(a, b, found, f"{task.name}, {len(asked.rows):,} inputs of the {split} split {task.split_hash()}")
    for label, name in (("A", a), ("B", b)):
        say(f"{label}: {name}, {settings_text(settings[name])}, {solvers[name].model.parameter_count:,} parameters")
    about = {"a": a, "b": b, "task": task.name, "split": split, "split_hash": task.split_hash(), "settings": settings}
    write_json(json_file, {**about, **found})


def show_comparison(a: str, b: str, found: dict[str, Any], title: str) -> None:
    """Print the differences in both weightings, and what ideal models would cover."""
    caption = f"headline: {found['headline_text']}. Intervals: 95%, paired bootstrap over the inputs."
    ideal = found["ideal"]["headline"]
    uniform = " or ".join(dict.fromkeys(percent(each["uniform_coverage"]) for each in ideal.values()))
    one = percent(ideal["a"]["deterministic_coverage"])
    caption += f"\nHeadline coverage: a uniform sampler would reach {uniform}, a perfect deterministic model {one}."
    table = Table("", "A", "B", "B - A", "95% interval", "", title=title, caption=caption)
    for weighting in ("headline", "all_inputs"):
        for name, each in found[weighting].items():
            low, high = (f"{100 * bound:+.1f}" for bound in each["interval"])
            verdict = "not clear" if not each["clear"] else "B is higher" if each["difference"] > 0 else "A is higher"
            label = f"{weighting.replace('_', ' ')}: {name.replace('_', ' ').replace('.', ' by ')}"
            shown = (percent(each["a"]), percent(each["b"]), f"{100 * each['difference']:+.1f}", f"{low} to {high}")
            table.add_row(label, *shown, verdict)
        table.add_section()
    console.print(table)
