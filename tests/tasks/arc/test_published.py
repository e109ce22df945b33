"""ARC-AGI-1 and -2 as a whole: they build in time, every row is a form of its task's pair, and recipes fit them."""

import resource
import time
from pathlib import Path
from typing import get_args

import pytest

from gram.config import load_recipe
from gram.tasks.arc import grids
from gram.tasks.arc.task import ARC
from gram.tasks.base import SplitName

RECIPES = Path(__file__).parents[3] / "gram" / "recipes"
CONCEPT_PAIRS = 427 + 480
"""of ConceptARC, none of them in ARC-AGI-1 or -2"""


@pytest.mark.slow
@pytest.mark.parametrize(("version", "counts"), [(1, (3036, 43, 419)), (2, (4560, 106, 172))])
def test_the_published_data_builds_inverts_and_verifies(version: int, counts: tuple[int, int, int]) -> None:
    started = time.process_time()
    task = ARC(version=version)
    splits = [task.split(name) for name in get_args(SplitName)]
    assert time.process_time() - started < 60
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss < 2e6  # kilobytes
    original = grids.Augmentation(0, tuple(range(grids.COLOURS)))
    originals = [sum(task.ids.augmentation(int(n)) == original for n in e.puzzle_ids) for e in splits]
    assert originals == list(counts)
    pairs = [(puzzle.name, pair) for part in task.parts for puzzle in part for pair in (*puzzle.train, *puzzle.test)]
    known = {(name, pair.input.shape, pair.input.tobytes()) for name, pair in pairs}
    for examples in splits:
        for start in range(0, len(examples), 4096):
            rows = slice(start, start + 4096)
            inputs, targets = examples.inputs[rows], examples.targets[rows]
            assert task.verify(inputs, targets).valid.all()
            for grid, n in zip(grids.corner_grids(inputs), examples.puzzle_ids[rows], strict=True):
                assert grid is not None
                original = task.ids.augmentation(n).invert(grid)
                assert (task.ids.names[n], original.shape, original.tobytes()) in known
    held_out = {grids.pair_key(p): puzzle.name for puzzle in task.parts.evaluation for p in puzzle.test}
    trained = task.data.pairs["train"]
    assert all(held_out.get(grids.pair_key(pair), name) == name for name, pair in trained)


@pytest.mark.slow
@pytest.mark.parametrize("path", ["arc-1/gram", "arc-1/gram-paper", "arc-2/gram", "arc-2/gram-paper"])
def test_recipes_name_the_number_of_puzzles_and_the_papers_length(path: str) -> None:
    recipe = load_recipe(RECIPES / f"{path}.yaml")
    assert recipe.task.name == "arc"
    options = {**recipe.task.options, "concept": None}  # ConceptARC has to be cloned
    task = ARC(**options)
    assert recipe.model.puzzles in (0, task.puzzles)
    if path.endswith("paper"):
        pairs = CONCEPT_PAIRS + len(ARC(**{**options, "augmentations": 0}).split("train"))
        assert recipe.train.steps == pytest.approx(200_000 * pairs / recipe.train.slots, abs=1)
