"""Sudoku: fill the board so that every row, column and box holds each digit once.

`SudokuHard` generates its own puzzles and needs no network, and `SudokuGeneration` asks for complete boards,
unconditionally. The paper's benchmark is in `gram.tasks.sudoku.extreme`.

    task = SudokuHard()
    test = task.split("test")                 # inputs, targets [1000, 81]
    print(task.render(test.targets[0], test.inputs[0]))
"""

from functools import cached_property
from pathlib import Path
from typing import Literal

import numpy as np

from gram.errors import GramError
from gram.tasks.base import SPLITS, Examples, SplitName, Tokens, check_count, check_split
from gram.tasks.store import Arrays, cached_arrays, file_hash
from gram.tasks.sudoku.board import BLANK, SudokuBoard, examples_of
from gram.tasks.sudoku.files import TRAIN_FILES, distinct_puzzles, extreme_file, rows_of
from gram.tasks.sudoku.generator import distinct_boards, hard_puzzles
from gram.tasks.sudoku.repair import repair


class SudokuHard(SudokuBoard):
    """Generated puzzles with one solution each, none a symmetry of another in any split.

    On the 9x9 board they are minimal (no given can be spared), and a search needs at least `min_rating` guesses. The
    small boards have few minimal puzzles (4x4: 36), all easy, so there some givens are added and any rating will do.
    """

    def __init__(
        self,
        *,
        size: int = 9,
        seed: int = 0,
        train_puzzles: int = 1000,
        validation_puzzles: int = 200,
        test_puzzles: int = 1000,
        min_rating: int | None = None,
        extra_givens: int | None = None,
        redig: float = 0.0,
        redig_difficulty: float = 0.75,
    ) -> None:
        """Describe the puzzles; they are generated when they are first asked for, and kept.

        Args:
            size: 4, 6 or 9.
            seed: of the puzzles.
            train_puzzles: how many.
            validation_puzzles: how many.
            test_puzzles: how many.
            min_rating: guesses that a search of the most constrained cell must need; 10 on the 9x9 board by default.
            extra_givens: each puzzle gets 0 to this many givens beyond a minimal puzzle's; by default 0 on the 9x9
                board, 2 on 6x6, 5 on 4x4.
            redig: fraction of the visits of a training puzzle that show a new puzzle with the same solution.
            redig_difficulty: fraction of the original's guesses that the new puzzle should need at least.
        """
        min_rating = (10 if size == 9 else 0) if min_rating is None else min_rating
        extra_givens = {9: 0, 6: 2}.get(size, 5) if extra_givens is None else extra_givens
        check_count("min_rating", min_rating, least=0)
        check_count("extra_givens", extra_givens, least=0)
        if redig and size != 9:
            raise GramError(
                f"redig needs size 9: a {size}x{size} board has so few puzzles that new ones would be test puzzles."
            )
        name = "sudoku-hard" if size == 9 and min_rating >= 10 else f"sudoku-{size}"
        super().__init__(name=name, size=size, seed=seed, redig=redig, redig_difficulty=redig_difficulty)
        self._counts = _checked_counts(train_puzzles, validation_puzzles, test_puzzles)
        self.has_validation = validation_puzzles > 0
        self.min_rating, self.extra_givens = min_rating, extra_givens

    @cached_property
    def _puzzles(self) -> Arrays:
        settings = {
            "size": self.size,
            "puzzles": sum(self._counts.values()),
            "seed": self.seed,
            "min_rating": self.min_rating,
            "extra_givens": self.extra_givens,
        }

        def build() -> Arrays:
            puzzles, solutions = hard_puzzles(**settings)
            return {"puzzles": puzzles, "solutions": solutions}

        return cached_arrays("sudoku-hard-1", settings, build)

    def split(self, name: SplitName) -> Examples:
        """Return a seeded split [rows, length]; no puzzle is a symmetry of another, in this split or the others."""
        rows = _rows_of_split(name, self._counts)
        return examples_of(self._puzzles["puzzles"][rows], self._puzzles["solutions"][rows])


class SudokuGeneration(SudokuBoard):
    """Unconditional generation of boards: the input is always blank, and every valid board is correct.

    All rows share their one input, so the splits are disjoint by board instead.
    """

    scoring = "generation"
    repairs = True

    def __init__(
        self,
        *,
        size: int = 9,
        seed: int = 0,
        train_boards: int = 50_000,
        validation_boards: int = 1000,
        test_boards: int = 1000,
        source: Literal["generator", "extreme"] = "generator",
        augmented: bool = False,
    ) -> None:
        """Describe the boards; they are made when they are first asked for, and kept.

        Args:
            size: 4 (288 boards exist), 6 or 9.
            seed: of the boards.
            train_boards: how many.
            validation_boards: how many.
            test_boards: how many.
            source: random boards, or the answers of Sudoku-Extreme's train.csv as in the paper.
            augmented: show each board in random symmetric versions; the paper does not.
        """
        if source not in ("generator", "extreme"):
            raise GramError(f"source must be generator or extreme, not {source}.")
        if source == "extreme" and size != 9:
            raise GramError(f"The boards of Sudoku-Extreme are 9x9, so size cannot be {size}.")
        name = "sudoku-generation" + ("-extreme" if source == "extreme" else "") + ("" if size == 9 else f"-{size}")
        super().__init__(name=name, size=size, seed=seed)
        self._counts = _checked_counts(train_boards, validation_boards, test_boards)
        self.has_validation = validation_boards > 0
        self.source, self.augments = source, augmented

    @cached_property
    def _boards(self) -> Arrays:
        total = sum(self._counts.values())
        settings = {"size": self.size, "boards": total, "seed": self.seed, "source": self.source}
        if self.source == "generator":
            return cached_arrays(
                "sudoku-boards-1", settings, lambda: {"boards": distinct_boards(self.size, total, self.seed)}
            )
        path = extreme_file(*TRAIN_FILES)
        return cached_arrays(
            "sudoku-boards-1", settings | {"file": file_hash(path)}, lambda: self._answers(path, total)
        )

    def _answers(self, path: Path, total: int) -> Arrays:
        """Return distinct answers of the file; puzzles may share one, so a few more are read than needed."""
        lines = np.random.default_rng(self.seed).permutation(rows_of(path))
        boards = distinct_puzzles(path, lines[: total + total // 10]).solutions
        _, first = np.unique(boards, axis=0, return_index=True)
        if len(first) < total:
            raise GramError(f"{path} has only {len(first)} different answers where {total} boards are asked for.")
        return {"boards": boards[np.sort(first)[:total]]}

    def split(self, name: SplitName) -> Examples:
        """Return a seeded split: blank inputs and complete boards [rows, length], all of one group."""
        rows = _rows_of_split(name, self._counts)
        boards = self._boards["boards"][rows].astype(np.int64)
        return Examples(np.full_like(boards, BLANK), boards + 1, np.zeros(len(boards), dtype=np.int64))

    def augment(self, inputs: Tokens, targets: Tokens, generator: np.random.Generator) -> tuple[Tokens, Tokens]:
        """Transform each row [rows, length] by a random symmetry if the task was built so; otherwise change nothing."""
        return super().augment(inputs, targets, generator) if self.augments else (inputs, targets)

    def solutions(self, tokens: Tokens) -> None:
        """Every valid board is a solution: there are too many to list."""
        return None

    def repair(self, inputs: Tokens, outputs: Tokens, seeds: Tokens) -> Tokens:
        """Return a valid board near each of outputs [rows, length]: what fits together stays."""
        digits = np.where(self._has_digit(outputs), outputs - 1, 0)
        return repair(digits, seeds).astype(np.int64) + 1

    def parse(self, text: str) -> Tokens:
        """Accept a blank board or an empty text: nothing is given here."""
        if set(text) - set(".0/ \t\r\n"):
            raise GramError(f"{self.name} starts from a blank board: leave the text empty.")
        return np.full(self.length, BLANK, dtype=np.int64)


def _checked_counts(train: int, validation: int, test: int) -> dict[str, int]:
    check_count("the number of training rows", train, least=1)
    check_count("the number of validation rows", validation, least=0)
    check_count("the number of test rows", test, least=0)
    return {"train": train, "validation": validation, "test": test}


def _rows_of_split(name: str, counts: dict[str, int]) -> slice:
    """Return where a split stands when the splits follow one another."""
    check_split(name)
    start = sum(counts[earlier] for earlier in SPLITS[: SPLITS.index(name)])
    return slice(start, start + counts[name])
