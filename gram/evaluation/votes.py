"""ARC's score: the answers to all augmentations of a test input are inverted and vote; the best two are submitted.

Every function depends on its arguments only, so that outputs of two models can never be mixed by accident. Pairs are
given with the name of their task, as in `ARC.data.pairs`.

    votes = collect(task.ids, asked.puzzle_ids, asked.inputs, trajectories.outputs, trajectories.confidence)
    ranking = rank_all(votes)
    result = score(ranking, task.data.pairs["test"])
    write_submission(Path("submission.json"), ranking, task.data.pairs["test"])
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from gram.errors import GramError
from gram.evaluation.bootstrap import mean_interval
from gram.inference.sample import Trajectories
from gram.tasks.arc.data import NamedPair
from gram.tasks.arc.grids import Grid, corner_grids
from gram.tasks.arc.rows import PuzzleIds
from gram.tasks.base import SPLITS, Distinct, Tokens

if TYPE_CHECKING:
    from gram.tasks.arc.task import ARC

GridKey = tuple[tuple[int, ...], bytes]


class Question(NamedTuple):
    """A test input: its task and its grid, as in the original frame."""

    task: str
    grid: GridKey


class Ballot(NamedTuple):
    """One answer in the original frame; the grid is None if the model's output contained none."""

    grid: Grid | None
    confidence: float


@dataclass(frozen=True)
class Candidate:
    """One distinct answer."""

    grid: Grid
    count: int
    """how many ballots named it"""
    confidence: float
    """their mean halt confidence"""


Ranking = Mapping[Question, Sequence[Candidate]]
"""The candidates of each test input, best first."""


def grid_key(grid: Grid) -> GridKey:
    """Return a dictionary key that is equal for equal grids only."""
    return grid.shape, np.ascontiguousarray(grid, dtype=np.uint8).tobytes()


def question_of(named: NamedPair) -> Question:
    """Return the question of a pair."""
    name, pair = named
    return Question(name, grid_key(pair.input))


def score_votes(
    task: "ARC", asked: Distinct, trajectories: Trajectories, submission_file: Path | None = None
) -> dict[str, Any]:
    """Return all metrics of a model's trajectories for inputs of one split, over the grids that were asked for.

    `pass@k` is the mean over the tasks; `by` has the means over the tasks and over the grids.
    """
    if asked.puzzle_ids is None:
        raise GramError("Answers cannot be inverted without puzzle ids.")
    votes = collect(task.ids, asked.puzzle_ids, asked.inputs, trajectories.outputs, trajectories.confidence)
    pairs = [named for split in SPLITS for named in task.data.pairs[split] if question_of(named) in votes]
    ranking = rank_all(votes)
    if submission_file is not None:
        write_submission(submission_file, ranking, task.data.pairs["test"])
        if all(pair.output is None for _, pair in pairs):  # a real competition: the answers are not known
            return {"grids": 0, "tasks": 0, "by": {}, "mean_steps": float(trajectories.steps.mean())}
    return {**score(ranking, pairs), "mean_steps": float(trajectories.steps.mean())}


def collect(
    ids: PuzzleIds, puzzle_ids: Tokens, inputs: Tokens, outputs: Tokens, confidence: NDArray[np.float32]
) -> dict[Question, list[Ballot]]:
    """Invert the augmentation of all answers and group them by test input.

    puzzle_ids [rows], inputs [rows, length] and outputs [rows, width, length] as in the test split, with the grid in
    the corner of the canvas, and the halt confidence [rows, width] of each output.
    """
    if not len(puzzle_ids) == len(inputs) == len(outputs) == len(confidence):
        counts = [len(part) for part in (puzzle_ids, inputs, outputs, confidence)]
        raise GramError(f"Puzzle ids, inputs, outputs and confidences must have the same number of rows, not {counts}.")
    votes: dict[Question, list[Ballot]] = {}
    for row, (puzzle_id, asked) in enumerate(zip(puzzle_ids.tolist(), corner_grids(inputs), strict=True)):
        augmentation = ids.augmentation(puzzle_id)
        if asked is None:
            raise GramError(f"The input of row {row} has no grid in the corner of its canvas.")
        question = Question(ids.names[puzzle_id], grid_key(augmentation.invert(asked)))
        answers = (None if grid is None else augmentation.invert(grid) for grid in corner_grids(outputs[row]))
        ballots = votes.setdefault(question, [])
        ballots += [Ballot(grid, float(sure)) for grid, sure in zip(answers, confidence[row], strict=True)]
    return votes


def rank(ballots: Sequence[Ballot]) -> list[Candidate]:
    """Return the distinct answers, best first: by number of ballots, then by mean confidence, then by content.

    The last criterion makes the order independent of that of the ballots. A ballot without a grid is not counted.
    """
    members: dict[GridKey, list[Ballot]] = {}
    for ballot in ballots:
        if ballot.grid is not None:
            members.setdefault(grid_key(ballot.grid), []).append(ballot)
    # Sorted before they are added up, for float sums depend on the order.
    means = {key: float(np.mean(sorted(ballot.confidence for ballot in some))) for key, some in members.items()}
    order = sorted(members, key=lambda key: (-len(members[key]), -means[key], key))
    found = [(members[key][0].grid, len(members[key]), means[key]) for key in order]
    return [Candidate(grid, count, mean) for grid, count, mean in found if grid is not None]


def rank_all(votes: Mapping[Question, Sequence[Ballot]]) -> Ranking:
    """Return the candidates of every test input."""
    return {question: rank(ballots) for question, ballots in votes.items()}


def score(ranking: Ranking, pairs: Sequence[NamedPair], ks: Sequence[int] = (1, 2, 10, 100)) -> dict[str, Any]:
    """Return the fraction of test grids whose answer is among the first k candidates, for each k, as `pass@k`.

    `by["grids"]` is the mean over all test grids. `by["tasks"]` is the mean over the tasks, each the mean over its own
    grids, as in the published tables; it is also at the top level, with 95% intervals over the tasks. A grid without
    candidates is wrong; grids whose answer is not published do not count.
    """
    places: dict[str, list[float]] = {}
    for named in pairs:
        if named[1].output is not None:
            places.setdefault(named[0], []).append(_place(ranking.get(question_of(named), ()), named[1].output))
    if not places:
        raise GramError("None of these tasks has a published answer, so they cannot be scored.")
    hits = {f"pass@{k}": [np.array(some) < k for some in places.values()] for k in ks}
    of_tasks = {key: np.array([some.mean() for some in hit]) for key, hit in hits.items()}
    by_tasks = {key: float(means.mean()) for key, means in of_tasks.items()}
    intervals = {key: list(mean_interval(means)) for key, means in of_tasks.items()}
    by_grids = {key: float(np.concatenate(hit).mean()) for key, hit in hits.items()}
    counts = {"grids": sum(map(len, places.values())), "tasks": len(places)}
    return {**counts, **by_tasks, "by": {"grids": by_grids, "tasks": by_tasks}, "intervals": intervals}


def _place(candidates: Sequence[Candidate], answer: Grid) -> float:
    """Return the rank of the answer among the candidates, from 0; infinity if it is not among them."""
    right = (place for place, candidate in enumerate(candidates) if np.array_equal(candidate.grid, answer))
    return next(right, np.inf)


def submission(ranking: Ranking, pairs: Sequence[NamedPair]) -> dict[str, list[dict[str, list[list[int]]]]]:
    """Return two attempts at every test input of every task, in Kaggle's format.

    A single candidate is submitted twice. If there is none, both attempts are one black cell.
    """
    found: dict[str, list[dict[str, list[list[int]]]]] = {}
    for named in pairs:
        found.setdefault(named[0], []).append(_attempts(ranking.get(question_of(named), ())))
    return found


def _attempts(candidates: Sequence[Candidate]) -> dict[str, list[list[int]]]:
    found = [candidate.grid.tolist() for candidate in candidates[:2]] or [[[0]]]
    return {"attempt_1": found[0], "attempt_2": found[-1]}


def write_submission(path: Path, ranking: Ranking, pairs: Sequence[NamedPair]) -> None:
    """Write Kaggle's `submission.json`."""
    path.write_text(json.dumps(submission(ranking, pairs)), encoding="utf-8")
