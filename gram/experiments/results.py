"""Result files: results/NAME/RUN.json, one for every run and seed, with everything that it takes to judge a number."""

import json
import re
import subprocess
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from gram import __version__
from gram.checkpoints.find import find_model
from gram.checkpoints.folder import WEIGHTS_FILE
from gram.checkpoints.weights import read_header
from gram.config import Recipe, load_recipe
from gram.errors import GramError
from gram.experiments.entry import Entry, Run, Scale
from gram.experiments.queue import is_on_cluster
from gram.files import CONFIG_FILE, locked, look_up, read_json, write_whole

RESULTS, RUNS = Path("results"), Path("runs") / "reproduce"
"""Below the current folder, which is a checkout of the repository."""
SHIPPED = "shipped"
"""The folder of the results of shipped models, whatever entry shows them."""
NUMBERS = re.compile(r"\[\s+((?:-?[\d.e+-]+|null|true|false)(?:,\s+(?:-?[\d.e+-]+|null|true|false))*)\s+\]")
State = Literal["done", "missing", "running", "reported", "outdated"]


@dataclass(frozen=True)
class Result:
    """One run and seed, measured."""

    run: Run
    seed: int
    content: dict[str, Any]

    @property
    def metrics(self) -> dict[str, Any]:
        """Everything that was measured."""
        return dict(self.content["metrics"])

    def value(self, key: str) -> float | None:
        """Return a metric by its key, such as selection.value; None where it was not measured."""
        found = look_up(self.metrics, key)
        return None if found is None else float(found)

    def interval(self, key: str) -> tuple[float, float] | None:
        """Return its 95% interval, if there is one: that of all_inputs.x stands in all_inputs.intervals."""
        first, _, rest = key.partition(".")
        found = look_up(self.metrics, f"intervals.{key}") or look_up(self.metrics, f"{first}.intervals.{rest}")
        return None if found is None else (float(found[0]), float(found[1]))


def result_path(entry: Entry, run: Run, seed: int) -> Path:
    """Return the file of a result; entries that show the same shipped model share it."""
    return RESULTS / (SHIPPED if run.shipped else entry.folder) / run.result_name(seed)


def training_folder(run: Run, seed: int) -> Path:
    """Return the folder that a run is trained in; entries share it."""
    return RUNS / f"{run.training}-seed{seed}"


def log_file(run: Run, seed: int) -> Path:
    """Return the file for what a run prints."""
    folder = training_folder(run, seed)
    return folder.with_name(f"{folder.name}.log")


def training_recipe(run: Run, seed: int, *, threads: int, extra: Sequence[str] = ()) -> Recipe:
    """Return the whole recipe of a training; `extra` are changes that the user adds.

    The evaluation that ends a training is cut to a few inputs, because every entry measures by itself afterwards.
    """
    ours = [f"train.seed={seed}", f"train.threads={threads}", "train.test_inputs=20"]
    return load_recipe(run.recipe, [*run.overrides, *extra, *ours])


def load_results(entry: Entry, runs: Iterable[Run]) -> list[Result]:
    """Return the results of these runs that are there, in their order."""
    found = []
    for run in runs:
        mine = [Result(run, seed, read_json(result_path(entry, run, seed))) for seed in _seeds_found(entry, run)]
        made = [result for result in mine if not result.content.get("note")]
        found += made or mine  # a report is not averaged with results
    return found


def _seeds_found(entry: Entry, run: Run) -> list[int]:
    """Return the seeds of a run that have a file."""
    if run.shipped:
        return [0] if result_path(entry, run, 0).is_file() else []
    pattern = re.compile(rf"{re.escape(run.name)}-seed(\d+)\.json")
    names = (path.name for path in (RESULTS / entry.folder).glob("*.json"))
    return sorted(int(match[1]) for match in map(pattern.fullmatch, names) if match is not None)


def state_of(entry: Entry, run: Run, seed: int) -> State:
    """Say how far a run is: an earlier report and a result of another recipe do not count as done."""
    path = result_path(entry, run, seed)
    if path.is_file():
        content = read_json(path)
        if content.get("note"):
            found: State = "reported"
        elif (_is_of_another_model if run.shipped else _differs)(content, run, seed):
            found = "outdated"
        else:
            return "done"
    else:
        found = "missing"
    return "running" if is_running(run, seed) else found


def _differs(content: dict[str, Any], run: Run, seed: int) -> bool:
    """Whether a result was made with other settings than the recipe has now; settings that are new do not count."""
    try:
        threads = int(content["settings"]["train"]["threads"])
        now = training_recipe(run, seed, threads=threads, extra=content.get("extra", [])).model_dump(mode="json")
    except GramError:
        return True
    return not _agree(content["settings"], now)


def _is_of_another_model(content: dict[str, Any], run: Run, _seed: int) -> bool:
    """Whether a result is of another recipe or other weights than those that ship now, or sampled in another way."""
    settings, weights = shipped_model(run)
    return content.get("recipe", run.recipe) != run.recipe or not _agree(
        {**content["metrics"], "weights": content.get("weights", weights)}, settings | {"weights": weights}
    )


def shipped_model(run: Run) -> tuple[dict[str, Any], str | None]:
    """Return the sampling settings of a shipped model with the run's changes, and the checksum of its weights."""
    folder = find_model(run.shipped)
    settings = read_json(folder / CONFIG_FILE)["recipe"]["eval"] | dict(run.sampling)
    return settings, read_header(folder / WEIGHTS_FILE).sha256


def _agree(old: Any, new: Any) -> bool:
    if isinstance(old, dict) and isinstance(new, dict):
        return all(_agree(old[key], new[key]) for key in old.keys() & new.keys())
    return bool(old == new)


def is_running(run: Run, seed: int) -> bool:
    """Whether a process works in the folder of a training, or a cluster's job waits for it."""
    folder = training_folder(run, seed)
    if is_on_cluster(log_file(run, seed)):
        return True
    if run.shipped or not folder.is_dir():
        return False
    try:
        with locked(folder):
            return False
    except GramError:
        return True


def expected_minutes(run: Run, entries: Iterable[Entry]) -> float | None:
    """Return the CPU minutes of one training: as any result of the same training says, else as planned.

    Results that were made with the user's own changes, such as fewer steps, say nothing about it.
    """
    if run.shipped:
        return 0.0
    for entry in entries:
        for other in (*entry.cpu, *entry.paper):
            if other.training != run.training or other.shipped:
                continue
            for seed in _seeds_found(entry, other):
                content = read_json(result_path(entry, other, seed))
                minutes = (content.get("training") or {}).get("cpu_minutes")
                if minutes is not None and not content.get("extra"):
                    return float(minutes)
    return run.minutes


def provenance(entry: Entry, run: Run, seed: int, scale: Scale) -> dict[str, Any]:
    """Return what a result file says of itself."""
    return {
        "entry": entry.folder,
        "run": run.name,
        "row": run.row,
        "group": run.group,
        "recipe": run.recipe,
        "overrides": list(run.overrides),
        "seed": seed,
        "scale": scale,
        "command": f"gram reproduce {entry.folder} --only {run.name} --seeds {seed} --scale {scale}",
        "version": __version__,
        "commit": _commit(),
    }


def _commit() -> str | None:
    """Return the commit of the current folder, with + if files differ from it; None outside of a repository."""
    try:
        commit = subprocess.run(["git", "rev-parse", "--short=12", "HEAD"], capture_output=True, text=True, check=True)
        changed = subprocess.run(["git", "diff", "--quiet", "HEAD", "--", "gram"], capture_output=True, check=False)
    except (OSError, subprocess.CalledProcessError):
        return None
    return commit.stdout.strip() + "+" * (changed.returncode != 0)


def write_result(path: Path, content: dict[str, Any]) -> None:
    """Write a result whole, with six digits, and lists of numbers on one line each."""
    path.parent.mkdir(parents=True, exist_ok=True)
    text = json.dumps(_rounded(content), indent=1)
    text = NUMBERS.sub(lambda match: "[" + re.sub(r"\s+", " ", match[1]) + "]", text)
    write_whole(path, lambda target: target.write_text(text + "\n"))


def _rounded(value: Any) -> Any:
    if isinstance(value, float):
        return round(value, 6)
    if isinstance(value, dict):
        return {key: _rounded(part) for key, part in value.items()}
    if isinstance(value, (list, tuple)):
        return [_rounded(part) for part in value]
    return value
