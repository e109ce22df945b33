"""The model cards of the shipped models, from their result files."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from gram.checkpoints.card import CARD_FILE, Card, inputs_text
from gram.checkpoints.find import find_model
from gram.config import settings_text
from gram.evaluation.evaluate import HEADLINES
from gram.experiments.registry import find_entry
from gram.experiments.results import RESULTS, Result, load_results, state_of
from gram.files import read_json

ENTRY = find_entry("shipped")
OUTDATED = "\n\nThe results were measured with earlier weights or sampling settings than those of this folder."
SUDOKU_EXTREME = """\
It was trained with the recipe `sudoku-extreme/deep`, from the weights of a model with fewer updates,
on the 1,000 training puzzles of Sudoku-Extreme and 12,000 puzzles that were grown from them. The
validation puzzles come from other lists, with the ratings of the training puzzles: the model has
not been measured on the benchmark's test file."""


def shipped_cards() -> Iterator[tuple[Path, str]]:
    """Yield the file of every shipped model's card, and its text by the result files that are there."""
    for result in load_results(ENTRY, ENTRY.cpu):
        yield find_model(result.run.shipped) / CARD_FILE, _card_of(result).text
    path = RESULTS / "sudoku-extreme" / "deep.json"
    if path.is_file() and not (RESULTS / ENTRY.folder / "sudoku-extreme.json").is_file():
        yield find_model("sudoku-extreme") / CARD_FILE, _validation_card(read_json(path)).text


def _card_of(result: Result) -> Card:
    """Return the card of a model from its row of the entry, by the kind of its measurement."""
    content, found = result.content, result.metrics
    outdated = state_of(ENTRY, result.run, result.seed) == "outdated"
    card = {
        "name": result.run.shipped,
        "task": content["task"],
        "parameters": content["parameters"],
        "split": "test",
        "split_hash": content["split_hash"],
        "origin": Card.origin + OUTDATED * outdated,
    }
    split = f"split `{content['split_hash']}`"
    if result.run.measure == "images":
        (record,) = found["records"]
        card["metrics"] = {name: record[name] for name in ("inception_score", "fid")}
        card["metrics"]["readable"] = record["agreement"]
        card["split"] = "train"
        on = f"{record['generated']:,} images against the {record['real']:,} grey ones of the training {split}"
        return Card(**card, measured_on=on, settings=_settings(record | {"depth": record["steps"]}))
    if result.run.measure == "generation":
        on = f"{found['samples']:,} samples of the one blank input, {split}"
    else:
        on = inputs_text(found)
    metrics = {name: found[name] for name in HEADLINES[found.get("scoring", "generation")]}
    if "full_depth" in found:
        card |= {name: found[name] for name in ("mean_steps", "full_depth")}
    return Card(**card, measured_on=on, settings=_settings(found), metrics=metrics)


def _settings(found: dict[str, Any]) -> str:
    names = ("depth", "width", "temperature", "temperature_final", "seed")
    text = settings_text({name: found[name] for name in names if name in found})
    return f"{text}, halting after {found['mean_steps']:.1f} steps on average" if found.get("halt") else text


def _validation_card(content: dict[str, Any]) -> Card:
    """Return the card of sudoku-extreme, whose test file has not been here: its results are of validation puzzles."""
    found, study = (content["evaluations"][name] for name in ("16x1", "16x20"))
    return Card(
        "sudoku-extreme",
        task=study["task"],
        parameters=content["parameters"],
        split=found["split"],
        split_hash=found["split_hash"],
        metrics={"accuracy_all_samples": found["accuracy_all_samples"]},
        measured_on=inputs_text(found),
        settings=_settings(found | {"seed": study["seed"]}),
        origin=SUDOKU_EXTREME,
    )
