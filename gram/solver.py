"""The public API of a trained model: load it, solve puzzles, and get answers with their verification."""

from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from shutil import copyfile
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

import numpy as np
from rich.console import Console

from gram.checkpoints.card import CARD_FILE
from gram.checkpoints.find import find_model
from gram.checkpoints.folder import load_model, load_puzzle_table, save_model
from gram.config import Recipe, SampleOptions, TaskConfig, settings_text
from gram.errors import GramError
from gram.evaluation.evaluate import evaluate as evaluate_model
from gram.inference.anytime import Anytime, Search, Until
from gram.inference.sample import Progress, Trajectories, sample
from gram.inference.select import BY_HEADS, Rule, check_rule
from gram.machine import choose_device, threads_for
from gram.models.registry import as_reasoner, build_model
from gram.progress import bar
from gram.result import Result, judge_puzzle
from gram.tasks import make_task, stored_task
from gram.tasks.base import SplitName, Task, Tokens, whole_numbers

if TYPE_CHECKING:
    from gram.models.base import Model
    from gram.models.reasoner import Reasoner


class Solver:
    """A trained model together with its task.

    `save_pretrained(folder)` and `push_to_hub("owner/name")` write the folder that `load` reads.
    """

    def __init__(
        self, model: "Model", task: Task, recipe: Recipe, *, split_hash: str | None = None, folder: Path | None = None
    ) -> None:
        self.model = model
        self.task = task
        self.recipe = recipe
        self.split_hash = split_hash
        """of the data that the model was trained on; None where it is not known"""
        self.folder = folder
        """where it was loaded from"""
        self.options = recipe.eval
        if model.sampling_steps is not None and self.options.steps is None:
            self.options = replace(self.options, steps=model.sampling_steps)

    def __repr__(self) -> str:
        settings = settings_text(self.supported(self.options))
        return f"Solver({self.task.name}, {self.model.parameter_count:,} parameters, {settings})"

    @property
    def reasoner(self) -> "Reasoner":
        """The model, if it is recursive; raises `GramError` for a baseline without supervision steps."""
        return as_reasoner(
            self.model, "This model samples whole outputs and has no supervision steps, states or heads."
        )

    @classmethod
    def from_pretrained(
        cls, name: str | Path, *, device: str = "auto", task: str | None = None, plugin: str | None = None
    ) -> "Solver":
        """Load a shipped model by name, a folder, or a Hugging Face hub id (`owner/name`); see `load`."""
        target = choose_device(device)
        folder = find_model(name)
        model, recipe, config = load_model(folder)
        made = stored_task(
            recipe.task.name,
            recipe.task.options,
            vocab_size=model.vocab_size,
            length=model.length,
            shape=config.get("shape"),
            own=task,
            plugin=plugin,
        )
        if (made.vocab_size, made.length) != (model.vocab_size, model.length):
            raise GramError(
                f"{folder} contains a model that does not fit its task {made.name}: its vocabulary or length differs."
            )
        if (table := load_puzzle_table(folder)) is not None:
            made.check_puzzle_table(table)
        return cls(model.to(target), made, recipe, split_hash=config.get("split_hash"), folder=folder)

    def resized(self, size: int) -> "Solver":
        """Return a solver with the same weights for boards of another size.

        Only networks that mix by constraints can do this: none of their weights belongs to a position.
        """
        if not self.model.structure.constraints:
            raise GramError(
                "This model has weights for every position of its board, so its size is fixed; "
                "models with `mixing: constraints` solve boards of any size."
            )
        own, other = self.recipe.task, self.task.other_sizes
        name, options = (other, {"size": size}) if other else (own.name, {**own.options, "size": size})
        task = make_task(name, **options)
        recipe = self.recipe.model_copy(update={"task": TaskConfig(name=name, options=options)})
        model = build_model(recipe, vocab_size=task.vocab_size, length=task.length, structure=task.structure)
        shapes = [{name: part.shape for name, part in some.state_dict().items()} for some in (self.model, model)]
        if shapes[0] != shapes[1]:
            raise GramError(f"Boards of size {size} have other tokens than those that the model was trained on.")
        model.load_state_dict(self.model.state_dict())
        return Solver(model.to(self.model.device).eval(), task, recipe, folder=self.folder)

    def check_data(self) -> None:
        """Raise `GramError` if the data is not that of the training: test inputs might have been trained on."""
        if self.split_hash is not None and self.split_hash != (found := self.task.split_hash()):
            raise GramError(
                f"The data of {self.task.name} is not what the model was trained on (split {self.split_hash} then, "
                f"{found} now): restore it, or evaluate on it anyway with --allow-other-data."
            )

    def save_pretrained(self, folder: str | Path) -> None:
        """Write the folder that `load` reads."""
        extra = {"split_hash": self.split_hash, "shape": self.task.shape}
        save_model(Path(folder), self.model, self.recipe, extra=extra, puzzle_table=self.task.puzzle_table())
        card, copy = (self.folder or Path(folder)) / CARD_FILE, Path(folder) / CARD_FILE
        if card.is_file() and not (copy.exists() and card.samefile(copy)):
            copyfile(card, copy)

    def push_to_hub(self, repo_id: str, *, private: bool | None = None, commit_message: str | None = None) -> str:
        """Upload that folder to `owner/name` on the Hugging Face hub; return the address of the commit."""
        from huggingface_hub import HfApi  # takes a tenth of a second, which `gram solve` need not spend

        api = HfApi()
        repository = api.create_repo(repo_id, private=private, exist_ok=True)
        with TemporaryDirectory() as folder:
            self.save_pretrained(folder)
            return str(api.upload_folder(repo_id=repository.repo_id, folder_path=folder, commit_message=commit_message))

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
        """Sample trajectories for one puzzle (text, or tokens [length] as a list, array or tensor) and verify them.

        Without `until`, sample `width` trajectories. With it, sample waves of them until "first" (a verified solution),
        "all" (an estimated fraction `coverage` of all solutions), seconds ("10s" or a float) or samples (an int).

        `rule` selects the answer, by default "verified" where the task has a checker, else "vote". For a model with
        puzzle embeddings, `puzzle_id` says which to use; 0 stands for an unknown puzzle. Options are those of
        `SampleOptions` (width, depth, temperature, seed, halt, keep_steps, ...); their defaults are the model's own.
        """
        if until is None:
            return self.solve_many([puzzle], rule=rule, puzzle_ids=[puzzle_id], progress=False, **options)[0]
        rule = self.rule(rule)
        search = self.stream(puzzle, until=until, puzzle_id=puzzle_id, coverage=coverage, **options)
        with threads_for(self.model, search.options.width):
            for _ in search:
                pass  # what each step brought is for those who watch
        return self.result(search, rule=rule)

    def solve_many(
        self,
        puzzles: Iterable[Any],
        *,
        rule: Rule | None = None,
        puzzle_ids: Iterable[int] | None = None,
        progress: bool | Progress = True,
        **options: Any,
    ) -> list[Result]:
        """Solve several puzzles as one batch and return a result for each; see `solve` for the arguments.

        `progress` shows a progress bar in a terminal, or is a function that is called with numbers of trajectories.
        """
        rule, chosen = self.rule(rule), self.with_options(**options)
        every = list(puzzles)
        ids = [0] * len(every) if puzzle_ids is None else list(puzzle_ids)
        given = [self._given(puzzle, number) for puzzle, number in zip(every, ids, strict=True)]
        if not given:
            return []
        rows = len(given) * chosen.width
        console = Console(stderr=True, quiet=progress is not True)
        with bar(console, "solving", rows, plain=False) as advance:
            found = sample(
                self.model,
                np.stack(given),
                chosen,
                puzzle_ids=np.array(ids),
                progress=progress if callable(progress) else advance,
            )
        return [
            self._judged(tokens, chosen, found.select(np.s_[number : number + 1]), rule)
            for number, tokens in enumerate(given)
        ]

    def evaluate(
        self, split: SplitName = "test", *, limit: int | None = None, progress: Progress | None = None, **options: Any
    ) -> dict[str, Any]:
        """Return all metrics on a split of the task (its first `limit` inputs), with every setting; JSON-ready."""
        chosen = self.with_options(**options)
        return evaluate_model(self.model, self.task, split, chosen, limit=limit, progress=progress)

    def stream(
        self,
        puzzle: Any,
        *,
        until: str | float | Until = "first",
        puzzle_id: int = 0,
        coverage: float = 0.95,
        **options: Any,
    ) -> Anytime:
        """Solve step by step: iterate over the returned object for the outputs of every step; then call `result`."""
        given = self._given(puzzle, puzzle_id)
        chosen = self.with_options(**options)
        goal = Until.parse(until)
        return Anytime(self.reasoner, self.task, given, chosen, goal, puzzle_id=puzzle_id, coverage=coverage)

    def result(self, search: Search, rule: Rule | None = None) -> Result:
        """Return the answers of a search so far, at any time after its first step."""
        rule = self.rule(rule)
        options = replace(search.options, width=search.found.steps.shape[1])
        return replace(self._judged(search.given, options, search.found, rule), stopped=search.reason)

    def rule(self, rule: Rule | None) -> Rule:
        """Return the given rule if the task allows it; the default is "verified" with a checker, else "vote"."""
        rule = rule or ("verified" if self.task.has_rules else "vote")
        check_rule(rule, has_rules=self.task.has_rules)
        if rule in BY_HEADS:
            _ = self.reasoner  # refuses a model without heads
        return rule

    def _given(self, puzzle: Any, puzzle_id: int) -> Tokens:
        given = self.task.parse(puzzle) if isinstance(puzzle, str) else self._checked(puzzle)
        if puzzle_id and not 0 <= puzzle_id < self.reasoner.config.puzzles:
            raise GramError(f"There is no puzzle id {puzzle_id}: this model has {self.reasoner.config.puzzles}.")
        return given

    def _judged(self, given: Tokens, options: SampleOptions, trajectories: Trajectories, rule: Rule) -> Result:
        return judge_puzzle(self.task, given, options, trajectories, rule, settings=self.supported(options))

    def with_options(self, **options: Any) -> SampleOptions:
        """Return the model's own sampling options with some of them changed."""
        unknown = [name for name in options if name not in SampleOptions.__dataclass_fields__]
        if unknown:
            known = ", ".join(SampleOptions.__dataclass_fields__)
            raise GramError(f"There is no sampling option '{unknown[0]}'. The options are {known}.")
        supported = self.model.supported
        unsupported = [name for name in options if name not in supported]
        if "keep_steps" in unsupported:
            _ = self.reasoner  # refuses, and says why
        if unsupported:
            raise GramError(
                f"Option '{unsupported[0]}' is not supported by this model. Supported: {', '.join(sorted(supported))}."
            )
        chosen = self.options.changed(**options)
        self.model.check(chosen)
        return chosen

    def supported(self, options: SampleOptions) -> dict[str, Any]:
        """Return those of the options that the model supports, by name."""
        return options.only(self.model.supported)

    def _checked(self, puzzle: Any) -> Tokens:
        tokens = whole_numbers(f"A puzzle of {self.task.name} ({self.task.length} tokens)", puzzle)
        if tokens.shape != (self.task.length,):
            raise GramError(f"{self.task.name} takes {self.task.length} tokens, not an array of shape {tokens.shape}.")
        if tokens.min() < 0 or tokens.max() >= self.task.vocab_size:
            raise GramError(f"Tokens of {self.task.name} must lie in 0..{self.task.vocab_size - 1}.")
        return tokens.astype(np.int64)


def load(
    name: str | Path,
    *,
    device: str = "auto",
    task: str | None = None,
    plugin: str | None = None,
    size: int | None = None,
) -> Solver:
    """Load a shipped model (see `list_models`), a folder that `gram train` wrote, or a Hugging Face hub id.

    `size` asks for boards of another size than the model was trained on (see `Solver.resized`).

    Loading runs no code that the folder names. Code of yours is run if you name it: `task` is a task outside the
    package, such as "mytask.py:Latin", and `plugin` a plugin of a task of tokens.
    """
    solver = Solver.from_pretrained(name, device=device, task=task, plugin=plugin)
    return solver if size is None else solver.resized(size)


def evaluate(model: "Solver | str | Path", split: SplitName = "test", **options: Any) -> dict[str, Any]:
    """Evaluate a model, given as a solver or by name; see `Solver.evaluate` for the options."""
    return (model if isinstance(model, Solver) else load(model)).evaluate(split, **options)
