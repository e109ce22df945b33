"""Sudoku-Extreme, the paper's benchmark, and the same protocol on files of your own."""

from functools import cached_property
from pathlib import Path

import numpy as np

from gram.errors import GramError
from gram.tasks.base import Examples, SplitName, Tokens, check_count, check_split
from gram.tasks.store import Arrays, cached_arrays, file_hash
from gram.tasks.sudoku.board import SudokuBoard, examples_of
from gram.tasks.sudoku.files import TRAIN_FILES, Puzzles, distinct_puzzles, extreme_file, ratings_of, rows_of, user_file
from gram.tasks.sudoku.neighbours import grow
from gram.tasks.sudoku.symmetry import symmetric_pairs


class SudokuExtreme(SudokuBoard):
    """Sudoku-Extreme: 1,000 training puzzles of the hub's train.csv, tested on test.csv.

    With files of your own it is not that benchmark, and is called `sudoku-file`.
    """

    other_sizes = "sudoku"

    def __init__(
        self,
        *,
        seed: int = 0,
        train_puzzles: int = 1000,
        validation_puzzles: int | None = 1000,
        test_puzzles: int | None = None,
        train_file: str | None = None,
        test_file: str | None = None,
        test_source: str = "",
        validation_file: str | None = None,
        validation_ratings: str | None = None,
        drop_symmetric: bool = False,
        redig: float = 0.0,
        redig_difficulty: float = 0.75,
        neighbours: int = 0,
    ) -> None:
        """Describe the benchmark; its files are looked for or downloaded when the data is first asked for.

        Args:
            seed: of the choice of puzzles.
            train_puzzles: at most this many, from the training file.
            validation_puzzles: from the other rows of the training file, or from the test file if it has no others;
                None takes all. With `validation_file` they all come from that.
            test_puzzles: from the test file; None takes all. With 0 and a `validation_file` no test file is needed.
            train_file: a .csv or .csv.gz file, absolute or below `GRAM_DATA`, instead of the hub's train.csv.
            test_file: the same for test.csv.
            test_source: take only rows of the test file whose source begins so.
            validation_file: puzzles for validation; if it is the test file as well, no row serves both.
            validation_ratings: a .csv or .csv.gz file with one row for each of the validation file's, whose last column
                rates the puzzle. Puzzles are then drawn so that their ratings are distributed like the training
                puzzles' in the last column of the training file.
            drop_symmetric: leave validation and test puzzles out that are symmetries of a training puzzle, and test
                puzzles that are symmetries of a validation puzzle; otherwise they are an error. With `redig` or a
                `validation_file`, a puzzle whose solution is a symmetry of a training puzzle's counts as well.
            redig: fraction of the visits of a training puzzle that show a new puzzle with the same solution.
            redig_difficulty: fraction of the original's guesses that the new puzzle should need at least.
            neighbours: puzzles of new boards, about as hard, that are grown from the training puzzles and added.
        """
        own = train_file is not None or test_file is not None or test_source or validation_file is not None
        own = own or neighbours > 0
        super().__init__(
            name="sudoku-file" if own else "sudoku-extreme",
            size=9,
            seed=seed,
            redig=redig,
            redig_difficulty=redig_difficulty,
        )
        check_count("train_puzzles", train_puzzles, least=1)
        check_count("validation_puzzles", validation_puzzles, least=0, none=True)
        check_count("test_puzzles", test_puzzles, least=0, none=True)
        check_count("neighbours", neighbours, least=0)
        if validation_ratings is not None and (validation_file is None or validation_puzzles is None):
            raise GramError("validation_ratings needs a validation_file and a number of validation_puzzles.")
        self.train_puzzles, self.validation_puzzles, self.test_puzzles = train_puzzles, validation_puzzles, test_puzzles
        self.has_validation = validation_puzzles != 0
        self.train_file, self.test_file, self.test_source = train_file, test_file, test_source
        self.validation_file, self.validation_ratings = validation_file, validation_ratings
        self.drop_symmetric, self.neighbours = drop_symmetric, neighbours

    @cached_property
    def _puzzles(self) -> Arrays:
        files = self._files()
        settings = {
            "files": {name: file_hash(path) for name, path in files.items()},
            "counts": [self.train_puzzles, self.validation_puzzles, self.test_puzzles],
            "source": self.test_source,
            "drop_symmetric": self.drop_symmetric,
            "by_solution": self._by_solution,
            "seed": self.seed,
        }
        if self.neighbours:
            settings["neighbours"] = self.neighbours
        return cached_arrays("sudoku-file-3", settings, lambda: self._build(files))

    def _files(self) -> dict[str, Path]:
        """Return the files that are needed."""
        files = {"train": extreme_file(*TRAIN_FILES) if self.train_file is None else user_file(self.train_file)}
        if self.validation_file is None or self.test_puzzles != 0:
            files["test"] = extreme_file("test.csv") if self.test_file is None else user_file(self.test_file)
        if self.validation_file is not None:
            files["validation"] = user_file(self.validation_file)
        if self.validation_ratings is not None:
            files["ratings"] = user_file(self.validation_ratings)
        return files

    def _build(self, files: dict[str, Path]) -> Arrays:
        """Choose, read and check the puzzles of all three splits."""
        generator = np.random.default_rng(self.seed)
        train_lines = generator.permutation(rows_of(files["train"]))
        train_lines, others = np.split(train_lines, [min(self.train_puzzles, len(train_lines))])
        test_lines = np.zeros(0, dtype=np.int64)
        if "test" in files:
            test_lines = generator.permutation(rows_of(files["test"], self.test_source))
        source, lines = self._validation_lines(files, train_lines, others, test_lines)
        if source == files.get("test"):
            test_lines = test_lines[~np.isin(test_lines, lines)]
        splits = {
            "train": distinct_puzzles(files["train"], train_lines),
            "validation": distinct_puzzles(source, lines),
            "test": distinct_puzzles(files.get("test", source), test_lines[: self.test_puzzles]),
        }
        if self.neighbours:
            known = splits["train"]
            splits["train"] = known.with_more(*grow(known.puzzles, known.solutions, self.neighbours, seed=self.seed))
        self._separate(splits)
        arrays = {f"{name}_puzzles": some.puzzles for name, some in splits.items()}
        return arrays | {f"{name}_solutions": some.solutions for name, some in splits.items()}

    def _validation_lines(
        self, files: dict[str, Path], train: Tokens, others: Tokens, test: Tokens
    ) -> tuple[Path, Tokens]:
        """Choose the file and its lines, given the lines for training, the others of that file, and those for tests."""
        if "validation" in files:
            return files["validation"], self._lines_of_validation_file(files, train)
        if len(others):
            return files["train"], others[: self.validation_puzzles]
        if self.validation_puzzles is None:
            raise GramError(
                f"{files['train']} has no rows left for validation: give validation_puzzles, to come from "
                f"{files['test']}."
            )
        return files["test"], test[: self.validation_puzzles]

    def _lines_of_validation_file(self, files: dict[str, Path], train: Tokens) -> Tokens:
        """Draw lines at random, or with ratings like those of the training lines."""
        generator = np.random.default_rng([self.seed, 1])  # its own: whether there is a test file changes nothing
        lines = generator.permutation(rows_of(files["validation"]))
        if "ratings" not in files or self.validation_puzzles is None:
            return lines[: self.validation_puzzles]
        wanted = quantiles(ratings_of(files["train"], train), self.validation_puzzles)
        return lines[nearest_rows(ratings_of(files["ratings"], lines), wanted)]

    def _separate(self, splits: dict[str, Puzzles]) -> None:
        """Drop puzzles of a later split that are symmetries of one in an earlier split, or raise `GramError`."""
        for earlier, later in (("train", "validation"), ("train", "test"), ("validation", "test")):
            known, others = splits[earlier], splits[later]
            by_solution = self._by_solution and earlier == "train"
            questions = (known.solutions, others.solutions) if by_solution else (known.puzzles, others.puzzles)
            pairs = symmetric_pairs(questions[0], known.solutions, questions[1], others.solutions)
            if pairs and not self.drop_symmetric:
                row, match = pairs[0]
                what = "puzzle's solution" if by_solution else "puzzle"
                raise GramError(
                    f"{others.place(row)}: this {later} {what} is a symmetry of the {earlier} {what} at "
                    f"{known.place(match)} ({len(pairs)} in all); drop_symmetric=true leaves them out."
                )
            splits[later] = others.take(np.setdiff1d(np.arange(len(others.lines)), [row for row, _ in pairs]))

    @property
    def _by_solution(self) -> bool:
        """Whether a training puzzle must not even share its solution: it might be re-dug into the other puzzle.

        Runs with and without `redig` are to have the same rows, if these come from a validation file.
        """
        return self.redig > 0 or self.validation_file is not None

    def split(self, name: SplitName) -> Examples:
        """Return a seeded split [rows, length]; no puzzle is a symmetry of one in another split."""
        check_split(name)
        return examples_of(self._puzzles[f"{name}_puzzles"], self._puzzles[f"{name}_solutions"])


def quantiles(values: Tokens, count: int) -> Tokens:
    """Return `count` values [count], evenly spaced in the distribution of these [rows]."""
    return np.quantile(values, (np.arange(count) + 0.5) / count, method="inverted_cdf").astype(np.int64)


def nearest_rows(ratings: Tokens, wanted: Tokens) -> Tokens:
    """Return a row [wanted] for each wanted rating, none twice: the first of those with the nearest rating."""
    if len(ratings) < len(wanted):
        raise GramError(f"{len(wanted)} validation_puzzles are asked for, but their file has {len(ratings)}.")
    levels = np.unique(ratings)
    rows = [np.flatnonzero(ratings == level).tolist()[::-1] for level in levels]
    chosen = []
    for rating in wanted:
        left = np.flatnonzero([len(some) > 0 for some in rows])
        chosen.append(rows[left[np.argmin(np.abs(levels[left] - rating))]].pop())
    return np.array(chosen, dtype=np.int64)
