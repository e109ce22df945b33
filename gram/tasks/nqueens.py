"""N-Queens completion: some queens are given, place the rest so that no two attack each other.

As in the paper, every solution of the board loses k queens in every possible way; the fewer queens remain, the more
solutions an input has, so a model is asked to cover many right answers rather than to find the only one.

    task = NQueens(size=8)
    train = task.split("train")               # inputs, targets [rows, 64]; one row per input and solution
    print(task.render(train.targets[0], train.inputs[0]))
"""

import re
from functools import cache, cached_property
from itertools import combinations
from operator import index
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from gram.errors import GramError
from gram.tasks.base import (
    Examples,
    SplitName,
    Structure,
    Task,
    Tokens,
    Verdict,
    check_count,
    check_pairs,
    check_rows,
    check_split,
    check_split_options,
    glyph,
    split_bounds,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes

PAD, EMPTY, QUEEN = 0, 1, 2

Mask = NDArray[np.bool_]


@cache
def all_solutions(size: int) -> NDArray[np.int8]:
    """Return every solution as the queen's column in each row [solutions, size], in lexicographic order (read-only)."""
    full = (1 << size) - 1
    found: list[tuple[int, ...]] = []

    def place(columns: int, left: int, right: int, placed: tuple[int, ...]) -> None:
        # A bit is set where a queen of an earlier row attacks this row: straight down, or along either diagonal.
        if columns == full:
            found.append(placed)
        free = full & ~(columns | left | right)
        while free:
            bit = free & -free
            free ^= bit
            place(columns | bit, (left | bit) << 1, (right | bit) >> 1, (*placed, bit.bit_length() - 1))

    place(0, 0, 0, ())
    solutions = np.array(found, dtype=np.int8)
    solutions.setflags(write=False)  # shared by every task of this size
    return solutions


@cache
def all_boards(size: int) -> Mask:
    """Return every solution as a board [solutions, size * size], True where a queen stands (read-only)."""
    columns = all_solutions(size)
    boards: Mask = (columns[:, :, None] == np.arange(size)).reshape(len(columns), size * size)
    boards.setflags(write=False)
    return boards


@cache
def all_lines(size: int) -> Mask:
    """Return the cells of every row, column and diagonal [lines, size * size] (read-only)."""
    kinds = line_numbers(size).values()
    lines = np.concatenate([numbers == np.arange(numbers.max() + 1)[:, None] for numbers in kinds])
    lines.setflags(write=False)
    return lines


def line_numbers(size: int) -> dict[str, Tokens]:
    """Return the number of the row, column and diagonals that each cell [size * size] is on."""
    row, column = np.divmod(np.arange(size * size), size)
    return {"row": row, "column": column, "diagonal": row + column, "antidiagonal": row - column + size - 1}


class NQueens(Task):
    """N-Queens completion on a `size` x `size` board; tokens are 0 pad, 1 empty, 2 queen."""

    def __init__(
        self,
        *,
        size: int = 8,
        removed: tuple[int, ...] | None = None,
        seed: int = 0,
        validation_share: float = 0.05,
        test_share: float = 0.15,
        max_inputs: int | None = 100_000,
        max_pairs: int | None = 250_000,
    ) -> None:
        """Describe the benchmark; the data is built when it is first asked for.

        Args:
            size: rows and columns of the board, 4 to 12.
            removed: how many queens an input lacks; the paper's (size - 3, size - 2, size - 1) by default.
            seed: of the split.
            validation_share: of the distinct inputs that are not in the test split.
            test_share: of all distinct inputs.
            max_inputs: keep a random subset of at most this many distinct inputs; None keeps all.
            max_pairs: keep a random subset of the distinct inputs, each with all its targets, that makes at most this
                many pairs; None keeps all. Sizes up to 10 have fewer by default (126,700 at size 10), but size 12 has
                4.2 million from 206,628 inputs, or 9.8 GB of tokens.
        """
        check_split_options(seed=seed, validation_share=validation_share, test_share=test_share)
        if not 4 <= index(size) <= 12:
            raise GramError(f"The N-Queens board size must be from 4 to 12, not {size}.")
        removed = (size - 3, size - 2, size - 1) if removed is None else tuple(removed)
        if not removed or not all(1 <= count <= size for count in removed):
            raise GramError(f"removed must name one or more numbers of queens from 1 to {size}, not {removed}.")
        for name, limit in (("max_inputs", max_inputs), ("max_pairs", max_pairs)):
            check_count(name, limit, least=1, none=True)
        self.name = f"nqueens-{size}"
        self.vocab_size = 3
        self.length = size * size
        self.size = size
        self.removed = tuple(sorted(set(removed)))  # a number named twice would repeat its pairs
        self.seed = seed
        self.validation_share, self.test_share = validation_share, test_share
        self.has_validation = validation_share > 0
        self.max_inputs, self.max_pairs = max_inputs, max_pairs

    @property
    def structure(self) -> Structure:
        """No row, column or diagonal holds two queens."""
        return Structure({kind: numbers.tolist() for kind, numbers in line_numbers(self.size).items()})

    @cached_property
    def _kept_rows(self) -> Mask:
        """[subsets, size] every way to keep queens, as the rows that keep theirs."""
        kept = [rows for count in self.removed for rows in combinations(range(self.size), self.size - count)]
        return np.array([[row in rows for row in range(self.size)] for rows in kept])

    @cached_property
    def _pairs(self) -> tuple[Tokens, Tokens]:
        """The kept pairs, numbered solution * subsets + subset, and the group of each [pairs], in order of the groups.

        A group's number is its input's place in a random order, so that a split is a range of groups, and its first
        rows are as fair a sample as any.
        """
        # One integer names a partial board: in base size + 1, a row's digit is its queen's column + 1, or 0 if removed.
        digits = (all_solutions(self.size).astype(np.int64) + 1) * (self.size + 1) ** np.arange(self.size)
        codes = digits @ self._kept_rows.T.astype(np.int64)
        _, inputs, pairs_of_input = np.unique(codes.ravel(), return_inverse=True, return_counts=True)
        order = np.random.default_rng(self.seed).permutation(len(pairs_of_input))
        groups = np.argsort(order)[inputs]
        pairs = np.argsort(groups, kind="stable")

        ends = np.cumsum(pairs_of_input[order])  # [groups] number of pairs up to and including each group
        inputs_kept = len(ends) if self.max_inputs is None else min(self.max_inputs, len(ends))
        if self.max_pairs is not None:
            inputs_kept = min(inputs_kept, int(np.searchsorted(ends, self.max_pairs, side="right")))
        pairs = pairs[: ends[inputs_kept - 1] if inputs_kept else 0]
        return pairs, groups[pairs]

    def split(self, name: SplitName) -> Examples:
        """Return a seeded split, one row per input and solution [rows, length]; no input is in two splits."""
        check_split(name)
        pairs, groups = self._pairs
        inputs = int(groups[-1]) + 1 if len(groups) else 0
        test, validation = split_bounds(inputs, validation_share=self.validation_share, test_share=self.test_share)
        ranges = {"test": (0, test), "validation": (test, validation), "train": (validation, inputs)}
        chosen = slice(*np.searchsorted(groups, ranges[name]))
        solution, subset = np.divmod(pairs[chosen], len(self._kept_rows))
        targets = all_boards(self.size)[solution]
        given = targets & np.repeat(self._kept_rows, self.size, axis=1)[subset]
        return Examples(_tokens(given), _tokens(targets), groups[chosen])

    def verify(self, inputs: Tokens, outputs: Tokens) -> Verdict:
        """Verify outputs [rows, length] for inputs [rows, length].

        The conflicts are the pairs of queens on one line (a queen between them is no shield), the queens missing or too
        many, the given queens that are gone, and the tokens that are neither empty nor queen.
        """
        inputs, outputs = check_pairs(self, inputs, outputs)
        queens = outputs == QUEEN
        # float32 is exact for such counts and, unlike integers, multiplied by BLAS
        on_line = (queens.astype(np.float32) @ all_lines(self.size).T.astype(np.float32)).astype(np.int64)
        attacks = (on_line * (on_line - 1) // 2).sum(axis=1)
        miscounted = np.abs(queens.sum(axis=1) - self.size)
        lost_givens = ((inputs == QUEEN) & ~queens).sum(axis=1)
        illegal = (~queens & (outputs != EMPTY)).sum(axis=1)
        conflicts = attacks + miscounted + lost_givens + illegal
        return Verdict(valid=conflicts == 0, conflicts=conflicts)

    def solutions(self, tokens: Tokens) -> Tokens:
        """Return all solutions [count, length] that keep the queens of one input [length]."""
        given = check_rows(self, tokens[None])[0] == QUEEN
        boards = all_boards(self.size)
        return _tokens(boards[boards[:, given].all(axis=1)])

    def solution_counts(self, inputs: Tokens) -> Tokens:
        """Return how many solutions [rows] each input [rows, length] has."""
        given = (check_rows(self, inputs) == QUEEN).astype(np.float32)
        boards = all_boards(self.size).T.astype(np.float32)
        counts = np.zeros(len(given), dtype=np.int64)
        for start in range(0, len(given), 512):  # 512 rows against the 14,200 solutions of size 12 take 29 MB
            chunk = given[start : start + 512]
            counts[start : start + 512] = (chunk @ boards == chunk.sum(axis=1, keepdims=True)).sum(axis=1)
        return counts

    def parse(self, text: str) -> Tokens:
        """Turn a board as text into tokens [length].

        Rows are separated by '/' or a new line, or by nothing at all; 'Q' is a queen, '.', '-', '_' and '0' are empty
        cells; spaces are ignored.
        """
        rows = [row for row in ("".join(part.split()) for part in re.split(r"[/\n]", text)) if row]
        cells = "".join(rows)
        if len(rows) <= 1:  # no separators: cut the cells into rows, so that an error can name a row and a column
            if len(cells) != self.length:
                raise GramError(f"The board has {len(cells)} cells, but {self.length} are expected.")
            rows = [cells[start : start + self.size] for start in range(0, self.length, self.size)]
        if len(rows) != self.size:
            found, expected = f"{len(rows)} rows ({len(cells)} cells)", f"{self.size} rows ({self.length} cells)"
            raise GramError(f"The board has {found}, but {expected} are expected.")
        for number, row in enumerate(rows, 1):
            if len(row) != self.size:
                raise GramError(f"Row {number} of the board has {len(row)} cells, but {self.size} are expected.")
            if unknown := re.search(r"[^Qq.\-_0]", row):
                where = f"row {number}, column {unknown.start() + 1}"
                raise GramError(f"Unknown character {unknown[0]!r} at {where}: use Q for a queen, . for an empty cell.")
        tokens = np.array([QUEEN if cell in "Qq" else EMPTY for cell in cells], dtype=np.int64)
        self._check_solvable(tokens)
        return tokens

    def _check_solvable(self, tokens: Tokens) -> None:
        cells = [divmod(int(cell), self.size) for cell in np.flatnonzero(tokens == QUEEN)]
        for (row, column), (other_row, other_column) in combinations(cells, 2):
            across, down = abs(column - other_column), other_row - row
            if across in (0, down) or down == 0:
                first, second = f"row {row + 1}, column {column + 1}", f"row {other_row + 1}, column {other_column + 1}"
                raise GramError(f"The queens at {first} and at {second} attack each other: move or remove one of them.")
        if not len(self.solutions(tokens)):
            raise GramError("No solution exists for this board: move or remove a queen.")

    def render(self, tokens: Tokens, given: Tokens | None = None) -> str:
        """Draw one board [length] as text, one line per row.

        '.' empty, 'Q' a given queen, 'o' a placed one, 'x' one under attack, '!' a given one that is gone, '?' pad or
        another illegal token. Without `given`, every queen counts as given.
        """
        return "\n".join(" ".join(row) for row in self._symbols(tokens, given))

    def draw(self, axes: "Axes", tokens: Tokens, given: Tokens | None = None) -> None:
        """Draw one board [length]: given queens black, placed blue, attacked red, lost givens outlined red."""
        from matplotlib.patches import PathPatch
        from matplotlib.transforms import Affine2D

        blue, red = "#1f5fbf", "#d62728"
        glyphs = {"Q": ("♛", "black"), "o": ("♛", blue), "x": ("♛", red), "!": ("♕", red), "?": ("?", red)}
        checks = np.indices((self.size, self.size)).sum(axis=0) % 2
        axes.imshow(checks, cmap="Greys", vmin=0, vmax=5)
        axes.set(xticks=[], yticks=[])
        for row, symbols in enumerate(self._symbols(tokens, given)):
            for column, symbol in enumerate(symbols):
                if symbol not in glyphs:
                    continue
                sign, colour = glyphs[symbol]
                path = Affine2D().translate(column, row).transform_path(glyph(sign, 0.9))
                axes.add_patch(PathPatch(path, facecolor=colour, linewidth=0))

    def _symbols(self, tokens: Tokens, given: Tokens | None) -> list[list[str]]:
        """Return the character of each cell, [size][size], as `render` explains them."""
        queens = check_rows(self, tokens[None])[0] == QUEEN
        givens = queens if given is None else check_rows(self, given[None])[0] == QUEEN
        lines = all_lines(self.size)
        crowded = lines[(lines & queens).sum(axis=1) > 1].any(axis=0)
        symbols = np.select(
            [queens & crowded, queens & givens, queens, givens, tokens == EMPTY], ["x", "Q", "o", "!", "."], default="?"
        )
        rows: list[list[str]] = symbols.reshape(self.size, self.size).tolist()
        return rows


def _tokens(queens: Mask) -> Tokens:
    return np.where(queens, QUEEN, EMPTY).astype(np.int64, copy=False)
