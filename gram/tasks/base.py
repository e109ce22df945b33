"""What every task promises to the models, the training loop and the evaluation.

A task knows no model: it turns puzzles into rows of integer tokens and judges rows of integer tokens. Token 0 is
padding in every task, and `IGNORE` in a target marks a position that carries no label.
"""

import hashlib
from abc import ABC, abstractmethod
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Literal, get_args

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from matplotlib.axes import Axes

IGNORE = -100
"""Target value of a position without a label (the same as torch's default `ignore_index`)."""

Tokens = NDArray[np.int64]
SplitName = Literal["train", "validation", "test"]


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
    """[rows] which puzzle's own embedding stands in front, for tasks that have them (ARC)"""

    def __len__(self) -> int:
        return len(self.inputs)

    def distinct(self, limit: int | None = None) -> tuple[Tokens, Tokens]:
        """Every distinct input once [inputs, length], in order of group number, and its number of rows [inputs]."""
        _, first, rows = np.unique(self.groups, return_index=True, return_counts=True)
        return self.inputs[first[:limit]], rows[:limit]


@dataclass(frozen=True)
class Verdict:
    """What the task's own checker says of each row."""

    valid: NDArray[np.bool_]
    """[rows] the output is a complete solution of the input"""
    conflicts: NDArray[np.int64]
    """[rows] how many rules are broken (0 for a valid output)"""


class Task(ABC):
    """One benchmark: its data, encoding, verdict and rendering."""

    name: str
    vocab_size: int
    length: int
    augments: bool = False
    """Whether `augment` changes anything; set it where it does."""

    @abstractmethod
    def split(self, name: SplitName) -> Examples:
        """Return a seeded split; no input of one split occurs in another."""

    def split_hash(self) -> str:
        """Return the first 12 hex digits of the SHA-256 of the train, validation and test arrays, in that order."""
        return self._split_hash

    @cached_property
    def _split_hash(self) -> str:
        digest = hashlib.sha256()
        for name in get_args(SplitName):
            part = self.split(name)
            ids = [] if part.puzzle_ids is None else [part.puzzle_ids]
            for array in (part.inputs, part.targets, part.groups, *ids):
                for start in range(0, len(array), 4096):  # in pieces: a copy of a large split might not fit
                    digest.update(array[start : start + 4096].astype("<i8", copy=False).tobytes())
        return digest.hexdigest()[:12]

    @abstractmethod
    def verify(self, inputs: Tokens, outputs: Tokens) -> Verdict:
        """Judge outputs [rows, length] against inputs [rows, length]."""

    def augment(self, inputs: Tokens, targets: Tokens, generator: np.random.Generator) -> tuple[Tokens, Tokens]:
        """Return a random, equally valid version of each row [rows, length]; the default changes nothing."""
        return inputs, targets

    def canonical(self, outputs: Tokens) -> Tokens:
        """Map outputs [rows, length] that mean the same to the same row; the default changes nothing."""
        return outputs

    def solutions(self, tokens: Tokens) -> Tokens | None:
        """Return all solutions [count, length] of one input [length], or None where they cannot be listed."""
        return None

    @abstractmethod
    def parse(self, text: str) -> Tokens:
        """Turn a user's puzzle into tokens [length]; raise `GramError` with one clear sentence otherwise."""

    @abstractmethod
    def render(self, tokens: Tokens, given: Tokens | None = None) -> str:
        """Draw one board [length] as text; `given` (the input) tells which cells were there from the start."""

    @abstractmethod
    def draw(self, axes: "Axes", tokens: Tokens, given: Tokens | None = None) -> None:
        """Draw one board [length] into a matplotlib axes; wrong cells are marked."""
