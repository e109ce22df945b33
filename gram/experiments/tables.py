"""Tables in Markdown, made of result files: one for every group of an entry."""

import statistics
import textwrap
from collections.abc import Sequence
from typing import Any

from gram.config import settings_text
from gram.experiments.entry import Column, Entry, Run
from gram.experiments.results import Result

NOT_YET = "not run yet"
MARK = "†"
"""Marks the rows that have a note, such as results that were taken over from an earlier report."""

IDEAL = {"uniform sampler": "uniform_coverage", "perfect deterministic": "deterministic_coverage"}
"""Columns of the summary: the coverage of two models that are always right, on the same inputs."""


def entry_table(entry: Entry, runs: Sequence[Run], results: Sequence[Result], group: str = "") -> str:
    """Return the tables of all groups of an entry, or of one, with a sentence on the data above each."""
    if not entry.columns:
        return objective_table(results) if entry.name == "objective" else ""
    groups = [group] if group else list(dict.fromkeys(run.group for run in runs))
    marks = _marks(results)
    parts = []
    for name in groups:
        here = [run for run in runs if run.group == name]
        found = [result for result in results if result.run.group == name]
        parts.append(_group_table(entry, name, here, found, marks))
    return "\n\n".join([*parts, *_notes(marks)])


def _group_table(
    entry: Entry, group: str, runs: Sequence[Run], results: Sequence[Result], marks: dict[str, str]
) -> str:
    columns = entry.columns_of(group)
    published = entry.published.get(group, {})
    shown = [column for column in columns if any(column.key in values for values in published.values())]
    headers = ["model", "parameters", "training", "sampling", *(column.header for column in columns)]
    headers += [f"the paper: {column.header}" for column in shown]
    lines = [_line(headers), _rule(len(headers))]
    for run in sorted(runs, key=lambda run: run.apart):
        mine = [result for result in results if result.run == run]
        for label, some in _rows(run, mine):
            paper = [_paper_value(published.get(label, {}), column) for column in shown]
            if not some:
                empty = ["-"] * (len(columns) + 1)
                lines.append(_line([f"{label} (`{run.recipe}`)", "-", NOT_YET, *empty, *paper]))
                continue
            values = [_cell(some, column) for column in columns]
            lines.append(_line([_label(run, label, some, marks), *_about(some), *values, *paper]))
    return f"{_data_text(group, results)}\n\n" + "\n".join(lines)


def summary_table(entry: Entry, runs: Sequence[Run], results: Sequence[Result]) -> str:
    """Return one short table of the rows that have results: two metrics, ideal coverage, the paper's values."""
    headers = ["task", "model", "parameters", "training", "accuracy", "coverage", *IDEAL, "the paper"]
    lines = [_line(headers), _rule(len(headers))]
    shown = (Column("accuracy", "accuracy"), Column("coverage", "coverage"))
    marks = _marks(results)
    for run in sorted(runs, key=lambda run: run.apart):
        some = [result for result in results if result.run == run]
        if some:
            values = entry.published.get(run.group, {}).get(run.row, {})
            paper = " / ".join(f"{value:g}{'' if key != 'conflicts' else ' edges'}" for key, value in values.items())
            parameters, training, _ = _about(some)
            cells = (_cell(some, column) for column in shown)
            label = _label(run, run.row, some, marks)
            ideal = (_cell(some[:1], Column(header, key)) for header, key in IDEAL.items())  # the same for every seed
            lines.append(_line([run.group, label, parameters, training, *cells, *ideal, paper or "-"]))
    return "\n\n".join(["\n".join(lines), *_notes(marks)])


def _marks(results: Sequence[Result]) -> dict[str, str]:
    """Return a mark of its own for every note of the results: †, then ††, and so on."""
    notes = sorted({str(result.content["note"]) for result in results if result.content.get("note")})
    return {note: MARK * number for number, note in enumerate(notes, 1)}


def _notes(marks: dict[str, str]) -> list[str]:
    return [f"{mark} {note}" for note, mark in marks.items()]


def _rows(run: Run, results: list[Result]) -> list[tuple[str, list[Result]]]:
    """Return a row for a run, or one for each of the depths that its results have records of."""
    records = [result.metrics.get("records", []) for result in results]
    if not records or len(records[0]) == 0:
        return [(run.row, results)]
    rows = []
    for place, record in enumerate(records[0]):
        label = run.row if len(records[0]) == 1 else f"{run.row}, {record['steps']} steps"
        some = [
            Result(run, result.seed, {**result.content, "metrics": result.metrics["records"][place]})
            for result in results
        ]
        rows.append((label, some))
    return rows


def _data_text(group: str, results: Sequence[Result]) -> str:
    """Say which inputs the numbers of a table are about."""
    text = f"**{group}**"
    if not results:
        return f"{text}: nothing has been run yet."
    splits = sorted({str(result.content["split_hash"]) for result in results})
    text += f", split {', '.join(f'`{split}`' for split in splits)}"
    metrics = results[0].metrics
    if "headline_rows" in metrics and len(splits) == 1:  # rows of several tasks have no such figure in common
        uniform, one = (100 * metrics[key] for key in ("uniform_coverage", "deterministic_coverage"))
        text += (
            f": {metrics['inputs_in_split']:,} test inputs. With {metrics['width']} samples a uniform sampler "
            f"would cover {uniform:.1f}%, a perfect deterministic model {one:.1f}%"
        )
    elif "samples" in metrics:
        counts = sorted({result.metrics["samples"] for result in results})
        text += f": {' or '.join(f'{count:,}' for count in counts)} samples"
    text += ". Values have 95% intervals over the inputs, or are means ± standard deviations over seeds."
    return textwrap.fill(text, 100)


def _label(run: Run, label: str, results: Sequence[Result], marks: dict[str, str]) -> str:
    seeds = f", {len(results)} seeds" if len(results) > 1 else "" if run.shipped else f", seed {results[0].seed}"
    noted = sorted({marks[note] for result in results if (note := result.content.get("note"))})
    mark = f" {', '.join(noted)}" if noted else ""
    changes = dict.fromkeys(change for result in results for change in result.content.get("extra", []))
    changed = f", with `{' '.join(changes)}`" if changes else ""
    return f"{label} (`{run.recipe}`{seeds}{changed}){mark}"


def _about(results: Sequence[Result]) -> list[str]:
    """Return parameters, training and sampling as text."""
    content = results[0].content
    training = [result.content.get("training") or {} for result in results]
    minutes = [float(item["cpu_minutes"]) for item in training if item.get("cpu_minutes") is not None]
    steps = training[0].get("steps")
    text = f"{steps:,} steps" if steps else "-"
    if minutes:
        text += f", {statistics.fmean(minutes):.0f} CPU minutes"
    elif texts := dict.fromkeys(item["text"] for item in training if item.get("text")):
        text += f", {'; '.join(texts)}"
    sampling = dict.fromkeys(_sampling(result.metrics) for result in results)
    return [f"{content['parameters']:,}", text, "; ".join(sampling)]


def _sampling(metrics: dict[str, Any]) -> str:
    names = ("depth", "steps", "width", "temperature", "temperature_final")
    shown = {key: metrics[key] for key in names if metrics.get(key) is not None}
    text = settings_text(shown).replace(" x width ", " x ").replace("depth ", "") or "-"
    if metrics.get("halt"):
        text += f", halted at {metrics['halt_at']}: {metrics['mean_steps']:.1f} steps"
    part = metrics.get("inputs", 0) < metrics.get("inputs_in_split", 0)
    return f"{text}; {metrics['inputs']:,} inputs" if part else text


def _cell(results: Sequence[Result], column: Column) -> str:
    """Return mean ± deviation over several seeds, or a value with its interval."""
    values = [value for result in results if (value := result.value(column.key)) is not None]
    if not values:
        return "-"
    factor = 100.0 if column.unit == "percent" else 1.0
    if len(values) > 1:
        mean, deviation = factor * statistics.fmean(values), factor * statistics.stdev(values)
        return f"{mean:.{column.digits}f} ± {deviation:.{column.digits}f}"
    bounds = results[0].interval(column.key)
    text = f"{factor * values[0]:.{column.digits}f}"
    if bounds is None:
        return text
    low, high = (f"{factor * bound:.{column.digits}f}" for bound in bounds)
    return f"{text} [{low}, {high}]"


def _paper_value(values: Any, column: Column) -> str:
    return "-" if column.key not in values else str(float(values[column.key]))


def _rule(columns: int) -> str:
    return "|" + "---|" * columns


def _line(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"


def objective_table(results: Sequence[Result]) -> str:
    """Return the grid of the objective: accuracy over all samples / coverage at each temperature, at the full depth."""
    if not results:
        return ""
    records = results[0].metrics["records"]
    depth = max(record["depth"] for record in records)
    every = [{record["temperature"] for record in result.metrics["records"]} for result in results]
    temperatures = sorted(set.intersection(*every))
    headers = ["KL scope, beta", "learning from rollouts", *(f"temperature {t:g}" for t in temperatures)]
    headers.append("posterior / rollout accuracy in training")
    inputs, width = results[0].metrics["inputs"], results[0].metrics["width"]
    lines = [
        f"{len(results)} cells, {depth} x {width} on {inputs} validation inputs: accuracy over all samples / coverage.",
        "",
        _line(headers),
        _rule(len(headers)),
    ]
    for result in results:
        scope, beta, learning = result.run.row.split(", ")
        at = {record["temperature"]: record for record in result.metrics["records"] if record["depth"] == depth}
        pairs = [f"{100 * at[t]['accuracy_all_samples']:.1f} / {100 * at[t]['coverage']:.1f}" for t in temperatures]
        training = result.metrics["training"]
        learned = f"{training['posterior_accuracy']:.2f} / {training['rollout_accuracy']:.2f}"
        lines.append(_line([f"{scope}, {beta}", "yes" if learning == "rollouts" else "no", *pairs, learned]))
    return "\n".join(lines)
