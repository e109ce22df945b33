"""The vote of ARC, by a hand-computed example and by what must not change it."""

import json
import random
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gram.errors import GramError
from gram.evaluation.votes import (
    Ballot,
    Question,
    collect,
    grid_key,
    rank,
    rank_all,
    score,
    score_votes,
    submission,
    write_submission,
)
from gram.inference.sample import Trajectories
from gram.tasks.arc.grids import Augmentation, Grid, Pair, to_canvas
from gram.tasks.arc.rows import PuzzleIds
from gram.tasks.arc.task import ARC
from gram.tasks.base import SplitName, Tokens

SAME = tuple(range(10))
SWAP_1_2 = (0, 2, 1, 3, 4, 5, 6, 7, 8, 9)


def grid(*rows: list[int]) -> Grid:
    return np.array(rows, dtype=np.uint8)


ASKED, OTHER = grid([1, 0]), grid([0, 1], [1, 1])
RIGHT, NEAR, FAR = grid([1, 2]), grid([1, 3]), grid([5])
PAIRS = [("aa", Pair(ASKED, RIGHT)), ("aa", Pair(OTHER, FAR)), ("bb", Pair(OTHER, NEAR))]
IDS = PuzzleIds(
    "test",
    ("", "aa", "aa", "bb"),
    np.array([0, 0, 1, 6], dtype=np.uint8),
    np.array([SAME, SAME, SWAP_1_2, SAME], dtype=np.uint8),
)


def canvas(cells: Grid) -> Tokens:
    return to_canvas(cells).astype(np.int64)


def test_golden_example_from_tokens_to_score() -> None:
    # Id 2 is a quarter turn with colours 1 and 2 exchanged: [1, 0] becomes 0 over 2, [1, 2] becomes 1 over 2.
    turned_asked, turned_right = grid([0], [2]), grid([1], [2])
    turned_near = grid([3], [2])
    nothing = np.zeros(900, dtype=np.int64)
    puzzle_ids = np.array([1, 2, 1])
    inputs = np.stack([canvas(ASKED), canvas(turned_asked), canvas(OTHER)])
    outputs = np.stack(
        [
            [canvas(NEAR), canvas(RIGHT), nothing],
            [canvas(turned_near), canvas(turned_right), canvas(grid([4], [4]))],
            [canvas(NEAR), canvas(NEAR), canvas(FAR)],
        ]
    )
    confidence = np.array([[0.9, 0.6, 1.0], [0.1, 0.8, 0.99], [0.5, 0.5, 1.0]], dtype=np.float32)
    votes = collect(IDS, puzzle_ids, inputs, outputs, confidence)
    ranking = rank_all(votes)

    first = ranking[Question("aa", grid_key(ASKED))]
    # Both have two votes; RIGHT is surer on average (0.7) than NEAR (0.5); one vote at 0.99 comes last.
    assert [candidate.grid.tolist() for candidate in first] == [[[1, 2]], [[1, 3]], [[4, 4]]]
    assert [candidate.count for candidate in first] == [2, 2, 1]
    assert [candidate.confidence for candidate in first] == pytest.approx([0.7, 0.5, 0.99])
    second = ranking[Question("aa", grid_key(OTHER))]
    assert [(candidate.grid.tolist(), candidate.count) for candidate in second] == [([[1, 3]], 2), ([[5]], 1)]

    # aa: first grid right at once, second at the second attempt; bb has no answer at all.
    tasks = {"pass@1": pytest.approx(0.25), "pass@2": pytest.approx(0.5), "pass@3": pytest.approx(0.5)}
    grids = {"pass@1": pytest.approx(1 / 3), "pass@2": pytest.approx(2 / 3), "pass@3": pytest.approx(2 / 3)}
    expected = {"grids": 3, "tasks": 2, **tasks, "by": {"grids": grids, "tasks": tasks}}
    scores = score(ranking, PAIRS, ks=(1, 2, 3))
    # Of two tasks, aa at 0.5 and bb at 0: their mean lies anywhere between, in a quarter of all draws at either end.
    assert scores.pop("intervals")["pass@1"] == [0.0, 0.5]
    assert scores == expected
    assert submission(ranking, PAIRS) == {
        "aa": [{"attempt_1": [[1, 2]], "attempt_2": [[1, 3]]}, {"attempt_1": [[1, 3]], "attempt_2": [[5]]}],
        "bb": [{"attempt_1": [[0]], "attempt_2": [[0]]}],
    }


def test_the_count_comes_before_the_confidence() -> None:
    ranked = rank([Ballot(NEAR, 0.1), Ballot(RIGHT, 0.99), Ballot(NEAR, 0.2), Ballot(None, 1.0)])
    assert [candidate.grid.tolist() for candidate in ranked] == [[[1, 3]], [[1, 2]]]
    assert rank([Ballot(None, 1.0)]) == rank([]) == []


def test_grids_of_other_shapes_with_the_same_bytes_differ() -> None:
    ranked = rank([Ballot(grid([1, 2]), 0.5), Ballot(grid([1], [2]), 0.6)])
    assert [candidate.count for candidate in ranked] == [1, 1]


@settings(max_examples=100, deadline=None)
@given(
    st.lists(st.tuples(st.sampled_from([RIGHT, NEAR, FAR, None]), st.floats(0, 1, width=32)), max_size=12),
    st.randoms(use_true_random=False),
)
def test_the_order_of_the_ballots_does_not_matter(
    drawn: list[tuple[Grid | None, float]], shuffle: random.Random
) -> None:
    ballots = [Ballot(*ballot) for ballot in drawn]
    mixed = ballots.copy()
    shuffle.shuffle(mixed)
    before, after = rank(ballots), rank(mixed)
    summary = [[(c.grid.tolist(), c.count, c.confidence) for c in ranked] for ranked in (before, after)]
    assert summary[0] == summary[1]
    assert sum(candidate.count for candidate in before) == sum(ballot.grid is not None for ballot in ballots)


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 7), st.permutations(range(1, 10)))
def test_a_right_answer_in_any_frame_is_right(turn: int, colours: list[int]) -> None:
    augmentation = Augmentation(turn, (0, *colours))
    ids = PuzzleIds(
        "test", ("", "aa"), np.array([0, turn], dtype=np.uint8), np.array([SAME, (0, *colours)], dtype=np.uint8)
    )
    asked, answer = (canvas(augmentation.apply(some)) for some in (ASKED, RIGHT))
    votes = collect(ids, np.array([1]), asked[None], answer[None, None], np.ones((1, 1), dtype=np.float32))
    ranking = rank_all(votes)
    assert score(ranking, PAIRS[:2], ks=(1,))["by"]["grids"]["pass@1"] == 0.5


def test_the_file_names_every_task_and_test_input(tmp_path: Path) -> None:
    path = tmp_path / "submission.json"
    write_submission(path, {Question("bb", grid_key(OTHER)): rank([Ballot(FAR, 0.5)])}, PAIRS)
    written = json.loads(path.read_text())
    assert {name: len(attempts) for name, attempts in written.items()} == {"aa": 2, "bb": 1}
    assert written["bb"] == [{"attempt_1": [[5]], "attempt_2": [[5]]}]


def test_what_cannot_be_scored_is_refused() -> None:
    with pytest.raises(GramError, match="cannot be scored"):
        score({}, [("cc", Pair(ASKED, None))])
    empty = np.zeros((1, 900), dtype=np.int64)
    with pytest.raises(GramError, match="row 0 has no grid"):
        collect(IDS, np.array([1]), empty, empty[None], np.ones((1, 1), dtype=np.float32))
    with pytest.raises(GramError, match="same number of rows"):
        collect(IDS, np.array([1, 2]), empty, empty[None], np.ones((1, 1), dtype=np.float32))


@pytest.fixture
def task(tmp_path: Path) -> ARC:
    """Four tasks, each with three demonstrations and two test inputs; half of them have one held out."""
    generator = np.random.default_rng(0)

    def pairs(count: int) -> list[dict[str, list[list[int]]]]:
        cells = generator.integers(0, 10, (count, 2, 3, 4)).tolist()
        return [{"input": asked, "output": answer} for asked, answer in cells]

    path = tmp_path / "tasks.json"
    path.write_text(json.dumps({f"t{n}": {"train": pairs(3), "test": pairs(2)} for n in range(4)}))
    return ARC(evaluation=path, augmentations=6, validation_share=0.5)


def answered(outputs: Tokens) -> Trajectories:
    """Trajectories with these outputs [rows, width, length], all equally sure, after 4 steps."""
    sure = np.full(outputs.shape[:2], 0.5, dtype=np.float32)
    return Trajectories(outputs, sure, sure, np.full(outputs.shape[:2], 4))


@pytest.mark.parametrize(("split", "grids", "tasks"), [("test", 8, 4), ("validation", 2, 2), ("train", 10, 4)])
def test_the_figures_of_a_split(task: ARC, split: SplitName, grids: int, tasks: int) -> None:
    examples = task.split(split)
    asked = examples.distinct()
    right = examples.targets[:][:, None]
    result = score_votes(task, asked, answered(right))
    assert (result["grids"], result["tasks"], result["mean_steps"]) == (grids, tasks, 4)
    assert result["pass@1"] == result["by"]["grids"]["pass@100"] == 1
    # Each wrong answer comes from two trajectories of every row: the right one is second.
    wrong = np.repeat(np.where(right >= 2, 2, right), 2, axis=1)
    result = score_votes(task, asked, answered(np.concatenate([wrong, right], axis=1)))
    assert (result["pass@1"], result["pass@2"]) == (0, 1)
    assert json.loads(json.dumps(result)) == result


def test_only_what_was_asked_counts(task: ARC) -> None:
    test = task.split("test")
    result = score_votes(task, test.distinct(3), answered(test.targets[:3][:, None]))
    assert (result["grids"], result["pass@1"]) == (3, 1)
    with pytest.raises(GramError, match="without puzzle ids"):
        score_votes(task, test.distinct(3)._replace(puzzle_ids=None), answered(test.targets[:3][:, None]))


def test_every_test_input_of_a_task_is_handed_in(task: ARC) -> None:
    written = submission({}, task.data.pairs["test"])
    assert {name: len(attempts) for name, attempts in written.items()} == {f"t{n}": 2 for n in range(4)}
