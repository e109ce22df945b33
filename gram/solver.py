"""The public face of a trained model: load it, give it a puzzle, get answers that say whether they were verified."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from gram.checkpoints.folder import CONFIG_FILE, load_model, load_puzzle_table
from gram.config import Recipe
from gram.errors import GramError
from gram.inference.anytime import Anytime, Search, Until
from gram.inference.estimate import Estimate, estimate
from gram.inference.sample import Trajectories, sample
from gram.inference.select import BY_HEADS, MEANING, Rule, check_rule, distinct, select
from gram.machine import choose_device
from gram.options import SampleOptions
from gram.tasks import make_task
from gram.tasks.base import Task, Tokens

if TYPE_CHECKING:
    from gram.models.baselines.model import Generative
    from gram.models.build import Model
    from gram.models.reasoner import Reasoner


@dataclass(frozen=True)
class Result:
    """The answers to one puzzle."""

    task: Task
    given: Tokens
    """[length] the puzzle"""
    options: SampleOptions
    trajectories: Trajectories
    """one puzzle, all trajectories"""
    valid: np.ndarray[Any, np.dtype[np.bool_]]
    """[width] the task's checker accepts this trajectory's output"""
    distinct: Tokens
    """[solutions, length] the different verified solutions, most frequent first"""
    counts: np.ndarray[Any, np.dtype[np.int64]]
    """[solutions] how many trajectories found each"""
    settings: dict[str, Any]
    """those of the options that the model heeds"""
    best: Tokens
    """[length] the answer"""
    verified: bool
    """the checker accepts `best`, whoever chose it; if not, it is only the model's best guess"""
    chosen_by: str
    """how `best` was chosen"""
    estimate: Estimate | None = None
    """of the number of all solutions, where the task can verify them"""
    stopped: str = ""
    """why an anytime search ended"""

    def __str__(self) -> str:
        status = "verified solution" if self.verified else "NOT a solution (best guess)"
        return f"{status}, chosen by {self.chosen_by}:\n{self.task.render(self.best, self.given)}"


class Solver:
    """A trained model together with its task."""

    def __init__(self, model: "Model", task: Task, recipe: Recipe) -> None:
        self.model = model
        self.task = task
        self.recipe = recipe
        self.options = SampleOptions(**recipe.eval.model_dump())
        if "steps" in model.sample_settings:
            self.options = replace(self.options, steps=cast("Generative", model).law.sampling_steps)

    @property
    def reasoner(self) -> "Reasoner":
        """The model, if it thinks in steps; `GramError` for a generative one, which draws whole outputs."""
        from gram.models.reasoner import Reasoner

        if not isinstance(self.model, Reasoner):
            raise GramError("This model draws whole outputs: it has no supervision steps, states or heads to look at.")
        return self.model

    @classmethod
    def from_pretrained(cls, name: str | Path, *, device: str = "auto") -> "Solver":
        """Load a shipped model by name, a folder, or a Hugging Face hub id (`owner/name`)."""
        target = choose_device(device)
        folder = find_model(name)
        model, recipe, _ = load_model(folder)
        task = make_task(recipe.task.name, **recipe.task.options)
        if (task.vocab_size, task.length) != (model.vocab_size, model.length):
            raise GramError(f"{folder} holds a model of another shape than its task {task.name}: it cannot be used.")
        if (table := load_puzzle_table(folder)) is not None:
            task.check_puzzle_table(table)
        return cls(model.to(target), task, recipe)

    def push_to_hub(self, repo_id: str, folder: str | Path, **options: Any) -> None:
        """Upload a model folder to the Hugging Face hub, from where `from_pretrained(repo_id)` loads it."""
        from huggingface_hub import HfApi

        api = HfApi()
        api.create_repo(repo_id, exist_ok=True)
        api.upload_folder(repo_id=repo_id, folder_path=str(folder), **options)

    def solve(
        self,
        puzzle: Any,
        *,
        until: str | float | Until | None = None,
        rule: Rule | None = None,
        puzzle_id: int = 0,
        coverage: float = 0.95,
        **options: Any,
    ) -> Result:
        """Sample trajectories for one puzzle (text, tokens [length], or what `task.parse` takes) and judge them.

        Without `until`, `width` trajectories. With it, waves of them until "first" (a verified solution), "all"
        (`coverage` of the solutions that there may be), seconds ("10s" or a float) or samples (an int).

        `rule` chooses the answer, by default "verified" where the task has a checker, else "vote". For a model with
        puzzle embeddings `puzzle_id` says whose to use; 0 stands for an unknown puzzle. Options are those of
        `SampleOptions` (width, depth, temperature, seed, halt, keep_steps ...); what is not given comes from the
        model's recipe.
        """
        rule = self.rule(rule)
        if until is None:
            given = self._given(puzzle, puzzle_id)
            chosen = self.with_options(**options)
            trajectories = sample(self.model, given[None], chosen, puzzle_ids=np.array([puzzle_id]))
            return self._judged(given, chosen, trajectories, rule)
        search = self.stream(puzzle, until=until, puzzle_id=puzzle_id, coverage=coverage, **options)
        for _ in search:
            pass  # what each step brought is for those who watch
        return self.result(search, rule=rule)

    def stream(
        self,
        puzzle: Any,
        *,
        until: str | float | Until = "first",
        puzzle_id: int = 0,
        coverage: float = 0.95,
        **options: Any,
    ) -> Anytime:
        """Think step by step: iterate over what is returned for boards, values and who halted; then see `result`."""
        given = self._given(puzzle, puzzle_id)
        chosen = self.with_options(**options)
        goal = Until.parse(until)
        return Anytime(self.reasoner, self.task, given, chosen, goal, puzzle_id=puzzle_id, coverage=coverage)

    def result(self, search: Search, rule: Rule | None = None) -> Result:
        """The answers that a search has come to, at any moment after its first step."""
        rule = self.rule(rule)
        options = replace(search.options, width=search.found.steps.shape[1])
        return replace(self._judged(search.given, options, search.found, rule), stopped=search.reason)

    def rule(self, rule: Rule | None) -> Rule:
        """The given rule, if this task allows it; by default "verified" where there is a checker, else "vote"."""
        rule = rule or ("verified" if self.task.has_rules else "vote")
        check_rule(rule, has_rules=self.task.has_rules)
        if rule in BY_HEADS:
            _ = self.reasoner  # refuses a model without heads
        return rule

    def _given(self, puzzle: Any, puzzle_id: int) -> Tokens:
        tokens = isinstance(puzzle, (Sequence, np.ndarray)) and not isinstance(puzzle, str)
        given = self._checked(puzzle) if tokens else self.task.parse(puzzle)
        if puzzle_id and not 0 <= puzzle_id < self.reasoner.config.puzzles:
            raise GramError(f"There is no puzzle id {puzzle_id}: this model has {self.reasoner.config.puzzles}.")
        return given

    def _judged(self, given: Tokens, options: SampleOptions, trajectories: Trajectories, rule: Rule) -> Result:
        outputs = self.task.canonical(trajectories.outputs[0])
        valid = self.task.verify(np.repeat(given[None], len(outputs), axis=0), outputs).valid
        solutions, counts = distinct(outputs[valid])
        best = select(outputs, trajectories.values[0], trajectories.confidence[0], valid, rule)
        found = rule if rule != "verified" or valid.any() else "vote"  # nothing was verified
        return Result(
            self.task,
            given,
            options,
            trajectories,
            valid,
            solutions,
            counts,
            settings=options.heeded(self.model.sample_settings),
            best=outputs[best],
            verified=bool(valid[best]),
            chosen_by=f"{MEANING[found]}, among {len(outputs)} trajectories ({int(valid.sum())} verified)",
            estimate=estimate(counts) if self.task.has_rules else None,
        )

    def with_options(self, **options: Any) -> SampleOptions:
        """The model's own sampling options with some of them changed."""
        unknown = [name for name in options if name not in SampleOptions.__dataclass_fields__]
        if unknown:
            known = ", ".join(SampleOptions.__dataclass_fields__)
            raise GramError(f"There is no sampling option '{unknown[0]}'; there is {known}.")
        heeded = self.model.sample_settings
        deaf = [name for name in options if name not in heeded]
        if "keep_steps" in deaf:
            _ = self.reasoner  # refuses, and says why
        if deaf:
            raise GramError(f"'{deaf[0]}' means nothing to this model; it can be told {', '.join(sorted(heeded))}.")
        chosen = replace(self.options, **options)
        if "steps" in heeded:
            cast("Generative", self.model).check(chosen)
        return chosen

    def _checked(self, puzzle: Sequence[int] | Tokens) -> Tokens:
        try:
            tokens = np.asarray(puzzle)
        except ValueError as error:  # a ragged list
            raise GramError(f"{self.task.name} takes {self.task.length} whole numbers in one row.") from error
        if tokens.shape != (self.task.length,):
            raise GramError(f"{self.task.name} takes {self.task.length} tokens, not an array of shape {tokens.shape}.")
        if not np.issubdtype(tokens.dtype, np.integer):
            raise GramError(f"Tokens of {self.task.name} are whole numbers, not {tokens.dtype}.")
        if tokens.min() < 0 or tokens.max() >= self.task.vocab_size:
            raise GramError(f"Tokens of {self.task.name} lie in 0..{self.task.vocab_size - 1}.")
        return tokens.astype(np.int64)


def load(name: str | Path, *, device: str = "auto") -> Solver:
    """Load a shipped model (`nqueens-8`, `sudoku-generation`, ...), a folder of `gram train`, or a hub id."""
    return Solver.from_pretrained(name, device=device)


def shipped_models() -> dict[str, Path]:
    """The models that come with the package, by name: nqueens-8 before nqueens-10, and both before sudoku-9."""
    root = Path(str(resources.files("gram") / "pretrained"))
    folders = (path.parent for path in root.glob(f"*/{CONFIG_FILE}"))
    return {
        path.name: path
        for path in sorted(folders, key=lambda path: (path.name.rpartition("-")[0], len(path.name), path.name))
    }


def find_model(name: str | Path) -> Path:
    """Resolve a name to a folder; a hub id is downloaded."""
    shipped = shipped_models()
    if str(name) in shipped:
        return shipped[str(name)]
    path = Path(name)
    if path.exists():
        return path
    if isinstance(name, str) and name.count("/") == 1 and not name.startswith((".", "/")) and not name.endswith("/"):
        return _download(name)
    raise GramError(
        f"There is no model '{name}': give a folder, a hub id (owner/name), or one of {', '.join(shipped)}."
    )


def _download(repo_id: str) -> Path:
    from huggingface_hub import snapshot_download
    from huggingface_hub.errors import HfHubHTTPError, HFValidationError, LocalEntryNotFoundError

    try:
        return Path(snapshot_download(repo_id, allow_patterns=["*.json", "*.safetensors"]))
    except (HfHubHTTPError, HFValidationError, LocalEntryNotFoundError, OSError) as error:
        raise GramError(
            f"'{repo_id}' is no folder here, and the hub did not give a model of that name ({type(error).__name__})."
        ) from error
