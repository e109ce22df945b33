"""ARC's data: which pairs are in which split, the augmentations of every task, and the rows they make."""

import hashlib
from dataclasses import dataclass
from functools import cached_property
from typing import Literal, cast

import numpy as np

from gram.tasks.arc.files import Parts
from gram.tasks.arc.grids import COLOURS, LENGTH, PAD, Bytes, Pair, dihedral, pair_key, to_canvas
from gram.tasks.arc.rows import CanvasRows, Hashes, PuzzleIds, canvas_hash, colour_sums, linear_hash
from gram.tasks.base import IGNORE, SPLITS, Examples, SplitName, Tokens

SIDES: tuple[Literal["left", "right"], ...] = ("left", "right")

NamedPair = tuple[str, Pair]
"""The name of a task, and one of its pairs."""


def split_pairs(parts: Parts, *, validation_share: float, seed: int) -> dict[SplitName, list[NamedPair]]:
    """Each split's pairs before augmentation, in order of the tasks.

    A pair that is, turned or recoloured, a held-out pair of another task is left out: the test pair of ARC-AGI-1's
    training task 40853293, for one, is that of the evaluation task 070dd51e. What a task itself shows stays.
    """
    found = _assigned(parts, validation_share, seed)
    owners: dict[bytes, set[str]] = {}  # of the held-out pairs
    for split in reversed(SPLITS):
        keyed = [(pair_key(pair), name, pair) for name, pair in found[split]]
        found[split] = [(name, pair) for key, name, pair in keyed if not owners.get(key, {name}) - {name}]
        for key, name, _ in keyed:
            owners.setdefault(key, set()).add(name)
    return found


def _assigned(parts: Parts, validation_share: float, seed: int) -> dict[SplitName, list[NamedPair]]:
    part = parts.training or parts.evaluation
    chosen = np.random.default_rng(seed).permutation(len(part))[: round(validation_share * len(part))]
    held_out = {part[number].name for number in chosen}
    found: dict[SplitName, list[NamedPair]] = {name: [] for name in SPLITS}
    for puzzle in parts.training:
        found["train"] += [(puzzle.name, pair) for pair in puzzle.train]
        found["validation" if puzzle.name in held_out else "train"] += [(puzzle.name, pair) for pair in puzzle.test]
    for puzzle in parts.evaluation:
        last = len(puzzle.train) - (puzzle.name in held_out and len(puzzle.train) > 1)
        found["train"] += [(puzzle.name, pair) for pair in puzzle.train[:last]]
        found["validation"] += [(puzzle.name, pair) for pair in puzzle.train[last:]]
        found["test"] += [(puzzle.name, pair) for pair in puzzle.test]
    return found


@dataclass(frozen=True)
class AugmentedData:
    """Pairs and all that follows from them; each part is made when it is first asked for."""

    name: str
    pairs: dict[SplitName, list[NamedPair]]
    augmentations: int
    """of every task beside the original"""
    seed: int

    @cached_property
    def canvases(self) -> tuple[Bytes, Bytes]:
        """Inputs and outputs of all pairs in all 8 positions [pairs, 8, LENGTH], split after split; 0 if unknown."""
        pairs = [pair for name in SPLITS for _, pair in self.pairs[name]]
        inputs, outputs = np.zeros((2, len(pairs), 8, LENGTH), dtype=np.uint8)
        for number, pair in enumerate(pairs):
            for turn in range(8):
                inputs[number, turn] = to_canvas(dihedral(pair.input, turn))
                if pair.output is not None:
                    outputs[number, turn] = to_canvas(dihedral(pair.output, turn))
        return inputs, outputs

    @cached_property
    def sums(self) -> tuple[Hashes, Hashes]:
        """Colour sums of all inputs and outputs in all 8 positions [pairs, 8, COLOURS]."""
        inputs, outputs = self.canvases
        return colour_sums(inputs, side=0), colour_sums(outputs, side=1)

    @cached_property
    def ids(self) -> PuzzleIds:
        """What every puzzle id stands for.

        The ids of the originals come first, in a random order of the tasks, then those of augmentation 1, and so on:
        the first rows of a split are then a fair sample of its tasks.
        """
        owners = np.array([name for split in SPLITS for name, _ in self.pairs[split]])
        names = np.random.default_rng(self.seed).permutation(np.unique(owners))
        drawn = [self._draw(name, np.flatnonzero(owners == name)) for name in names]
        count = [len(turns) for turns, _ in drawn]
        by_round = np.argsort(np.concatenate([np.arange(number) for number in count]), kind="stable")
        turns = np.concatenate([turns for turns, _ in drawn])[by_round]
        colours = np.concatenate([colours for _, colours in drawn])[by_round]
        blank = np.arange(COLOURS, dtype=np.uint8)
        return PuzzleIds(
            f"{self.name} {self._grids_hash()}",
            ("", *np.repeat(names, count)[by_round].tolist()),
            np.r_[np.uint8(0), turns],
            np.concatenate([blank[None], colours]),
        )

    def _grids_hash(self) -> str:
        """Hash the grids: another file may have tasks of the same names, and hashing all rows may take minutes."""
        digest = hashlib.sha256(repr([len(self.pairs[name]) for name in SPLITS]).encode())
        for canvases in self.canvases:
            digest.update(canvases[:, 0].tobytes())
        return digest.hexdigest()[:12]

    def _draw(self, name: str, pairs: Tokens) -> tuple[Bytes, Bytes]:
        """Draw different augmentations of one task, the original first: dihedral [count], colours [count, COLOURS]."""
        number = int.from_bytes(hashlib.sha256(name.encode()).digest()[:8], "little")
        generator = np.random.default_rng([self.seed, number])  # whatever other tasks there are
        tries = 5 * self.augmentations  # as published
        turns = np.concatenate([[0], generator.integers(0, 8, tries)]).astype(np.uint8)
        colours = np.tile(np.arange(COLOURS, dtype=np.uint8), (tries + 1, 1))
        colours[1:, 1:] = generator.permuted(colours[1:, 1:], axis=1)
        # Held-out answers have no say in which augmentations differ.
        inputs, outputs = self.sums
        learned = (pairs < len(self.pairs["train"]))[:, None, None]
        sums = inputs[pairs] + np.where(learned, outputs[pairs], np.uint64(0))  # [pairs, 8, COLOURS]
        hashes = linear_hash(sums[:, turns], colours)  # [pairs, tries + 1]
        # Sorted: an augmentation that only exchanges the task's pairs is none.
        _, first = np.unique(np.sort(hashes, axis=0), axis=1, return_index=True)
        kept = np.sort(first)[: self.augmentations + 1]
        return turns[kept], colours[kept]

    @cached_property
    def rows(self) -> dict[SplitName, tuple[Tokens, Tokens, Tokens]]:
        """Pair, puzzle id and group of every row [rows] of each split, in order of the groups.

        A group is an input together with its puzzle id: another task may ask another question about the same grid.
        """
        names = np.array(self.ids.names)
        order = np.argsort(names, kind="stable")
        same = np.unique(canvas_hash(self.canvases[0][:, 0], side=0), return_inverse=True)[1]
        found: dict[SplitName, tuple[Tokens, Tokens, Tokens]] = {}
        start = 0
        for split, members in self.pairs.items():
            owners = np.array([owner for owner, _ in members], dtype=names.dtype)
            first, last = (np.searchsorted(names, owners, side=side, sorter=order) for side in SIDES)
            pairs = start + np.repeat(np.arange(len(owners)), last - first)
            puzzles = np.concatenate([order[:0], *(order[slice(*span)] for span in zip(first, last, strict=True))])
            rows = np.lexsort((pairs, same[pairs], puzzles))
            pairs, puzzles = pairs[rows], puzzles[rows]
            changes = (np.diff(puzzles, prepend=-1) != 0) | (np.diff(same[pairs], prepend=-1) != 0)
            found[split] = (pairs, puzzles, np.cumsum(changes) - 1)
            start += len(owners)
        return found

    @cached_property
    def splits(self) -> dict[SplitName, Examples]:
        """The rows of each split, as arrays [rows, LENGTH] that expand rows when they are taken."""
        return {name: self._examples(*rows) for name, rows in self.rows.items()}

    def _examples(self, pairs: Tokens, puzzles: Tokens, groups: Tokens) -> Examples:
        inputs, outputs = self.canvases
        return Examples(
            cast(Tokens, CanvasRows(inputs, self.ids, pairs, puzzles, pad=PAD)),
            cast(Tokens, CanvasRows(outputs, self.ids, pairs, puzzles, pad=IGNORE)),
            groups,
            puzzles,
        )

    def answers(self, pairs: Tokens, puzzles: Tokens, *, pad: int) -> Tokens:
        """Return outputs [rows, LENGTH] of pairs [rows] in the form of puzzle ids [rows]."""
        return CanvasRows(self.canvases[1], self.ids, pairs, puzzles, pad=pad)[:]

    @cached_property
    def known(self) -> tuple[Hashes, Tokens, Tokens, Hashes]:
        """All rows with an answer: hash of the input (ascending), pair, puzzle id; and the sorted hashes of both."""
        rows = [self.rows[name][:2] for name in SPLITS]
        pairs, puzzles = (np.concatenate(part) for part in zip(*rows, strict=True))
        answered = np.asarray(self.canvases[1][:, 0].any(axis=1))[pairs]
        pairs, puzzles = pairs[answered], puzzles[answered]
        turns, colours = self.ids.dihedral[puzzles], self.ids.colours[puzzles]
        questions, answers = (linear_hash(sums[pairs, turns], colours) for sums in self.sums)
        order = np.argsort(questions, kind="stable")
        return questions[order], pairs[order], puzzles[order], np.unique(questions + answers)
