"""The output of the command line: tables, and boards side by side."""

from dataclasses import asdict
from typing import Any

from rich.columns import Columns
from rich.console import Console
from rich.table import Table
from rich.text import Text

from gram.checkpoints.card import percent
from gram.config import settings_text
from gram.evaluation.tune import HALTING_LOSS, Tuned
from gram.inference.anytime import Anytime
from gram.inference.select import RULES
from gram.result import Result
from gram.solver import Solver
from gram.tasks.base import Task, Tokens

GAP = 4
"""Columns between two boards."""


def with_interval(metrics: dict[str, Any], name: str) -> str:
    """A metric, and its 95% interval on a second line if it has one: 98.7%, 98.0 to 99.1."""
    bounds = metrics.get("intervals", {}).get(name)
    shown = percent(metrics[name])
    return shown if bounds is None else f"{shown}\n{100 * bounds[0]:.1f}-{100 * bounds[1]:.1f}"


def show_result(console: Console, result: dict[str, Any]) -> None:
    """Print an evaluation as its task is scored, with every setting."""
    part = f"{result['inputs']:,} of {result['inputs_in_split']:,} inputs of the "
    part = "" if result["inputs"] == result["inputs_in_split"] else part
    title = f"{result['task']}, {part}{result['split']} split {result['split_hash']}"
    tables = {"solutions": _solutions_table, "generation": _generation_table, "votes": _votes_table}
    console.print(tables[result.get("scoring", "solutions")](result, title))
    console.print(
        f"{settings_text(result)}, mean steps {result['mean_steps']:.1f}, {result['parameters']:,} parameters"
    )
    if "full_depth" in result:
        metrics = dict(result["full_depth"])
        steps = metrics.pop("mean_steps")
        console.print(f"without halting: {results_text(metrics)}, mean steps {steps:.1f}")
    if "selection" in result:
        chosen = ", ".join(f"{rule} {percent(value)}" for rule, value in result["selection"].items())
        everywhere = ", ".join(f"{rule} {percent(value)}" for rule, value in result["all_inputs"]["selection"].items())
        console.print(f"one answer out of {result['width']} is valid, by the rule that chooses it: {chosen}")
        console.print(f"... over all distinct inputs: {everywhere}")
    if "resampling" in result:
        sizes = result["resampling"]["effective_sample_size"]
        each = ", ".join(f"{size:.1f} after step {step}" for step, size in sizes.items())
        console.print(f"resampled by value: effective sample size {each} of {result['width']}")
    for head, metrics in result.get("calibration", {}).items():
        auc = "undefined (all outputs alike)" if metrics["auc"] is None else f"{metrics['auc']:.4f}"
        console.print(
            f'{head} head, "{metrics["of"]}": AUC {auc}, Brier score {metrics["brier"]:.4f}, '
            f"true in {percent(metrics['base_rate'])} of {metrics['samples']:,}"
        )
    if "train_minutes" in result:
        console.print(
            f"trained {result['train_steps']} steps in {result['train_minutes']:.1f} minutes, "
            f"seed {result['train_seed']}"
        )


def _solutions_table(result: dict[str, Any], title: str) -> Table:
    """Return a table of every weighting and every number of solutions, with the coverage of ideal models."""
    caption = (
        f"headline: {result['headline']}\n{result['conflicts']:,} broken rules in the first samples of all inputs\n"
        f"Uniform, one answer: coverage of models that are always right, by {result['width']} uniform draws "
        "from all solutions, or by a single answer to each input.\n"
        "Below the metrics: 95% intervals, by bootstrap over the inputs."
    )
    columns = ("", "count", "accuracy", "all samples", "coverage", "uniform", "one answer")
    table = Table(*columns, title=title, caption=caption)
    table.columns[0].no_wrap = True
    _add_row(table, "headline", result["headline_rows"], result)
    for name, unit in (("all_inputs", "inputs"), ("pooled_rows", "rows"), ("pooled_inputs", "inputs")):
        _add_row(table, name.replace("_", " "), result[name][unit], result[name])
    table.add_section()
    for line in result["by_solutions"]:
        alike = {name: value for name, value in line.items() if name != "intervals"}  # the JSON has them
        _add_row(table, f"{line['solutions']} solution{'s' * (line['solutions'] != 1)}", line["inputs"], alike)
    return table


def _generation_table(result: dict[str, Any], title: str) -> Table:
    judged = "validity" in result
    headers = {
        "validity": "valid",
        "uniqueness": "distinct among valid" if judged else "distinct",
        "novelty": "new among distinct",
    }
    keys = [key for key in headers if key in result]
    caption = None if judged else "This task has no checker."
    table = Table("samples", *(headers[key] for key in keys), title=title, caption=caption)
    table.add_row(f"{result['samples']:,}", *(with_interval(result, key) for key in keys))
    return table


def show_samples(console: Console, task: Task, samples: Tokens, scores: dict[str, Any]) -> None:
    """Print samples [count, length] side by side, and the scores of all of them."""
    boards = [(f"sample {number + 1}", task.render(tokens)) for number, tokens in enumerate(samples)]
    show_boards(console, boards)
    console.print(_generation_table(scores, f"{task.name}, from a blank input"))
    if "novelty" not in scores:
        console.print("How many are new is not known: the training data is not on this machine.")


def _votes_table(result: dict[str, Any], title: str) -> Table:
    passes = [key for key in result if key.startswith("pass@")]
    table = Table("", "count", *passes, title=title)
    for kind in ("grids", "tasks"):
        shown = {**result["by"][kind], "intervals": result.get("intervals", {}) if kind == "tasks" else {}}
        table.add_row(f"mean over {kind}", f"{result[kind]:,}", *(with_interval(shown, key) for key in passes))
    return table


def _add_row(table: Table, name: str, count: int, metrics: dict[str, Any]) -> None:
    shown = ("accuracy", "accuracy_all_samples", "coverage", "uniform_coverage", "deterministic_coverage")
    table.add_row(name, f"{count:,}", *(with_interval(metrics, key) for key in shown))


def show_sweep(console: Console, entries: list[dict[str, Any]]) -> None:
    """Print mean and standard deviation over the seeds, a row for every combination of the other values."""
    if not entries:
        return
    names = [name for name, value in entries[0].items() if isinstance(value, dict) and "mean" in value]
    headers = {"accuracy_all_samples": "all samples", "train_minutes": "minutes"}
    table = Table("values", "runs", *(headers.get(name, name) for name in names))
    table.columns[0].overflow = "fold"
    for entry in entries:
        # The last part of a key says enough, and leaves room for the numbers.
        values = "\n".join(f"{key.rpartition('.')[2]}={value}" for key, value in entry["values"].items())
        shown = []
        for name in names:
            scale, unit = (1, "") if name == "train_minutes" else (100, "%")
            mean, deviation = scale * entry[name]["mean"], entry[name]["deviation"]
            shown.append(f"{mean:.1f}" + ("" if deviation is None else f"±{scale * deviation:.1f}") + unit)
        table.add_row(values or "the recipe", str(entry["runs"]), *shown)
    console.print(table)


def results_text(results: dict[str, float]) -> str:
    """Describe the metrics of a model card in a line: accuracy all samples 99.3%, coverage 92.9%."""
    return ", ".join(f"{name.replace('_', ' ')} {percent(value)}" for name, value in results.items())


def show_tuning(console: Console, tuned: Tuned) -> None:
    """Print every setting that was tried, and mark the chosen ones."""
    title = "validation split, headline weighting"
    uniform, one = (percent(tuned.chosen[name]) for name in ("uniform_coverage", "deterministic_coverage"))
    caption = f"A uniform sampler would cover {uniform}, a perfect deterministic model {one}."
    table = Table("depth", "temperature", "accuracy", "coverage", title=title, caption=caption)
    for item in tuned.tried:
        temperature = " to ".join(str(t) for t in (item["temperature"], item["temperature_final"]) if t is not None)
        table.add_row(str(item["depth"]), temperature, *_tuned_metrics(item, item is tuned.chosen))
    console.print(table)
    if not tuned.halting:
        return
    safe = f"accuracy within {100 * HALTING_LOSS:g} points of no halting, at the fewest steps"
    caption = f"Halting is on: {safe}." if tuned.halt is not None else f"Halting is off: none has {safe}."
    halting = Table("by", "halt at", "mean steps", "accuracy", "coverage", title="with halting", caption=caption)
    for item in [*tuned.halting, {**tuned.chosen, "halt_by": "", "halt_at": "no halting"}]:
        cells = _tuned_metrics(item, item is tuned.halt)
        halting.add_row(item["halt_by"], str(item["halt_at"]), f"{item['mean_steps']:.2f}", *cells)
    console.print(halting)


def _tuned_metrics(item: dict[str, Any], chosen: bool) -> tuple[str, str]:
    return percent(item["accuracy_all_samples"]), percent(item["coverage"]) + (" <- chosen" if chosen else "")


def show_study(console: Console, name: str, result: dict[str, Any]) -> None:
    """Print accuracy by every rule, and coverage, at each depth x width."""
    title = f"{name}: {result['inputs']} inputs of {result['task']}, {result['split']} split {result['split_hash']}"
    table = Table("depth", "width", *RULES, "coverage", title=title)
    for record in result["records"]:
        values = (percent(record[key]) for key in (*RULES, "coverage"))
        table.add_row(str(record["depth"]), str(record["width"]), *values)
    console.print(table)


def show_answers(console: Console, result: Result, most: int) -> None:
    """Print the puzzle beside its distinct verified solutions, or the best guess, plainly called one."""
    boards = [("puzzle", result.task.render(result.given, result.given))]
    for i, (board, count) in enumerate(zip(result.distinct[:most], result.counts, strict=False)):
        boards.append((f"solution {i + 1} (x{count})", result.task.render(board, result.given)))
    if not result.verified:
        title = "NOT a solution" if result.task.has_rules else "answer, not checked"
        boards.append((title, result.task.render(result.best, result.given)))
    show_boards(console, boards)
    known = result.task.solutions(result.given)
    of_all = "" if known is None else f" of {len(known)}"
    found = (
        f"{len(result.distinct)}{of_all} distinct solutions found and verified; "
        f"{int(result.valid.sum())} of {len(result.valid)} trajectories valid"
        if result.task.has_rules
        else f"{len(result.valid)} trajectories, none verified: this task has no checker here"
    )
    console.print(f"{found} ({settings_text(result.settings)})")
    console.print(f"{'Verified' if result.verified else 'Unverified'} answer chosen by {result.chosen_by}.")
    if result.stopped:
        guess = "" if result.estimate is None else f"; {result.estimate}"
        console.print(f"Stopped: {result.stopped}{guess}.")


def watch_search(console: Console, solver: Solver, search: Anytime, rule: Any) -> Result:
    """Print a line and the highest-rated board after every supervision step of a search."""
    for number, made in enumerate(search):
        best = int(made.values.argmax())
        board = solver.task.render(solver.task.canonical(made.outputs[[best]])[0], search.given)
        halted = int(made.halted.sum())
        console.print(
            f"step {number + 1}: {len(made.step)} active trajectories, {halted} halted, "
            f"best value {made.values[best]:.2f}\n{board}\n",
            markup=False,
            highlight=False,
        )
    return solver.result(search, rule)


def show_boards(console: Console, boards: list[tuple[str, str]]) -> None:
    """Print titled text boards side by side, in as many rows as the width of the terminal needs."""
    console.print(Columns([Text(f"{title}\n{text}\n") for title, text in boards], padding=(0, GAP)))


def answers_as_json(result: Result) -> dict[str, Any]:
    """Return the answers of one puzzle, for machines."""
    return {
        "task": result.task.name,
        "input": result.given.tolist(),
        "best": result.best.tolist(),
        "has_checker": result.task.has_rules,
        "verified": result.verified,
        "chosen_by": result.chosen_by,
        "solutions": result.distinct.tolist(),
        "counts": result.counts.tolist(),
        "valid_trajectories": int(result.valid.sum()),
        **result.settings,
        "estimate": None if result.estimate is None else asdict(result.estimate),
        "stopped": result.stopped,
    }
