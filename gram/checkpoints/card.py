"""The model card: README.md in a model's folder, with the results as metadata that the Hugging Face hub reads."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml  # type: ignore[import-untyped]

from gram.errors import GramError

CARD_FILE = "README.md"
TEXT = """---
{header}---

# {name}

A generative recursive reasoning model for the task {task}, trained with gram. It has {parameters:,} parameters.

## Results

{measured_on}, {settings}:

{table}

## Usage

```python
import gram

solver = gram.load("{name}")  # or the path of this folder, or its id on the Hugging Face hub
```

The recipe that it was trained by is in `config.json`.
"""


def write_card(folder: Path, result: Mapping[str, Any], metrics: tuple[str, ...], settings: str) -> None:
    """Write the card from an evaluation (`result`), of which it reports `metrics`, sampled with `settings`.

    A result with halting and at full depth has both in the card.
    """
    results = {name: round(float(result[name]), 4) for name in metrics}
    task, split = result["task"], result["split"]
    dataset = {"type": task, "name": task, "split": split, "revision": result["split_hash"]}
    inputs, total = result["inputs"], result["inputs_in_split"]
    on = f"{inputs:,} of {total:,} inputs of the {split} split `{result['split_hash']}`"
    measured = [{"type": name, "value": value} for name, value in results.items()]
    reported = [{"task": {"type": "reasoning"}, "dataset": dataset, "metrics": measured}]
    gram = {"task": task, "parameters": result["parameters"], "settings": settings, "results": results}
    columns = {"value": result}
    if "full_depth" in result:
        columns = {"with halting": result, "at full depth": result["full_depth"]}
        gram["mean_steps"] = round(float(result["mean_steps"]), 2)
        gram["full_depth"] = {name: round(float(value), 4) for name, value in result["full_depth"].items()}
    header = {
        "library_name": "gram-reasoning",
        "tags": ["recursive-reasoning"],
        "model-index": [{"name": folder.name, "results": reported}],
        "gram": gram,
    }
    text = TEXT.format(
        header=yaml.safe_dump(header, sort_keys=False),
        name=folder.name,
        table=_table(metrics, columns),
        task=task,
        parameters=result["parameters"],
        measured_on=on if total > 1 else f"Samples of the one blank input; split `{result['split_hash']}`",
        settings=settings,
    )
    (folder / CARD_FILE).write_text(text)


def _table(metrics: tuple[str, ...], columns: Mapping[str, Mapping[str, Any]]) -> str:
    """Return the metrics and the mean steps as a Markdown table."""
    rows = [("metric", *columns), ("---",) * (1 + len(columns))]
    rows += [(name.replace("_", " "), *(f"{100 * some[name]:.1f}%" for some in columns.values())) for name in metrics]
    rows.append(("mean steps", *(f"{some['mean_steps']:.1f}" for some in columns.values())))
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)


def read_card(folder: Path) -> dict[str, Any]:
    """Return task, parameters, settings and results from the metadata of a folder's card."""
    path = folder / CARD_FILE
    try:
        _, header, _ = path.read_text().split("---\n", 2)
        about: dict[str, Any] = yaml.safe_load(header)["gram"]
        return {key: about[key] for key in ("task", "parameters", "settings", "results")}
    except (OSError, ValueError, KeyError, TypeError, yaml.YAMLError) as error:
        raise GramError(f"{path} is missing, or not a model card that gram wrote ({type(error).__name__}).") from error
