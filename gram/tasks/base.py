"""The interface of a task for the models, the training loop and the evaluation.

A task turns puzzles into rows of integer tokens and verifies rows of integer tokens; it does not depend on any model.
Token 0 is padding in every task, and `IGNORE` in a target marks a position without a label.
"""

import hashlib
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache, cached_property
from operator import index
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, get_args

import numpy as np
from numpy.typing import NDArray

from gram.errors import GramError

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.path import Path

IGNORE = -100
"""Target value of a position without a label (the same as torch's default `ignore_index`)."""

Tokens = NDArray[np.int64]
SplitName = Literal["train", "validation", "test"]
SPLITS: tuple[SplitName, ...] = get_args(SplitName)
Scoring = Literal["solutions", "generation", "votes"]
"""How a model is scored: valid answers and coverage of each input's solutions; many samples of one blank input; or the
answers to all augmentations of an input, turned back, by vote."""

SEARCHED = 200
"""Test inputs among which `multimodal_input` looks."""


@dataclass(frozen=True)
class Structure:
    """The part of a puzzle's rules that a network can build in: which positions share a rule, and equivalent tokens."""

    constraints: Mapping[str, Sequence[int]] = field(default_factory=dict)
    """By kind ("row", "column", ...), the number of the set that each position [length] is in"""
    symbols: Sequence[int] = ()
    """Tokens that may be renamed without changing the puzzle, such as Sudoku's digits"""


class Distinct(NamedTuple):
    """The distinct inputs of a split, in order of group number."""

    inputs: Tokens
    """[inputs, length]"""
    rows: Tokens
    """[inputs] how many rows of the split each stands for"""
    puzzle_ids: Tokens | None
    """[inputs], for tasks that have them"""


@dataclass(frozen=True)
class Examples:
    """Input/target pairs, one row each."""

    inputs: Tokens
    """[rows, length]"""
    targets: Tokens
    """[rows, length]; `IGNORE` where there is no label"""
    groups: Tokens
    """[rows] number of the distinct input, ascending: rows of one group share the input and differ in the target"""
    puzzle_ids: Tokens | None = None
    """[rows] numbers of the puzzle embeddings, for tasks that have them (ARC)"""

    def __len__(self) -> int:
        return len(self.inputs)

    def distinct(self, limit: int | None = None) -> Distinct:
        """Return every distinct input once; at most the first `limit`."""
        _, first, rows = np.unique(self.groups, return_index=True, return_counts=True)
        first = first[:limit]
        ids = None if self.puzzle_ids is None else self.puzzle_ids[first]
        return Distinct(self.inputs[first], rows[:limit], ids)


@dataclass(frozen=True)
class Verdict:
    """The verdict of the task's checker on each row."""

    valid: NDArray[np.bool_]
    """[rows] the output is a complete solution of the input"""
    conflicts: NDArray[np.int64]
    """[rows] how many rules are broken (0 for a valid output)"""


class Task(ABC):
    """One benchmark: its data, encoding, verification and rendering."""

    name: str
    vocab_size: int
    length: int
    augments: bool = False
    """Whether `augment` changes anything; a task that augments must set it."""
    scoring: Scoring = "solutions"
    has_rules: bool = True
    """Whether `verify` can tell valid from invalid; it cannot if the answer is an image, for example."""
    has_validation: bool = True
    """Whether there is a validation split; False if the options ask for none. An empty one is an error otherwise."""
    repairs: bool = False
    """Whether `repair` makes a solution near any output: for tasks whose solutions cannot be looked up."""
    shape: tuple[int, int] | None = None
    """Rows and columns of the board, where the tokens are one."""
    puzzles: int = 0
    """Number of puzzle embeddings; 0 for tasks without puzzle ids."""
    other_sizes: str = ""
    """The task that has boards of other sizes; empty if it is this one, with another option `size`."""

    @property
    def structure(self) -> Structure:
        """The structure that networks can build in; empty by default."""
        return Structure()

    @property
    def data_is_here(self) -> bool:
        """Whether the splits can be read without a download."""
        return True

    @property
    def exchanges(self) -> bool:
        """Whether rollouts from the one blank input exchange targets: where any answer is one, and none is repaired."""
        return self.scoring == "generation" and not self.repairs

    @abstractmethod
    def split(self, name: SplitName) -> Examples:
        """Return a seeded split; no input of one split occurs in another."""

    def split_hash(self) -> str:
        """Return the first 12 hex digits of the SHA-256 of the train, validation and test arrays, in that order."""
        return self._split_hash

    @cached_property
    def _split_hash(self) -> str:
        digest = hashlib.sha256()
        for name in SPLITS:
            part = self.split(name)
            ids = [] if part.puzzle_ids is None else [part.puzzle_ids]
            for array in (part.inputs, part.targets, part.groups, *ids):
                for start in range(0, len(array), 4096):  # a copy of a large split might not fit into memory
                    digest.update(array[start : start + 4096].astype("<i8", copy=False).tobytes())
        return digest.hexdigest()[:12]

    def puzzle_table(self) -> dict[str, Any] | None:
        """Return what the puzzle ids stand for (JSON-ready); it is stored with a model that has puzzle embeddings."""
        return None

    def check_puzzle_table(self, stored: dict[str, Any]) -> None:
        """Raise `GramError` if `stored`, the table that a model was trained with, is not this task's."""
        if stored != self.puzzle_table():
            raise GramError(f"The model's puzzle embeddings belong to other data than that of {self.name} here.")

    @abstractmethod
    def verify(self, inputs: Tokens, outputs: Tokens) -> Verdict:
        """Verify outputs [rows, length] for inputs [rows, length]."""

    def augment(self, inputs: Tokens, targets: Tokens, generator: np.random.Generator) -> tuple[Tokens, Tokens]:
        """Return a random, equally valid version of each row [rows, length]; the default changes nothing."""
        return inputs, targets

    def canonical(self, outputs: Tokens) -> Tokens:
        """Map outputs [rows, length] that mean the same to the same row; the default changes nothing."""
        return outputs

    def solutions(self, tokens: Tokens) -> Tokens | None:
        """Return all solutions [count, length] of one input [length], or None where they cannot be listed."""
        return None

    def solution_counts(self, inputs: Tokens) -> Tokens | None:
        """Return how many solutions [rows] each of inputs [rows, length] has, or None where they cannot be listed."""
        counts = [len(some) for row in inputs if (some := self.solutions(row)) is not None]
        return np.array(counts) if len(counts) == len(inputs) else None

    def repair(self, inputs: Tokens, outputs: Tokens, seeds: Tokens) -> Tokens:
        """Return a solution of each input near its output, all [rows, length]; ties are broken by seeds [rows]."""
        raise GramError(f"Task {self.name} cannot repair answers.")

    @abstractmethod
    def parse(self, text: str) -> Tokens:
        """Turn a user's puzzle into tokens [length]; raise `GramError` with one clear sentence otherwise."""

    @abstractmethod
    def render(self, tokens: Tokens, given: Tokens | None = None) -> str:
        """Draw one board [length] as text; `given` (the input) tells which cells were there from the start."""

    @abstractmethod
    def draw(self, axes: "Axes", tokens: Tokens, given: Tokens | None = None) -> None:
        """Draw one board [length] into a matplotlib axes; wrong cells are marked."""


def multimodal_input(task: Task, least: int | None = None) -> Tokens:
    """Return an input [length] with several solutions, from the beginning of the test split.

    It is the first with at least `least` solutions; without such an input, or without `least`, the one with most. Where
    solutions cannot be listed, it is the first input.
    """
    inputs = task.split("test").distinct(SEARCHED).inputs
    counts = task.solution_counts(inputs)
    if counts is None:
        counts = np.zeros(len(inputs), dtype=np.int64)
    enough = np.flatnonzero(counts >= least) if least is not None else counts[:0]
    chosen: Tokens = inputs[enough[0] if len(enough) else counts.argmax()]
    return chosen


def check_split_options(*, seed: int, validation_share: float = 0.0, test_share: float = 0.0) -> None:
    """Raise `GramError` for invalid options of a split."""
    if index(seed) < 0:  # `index` takes whole numbers only
        raise GramError(f"The seed of the split must not be negative, but is {seed}.")
    for name, share in (("validation_share", validation_share), ("test_share", test_share)):
        if not 0 <= share < 1:
            raise GramError(f"{name} must be at least 0 and below 1, not {share}.")


def split_bounds(count: int, *, validation_share: float = 0.0, test_share: float = 0.0) -> tuple[int, int]:
    """Return where the test part and the validation part after it end among `count` items; the others are to train."""
    test = round(count * test_share)
    return test, test + round((count - test) * validation_share)


def check_split(name: str) -> None:
    """Raise `GramError` if there is no split of this name."""
    if name not in SPLITS:
        raise GramError(f"There is no split {name!r}. The splits are train, validation and test.")


def check_rows(task: Task, rows: Tokens) -> Tokens:
    """Return rows [rows, length], or raise `GramError` if they have another shape."""
    if rows.ndim != 2 or rows.shape[1] != task.length:
        raise GramError(f"Rows of {task.name} must have the shape [rows, {task.length}], not {list(rows.shape)}.")
    return rows


def check_fraction(name: str, value: float) -> float:
    """Return an option that must be a number from 0 to 1; raise `GramError` otherwise."""
    if isinstance(value, bool) or not 0 <= value <= 1:
        raise GramError(f"{name} must be a number from 0 to 1, not {value}.")
    return float(value)


def check_count(name: str, value: int | None, *, least: int, none: bool = False) -> None:
    """Raise `GramError` unless an option is a whole number of at least `least` (or None, if that has a meaning)."""
    if value is None and none:
        return
    if value is None or index(value) < least:  # `index` takes whole numbers only
        raise GramError(f"{name} must be at least {least}{', or None,' if none else ''} but is {value}.")


def whole_numbers(name: str, values: Any) -> NDArray[np.integer[Any]]:
    """Return what a user gives as an array, nested list or tensor; raise `GramError` unless it has whole numbers."""
    try:
        array = np.asarray(values.cpu() if hasattr(values, "cpu") else values)
    except ValueError as error:
        raise GramError(f"{name} must be an array of whole numbers: its rows have different lengths.") from error
    if not np.issubdtype(array.dtype, np.integer) or not array.size:
        raise GramError(f"{name} must be an array of whole numbers, not {array.dtype} {list(array.shape)}.")
    return array


def checked_structure(constraints: Any, symbols: Any, *, length: int, vocab_size: int) -> Structure:
    """Return a declared structure as plain numbers; raise `GramError` unless it fits the length and the vocabulary."""
    if not isinstance(constraints, Mapping):
        raise GramError("constraints must map each kind of sets to a list of numbers, such as {'row': [0, 0, 1, 1]}.")
    sets = {str(kind): whole_numbers(f"constraints['{kind}']", numbers) for kind, numbers in constraints.items()}
    for kind, numbers in sets.items():
        if numbers.shape != (length,) or numbers.min() < 0:
            raise GramError(f"constraints['{kind}'] must be {length} numbers from 0, the set of each position.")
    tokens = [] if np.size(symbols) == 0 else whole_numbers("symbols", symbols).ravel().tolist()
    if tokens and not 1 < len({token for token in tokens if 0 <= token < vocab_size}) == len(tokens):
        raise GramError(f"symbols must be two or more different tokens from 0 to {vocab_size - 1}, not {tokens}.")
    return Structure({kind: numbers.tolist() for kind, numbers in sets.items()}, tokens)


def check_pairs(task: Task, inputs: Tokens, outputs: Tokens) -> tuple[Tokens, Tokens]:
    """Return both [rows, length], or raise `GramError` if either has another shape."""
    inputs, outputs = check_rows(task, inputs), check_rows(task, outputs)
    if len(inputs) != len(outputs):
        raise GramError(f"`verify` needs one output per input, not {len(outputs)} outputs for {len(inputs)} inputs.")
    return inputs, outputs


@cache
def glyph(text: str, size: float, *, bold: bool = False) -> "Path":
    """Return a character around the origin of an axis that points down.

    A path in data units, unlike text in points, fits its cell at any size of the figure.
    """
    from matplotlib.font_manager import FontProperties
    from matplotlib.textpath import TextPath
    from matplotlib.transforms import Affine2D

    font = FontProperties(family="DejaVu Sans", weight="bold" if bold else "normal")
    path = TextPath((0, 0), text, size=size, prop=font)
    x, y = path.get_extents().get_points().mean(axis=0)
    return Affine2D().translate(-x, -y).scale(1, -1).transform_path(path)
