"""The model card: README.md in a model's folder, with the results as metadata that the Hugging Face hub reads."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml  # type: ignore[import-untyped]

from gram.errors import GramError

CARD_FILE = "README.md"
NUMBERS = ("inception_score", "fid")
"""Metrics that are no fractions."""
TEXT = """---
{header}---

# {card.name}

A generative recursive reasoning model for the task {card.task}, trained with gram.
It has {card.parameters:,} parameters.

## Results

{card.measured_on}, {card.settings}:

{table}

## Usage

```python
import gram

solver = gram.load("{card.name}")  # or the path of this folder, or its id on the Hugging Face hub
```

{card.origin}
"""


@dataclass(frozen=True)
class Card:
    """The contents of a model card."""

    name: str
    task: str
    parameters: int
    split: str
    split_hash: str
    metrics: Mapping[str, float]
    measured_on: str
    settings: str
    """sampling options of the metrics"""
    mean_steps: float | None = None
    full_depth: Mapping[str, float] | None = None
    """the same metrics, and the mean steps, without halting"""
    origin: str = "The recipe that it was trained by is in `config.json`."

    @property
    def text(self) -> str:
        """The text of the file."""
        metrics = _rounded(self.metrics)
        dataset = {"type": self.task, "name": self.task, "split": self.split, "revision": self.split_hash}
        measured = [{"type": name, "value": value} for name, value in metrics.items()]
        reported = [{"task": {"type": "reasoning"}, "dataset": dataset, "metrics": measured}]
        fractions = {name: value for name, value in metrics.items() if name not in NUMBERS}
        about = {"task": self.task, "parameters": self.parameters, "settings": self.settings, "results": fractions}
        if self.full_depth is not None:
            about |= {"mean_steps": self.mean_steps, "full_depth": _rounded(self.full_depth)}
        header = {
            "library_name": "gram-reasoning",
            "tags": ["recursive-reasoning"],
            "model-index": [{"name": self.name, "results": reported}],
            "gram": about,
        }
        return TEXT.format(header=yaml.safe_dump(header, sort_keys=False), card=self, table=self._table)

    @property
    def _table(self) -> str:
        """The metrics and the mean steps as a Markdown table: of models that halt, at full depth as well."""
        steps = {} if self.mean_steps is None else {"mean_steps": self.mean_steps}
        columns: dict[str, Mapping[str, float]] = {"value": {**self.metrics, **steps}}
        if self.full_depth is not None:
            columns = {"with halting": columns["value"], "at full depth": self.full_depth}
        rows = [("metric", *columns), ("---",) * (1 + len(columns))]
        for name in (*self.metrics, *steps):
            rows.append((name.replace("_", " "), *(_shown(name, some[name]) for some in columns.values())))
        return "\n".join(f"| {' | '.join(row)} |" for row in rows)


def _rounded(metrics: Mapping[str, float]) -> dict[str, float]:
    return {name: round(float(value), 4) for name, value in metrics.items()}


def _shown(name: str, value: float) -> str:
    if name == "mean_steps":
        return f"{value:.1f}"
    return f"{value:.2f}" if name in NUMBERS else percent(value)


def percent(value: float) -> str:
    """Format a fraction: 0.987 is 98.7%; only 1 itself is 100.0%, so that 0.9998 is 99.98%."""
    short = f"{100 * value:.1f}%"
    return f"{100 * value:.2f}%" if value < 1 and short == "100.0%" else short


def inputs_text(result: Mapping[str, Any]) -> str:
    """Name the inputs that a result was measured on."""
    inputs, total = result["inputs"], result.get("inputs_in_split", result["inputs"])
    some = f"{inputs:,}" if inputs == total else f"{inputs:,} of {total:,}"
    return f"{some} inputs of the {result['split']} split `{result['split_hash']}`"


def write_card(folder: Path, result: Mapping[str, Any], metrics: tuple[str, ...], settings: str) -> None:
    """Write the card from an evaluation (`result`), of which it reports `metrics`, sampled with `settings`.

    A result with halting and at full depth has both in the card.
    """
    only_blank = result["inputs_in_split"] == 1
    on = f"Samples of the one blank input; split `{result['split_hash']}`" if only_blank else inputs_text(result)
    known = ("task", "parameters", "split", "split_hash", "mean_steps", "full_depth")
    about: dict[str, Any] = {key: result[key] for key in known if key in result}
    results = {name: result[name] for name in metrics}
    card = Card(folder.name, **about, metrics=results, measured_on=on, settings=settings)
    (folder / CARD_FILE).write_text(card.text)


def read_card(folder: Path) -> dict[str, Any]:
    """Return task, parameters, settings and results from the metadata of a folder's card."""
    path = folder / CARD_FILE
    try:
        _, header, _ = path.read_text().split("---\n", 2)
        about: dict[str, Any] = yaml.safe_load(header)["gram"]
        return {key: about[key] for key in ("task", "parameters", "settings", "results")}
    except (OSError, ValueError, KeyError, TypeError, yaml.YAMLError) as error:
        raise GramError(f"{path} is missing, or not a model card that gram wrote ({type(error).__name__}).") from error
