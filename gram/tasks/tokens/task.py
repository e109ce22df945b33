"""Bring your own data: rows of tokens from a file, or from a folder of the published HRM and TRM builders.

    task = TokenFile(path="mine.jsonl")       # one {"input": [1, 1, 3], "target": [2, 4, 3]} per line
    task = TokenFile(path="data/sudoku-extreme-1k-aug-1000")

An answer is right if the plugin's `verify` accepts it or, without one, if it is a known target of its input. See
docs/bring-your-own.md.
"""

import json
from functools import cached_property
from operator import index
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from gram.errors import GramError
from gram.tasks.base import (
    IGNORE,
    Examples,
    SplitName,
    Structure,
    Task,
    Tokens,
    Verdict,
    check_pairs,
    check_split,
    check_split_options,
    split_bounds,
)
from gram.tasks.tokens.plugin import Plugin, found
from gram.tasks.tokens.readers import Rows, read_file, read_folder

if TYPE_CHECKING:
    from matplotlib.axes import Axes

ORDER: tuple[SplitName, ...] = ("test", "validation", "train")
"""an input that a published folder has in several splits stays in the first of these"""


class TokenFile(Task):
    """Rows of tokens from a file or a published folder.

    A group is a distinct input; where the rows have puzzle ids, the id is part of the input. No tokens of an input are
    in two splits of a file; a published folder keeps its own test split.
    """

    name = "tokens"
    vocab_size: int
    shape: tuple[int, int]
    puzzles: int
    """how many puzzle ids there are, for `model.puzzles`; 0 if the data has none"""

    def __init__(
        self,
        *,
        path: str,
        plugin: str | None = None,
        shape: tuple[int, int] | None = None,
        vocab_size: int | None = None,
        seed: int = 0,
        validation_share: float = 0.05,
        test_share: float | None = None,
    ) -> None:
        """Read and check the data.

        Args:
            path: a .jsonl, .npy or .npz file, or a published folder; looked for here, then below `GRAM_DATA`.
            plugin: a Python file (.py), or the name of an entry point of the group `gram.tasks.tokens`, with any of
                `verify(inputs, outputs)`, `render(tokens)`, `parse(text)`, `constraints` and `symbols`.
            shape: rows and columns, to draw the tokens as a grid.
            vocab_size: number of tokens; the largest token + 1 by default, or what a published folder says.
            seed: of the split.
            validation_share: of the distinct inputs (of a published folder: the groups) that are not in the test split.
            test_share: of all distinct inputs, 0.15 by default; a published folder has a test split already.
        """
        source = found(path)
        if test_share is not None and source.is_dir():
            raise GramError(f"{source} has a test split of its own: leave out test_share.")
        self.validation_share, self.test_share = validation_share, 0.15 if test_share is None else test_share
        check_split_options(seed=seed, validation_share=validation_share, test_share=self.test_share)
        self.has_validation = validation_share > 0
        self.seed = seed
        self.plugin = Plugin(plugin)
        rows, parts = self._read_folder(source) if source.is_dir() else self._read_file(source)
        if vocab_size is not None and index(vocab_size) < self.vocab_size:
            raise GramError(f"{source} needs a vocab_size of at least {self.vocab_size}, not {vocab_size}.")
        self.vocab_size = self.vocab_size if vocab_size is None else vocab_size
        self.length = rows.inputs.shape[1]
        self.shape = checked_shape(shape, self.length)
        self._structure = self.plugin.structure(length=self.length, vocab_size=self.vocab_size)
        self._arrange(rows, parts)

    def _read_file(self, source: Path) -> tuple[Rows, None]:
        rows = read_file(source)
        self.vocab_size = int(max(rows.inputs.max(), rows.targets.max())) + 1
        self.puzzles = 0 if rows.ids is None else int(rows.ids.max()) + 1
        return rows, None

    def _read_folder(self, source: Path) -> tuple[Rows, NDArray[np.int64]]:
        """Return the rows, and the split of each as a place in `ORDER`; whole groups of `train` are for validation."""
        folder = read_folder(source)
        self.vocab_size, self.puzzles = folder.vocab_size, folder.puzzles
        groups = int(folder.train_groups.max(initial=-1)) + 1
        place = np.random.default_rng(self.seed).permutation(groups)[folder.train_groups]
        in_training = place >= split_bounds(groups, validation_share=self.validation_share)[1]
        return folder.train + folder.test, np.concatenate([1 + in_training, np.zeros(len(folder.test), dtype=np.int64)])

    def _arrange(self, rows: Rows, parts: NDArray[np.int64] | None) -> None:
        """Sort the rows by split, then by input in a random order, and number the groups."""
        self._inputs, code = np.unique(as_records(rows.inputs), return_inverse=True)
        _, target = np.unique(as_records(rows.targets), return_inverse=True)
        place = np.random.default_rng(self.seed).permutation(len(self._inputs))[code]
        if parts is None:
            shares = {"validation_share": self.validation_share, "test_share": self.test_share}
            parts = np.digitize(place, split_bounds(len(self._inputs), **shares))
        pair = place if rows.ids is None else place * self.puzzles + rows.ids

        _, number = np.unique(pair, return_inverse=True)
        first = np.full(len(parts), len(ORDER))
        np.minimum.at(first, number, parts)
        order = np.lexsort((target, pair, parts))
        order = order[(parts == first[number])[order]]
        other_pair = np.diff(pair[order], prepend=-1) != 0
        fresh = other_pair | (np.diff(target[order], prepend=-1) != 0)
        chosen = order[fresh]

        self._rows = rows.take(chosen)
        self._groups = np.cumsum(other_pair)[fresh] - 1
        self._bounds = np.searchsorted(parts[chosen], np.arange(len(ORDER) + 1))
        # Rows by input, wherever they are: those of input number i start at _starts[i].
        self._by_input = np.argsort(code[chosen], kind="stable")
        self._starts = np.searchsorted(code[chosen][self._by_input], np.arange(len(self._inputs) + 1))

    @property
    def structure(self) -> Structure:
        """The constraints and symbols that the plugin declares."""
        return self._structure

    def split(self, name: SplitName) -> Examples:
        """Return a seeded split, one row per input and target [rows, length]."""
        check_split(name)
        chosen = slice(*self._bounds[ORDER.index(name) :][:2])
        ids = None if self._rows.ids is None else self._rows.ids[chosen].astype(np.int64)
        inputs, targets = (rows[chosen].astype(np.int64) for rows in (self._rows.inputs, self._rows.targets))
        return Examples(inputs, targets, self._groups[chosen], ids)

    def puzzle_table(self) -> dict[str, Any] | None:
        """Return which data the puzzle ids belong to; their numbers are those of the file."""
        return {"data": self.split_hash()} if self.puzzles else None

    def verify(self, inputs: Tokens, outputs: Tokens) -> Verdict:
        """Verify outputs [rows, length]: by the plugin, or valid if equal to a known target where that has labels.

        The conflicts are the tokens that differ from the nearest known target; of a plugin, 1 if it rejects the output.
        The answer to an input that is not in the data cannot be verified: it is never valid, and all its tokens are
        conflicts.
        """
        inputs, outputs = check_pairs(self, inputs, outputs)
        if not self.plugin.has("verify"):
            conflicts = self._distances(inputs, outputs)
            return Verdict(valid=conflicts == 0, conflicts=conflicts)
        valid = np.asarray(self.plugin.call("verify", inputs, outputs))
        if valid.dtype != np.bool_ or valid.shape != (len(inputs),):
            found = f"{valid.dtype} {list(valid.shape)}"
            raise GramError(f"Function verify of the plugin must return an array of bool [{len(inputs)}], not {found}.")
        return Verdict(valid=valid, conflicts=(~valid).astype(np.int64))

    def _distances(self, inputs: Tokens, outputs: Tokens) -> Tokens:
        """Return how many tokens of each output [rows] differ from the nearest known target of its input."""
        start, count = self._known(inputs)
        row = np.repeat(np.arange(len(inputs)), count)
        within = np.arange(len(row)) - np.repeat(np.cumsum(count) - count, count)
        known = self._by_input[np.repeat(start, count) + within]  # [pairs of an output and a known target]
        nearest = np.full(len(inputs), self.length)
        step = max(1, 2**24 // self.length)
        for chunk in (slice(begin, begin + step) for begin in range(0, len(row), step)):
            targets = self._rows.targets[known[chunk]]
            wrong = ((targets != outputs[row[chunk]]) & (targets != IGNORE)).sum(axis=1)
            np.minimum.at(nearest, row[chunk], wrong)
        return nearest

    def _known(self, inputs: Tokens) -> tuple[Tokens, Tokens]:
        """Return where the known targets of each input start in `_by_input`, and their number (0 if it is unknown)."""
        small = inputs.astype(self._rows.inputs.dtype)
        records = as_records(small)
        number = np.minimum(np.searchsorted(self._inputs, records), len(self._inputs) - 1)
        found = (self._inputs[number] == records) & (small == inputs).all(axis=1)
        return self._starts[number], np.where(found, self._starts[number + 1] - self._starts[number], 0)

    def solutions(self, tokens: Tokens) -> Tokens | None:
        """Return the known targets [count, length] of one input [length], with `IGNORE`; None if it is unknown."""
        (start,), (count,) = self._known(tokens[None])
        targets: Tokens = self._rows.targets[self._by_input[start : start + count]].astype(np.int64)
        return np.unique(targets, axis=0) if count else None

    def canonical(self, outputs: Tokens) -> Tokens:
        """Set the positions without a label in any target to 0."""
        return np.where(self._labelled, outputs, 0)

    @cached_property
    def _labelled(self) -> NDArray[np.bool_]:
        """[length]"""
        labelled: NDArray[np.bool_] = (self._rows.targets != IGNORE).any(axis=0)
        return labelled

    def parse(self, text: str) -> Tokens:
        """Turn a JSON list of whole numbers, or what the plugin parses, into tokens [length]."""
        by_plugin = self.plugin.has("parse")
        tokens = np.asarray(self.plugin.call("parse", text)) if by_plugin else _list_of_numbers(text)
        if tokens.shape != (self.length,) or not np.issubdtype(tokens.dtype, np.integer):
            raise GramError(f"The input must be {self.length} whole numbers, not {tokens.dtype} {list(tokens.shape)}.")
        if (bad := tokens[(tokens < 0) | (tokens >= self.vocab_size)]).size:
            raise GramError(f"The input holds {bad[0]}, but its tokens must be in 0..{self.vocab_size - 1}.")
        return tokens.astype(np.int64)

    def render(self, tokens: Tokens, given: Tokens | None = None) -> str:
        """Draw one row [length] by the plugin, or as numbers: a grid if there is a shape; '.' is a missing label."""
        if self.plugin.has("render"):
            return str(self.plugin.call("render", tokens))
        return "\n".join(" ".join(row) for row in self._cells(tokens))

    def draw(self, axes: "Axes", tokens: Tokens, given: Tokens | None = None) -> None:
        """Draw one row [length] as a grid of numbers: given black, others blue, other than the nearest target red."""
        grid = np.where(tokens == IGNORE, 0, tokens).reshape(self.shape)
        axes.imshow(grid, cmap="Pastel1", vmin=0, vmax=max(self.vocab_size - 1, 1))
        axes.set(xticks=[], yticks=[])
        own = np.zeros(self.length, bool) if given is None else tokens != given
        colours = np.select([self._wrong(tokens, given), own], ["#d62728", "#1f5fbf"], default="black")
        for place, (text, colour) in enumerate(zip(np.ravel(self._cells(tokens)), colours, strict=True)):
            row, column = divmod(place, self.shape[1])
            axes.text(column, row, text.strip(), color=str(colour), ha="center", va="center")

    def _wrong(self, tokens: Tokens, given: Tokens | None) -> NDArray[np.bool_]:
        """Return where one output [length] differs from the nearest known target; nowhere if it is valid."""
        known = None if given is None else self.solutions(given)
        if given is None or known is None or self.verify(given[None], tokens[None]).valid[0]:
            return np.zeros(self.length, dtype=bool)
        wrong = (known != tokens) & (known != IGNORE)
        nearest: NDArray[np.bool_] = wrong[wrong.sum(axis=1).argmin()]
        return nearest

    def _cells(self, tokens: Tokens) -> list[list[str]]:
        width = len(str(self.vocab_size - 1)) if self.shape[0] > 1 else 1
        cells = [("." if token == IGNORE else str(token)).rjust(width) for token in tokens.tolist()]
        rows: list[list[str]] = np.reshape(cells, self.shape).tolist()
        return rows


def as_records(rows: NDArray[Any]) -> NDArray[np.void]:
    """View rows [rows, length] as single items [rows], which sort and compare much faster than by columns."""
    rows = np.ascontiguousarray(rows)
    return rows.view(np.dtype((np.void, rows.itemsize * rows.shape[1]))).reshape(len(rows))


def checked_shape(shape: tuple[int, int] | None, length: int) -> tuple[int, int]:
    """Return rows and columns of a grid of `length` tokens; one row if there is no shape."""
    if shape is None:
        return 1, length
    if len(shape) != 2 or index(shape[0]) < 1 or index(shape[0]) * index(shape[1]) != length:
        raise GramError(f"shape must be [rows, columns] with rows x columns = {length}, not {list(shape)}.")
    return shape[0], shape[1]


def _list_of_numbers(text: str) -> NDArray[Any]:
    try:
        return np.asarray(json.loads(text))
    except (ValueError, RecursionError) as error:
        raise GramError(f"The input must be a JSON list of whole numbers, such as [1, 2, 3] ({error}).") from error
