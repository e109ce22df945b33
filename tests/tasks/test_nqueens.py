"""What the N-Queens task promises: all the data of the paper, disjoint splits, a strict verdict and clear errors."""

from itertools import combinations, permutations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gram.errors import GramError
from gram.tasks.base import SEARCHED, SplitName, Tokens, multimodal_input
from gram.tasks.nqueens import EMPTY, PAD, QUEEN, NQueens, all_solutions

SPLITS: tuple[SplitName, ...] = ("train", "validation", "test")


@pytest.fixture(scope="module")
def task() -> NQueens:
    return NQueens(size=8)


def brute_force_conflicts(size: int, board: list[int], output: list[int]) -> int:
    """Count the broken rules cell by cell, sharing no code with the task."""
    queens = [divmod(cell, size) for cell in range(size * size) if output[cell] == 2]
    attacks = sum(a == c or b == d or abs(a - c) == abs(b - d) for (a, b), (c, d) in combinations(queens, 2))
    lost = sum(before == 2 and after != 2 for before, after in zip(board, output, strict=True))
    return attacks + abs(len(queens) - size) + lost + sum(token not in (1, 2) for token in output)


def brute_force_solutions(size: int, board: Tokens) -> set[bytes]:
    """Try every permutation of columns."""
    found = set()
    for columns in permutations(range(size)):
        output = np.full((size, size), 1, dtype=np.int64)
        output[np.arange(size), list(columns)] = 2
        if brute_force_conflicts(size, board.tolist(), output.ravel().tolist()) == 0:
            found.add(output.tobytes())
    return found


@pytest.mark.parametrize(("size", "count"), [(4, 2), (5, 10), (6, 4), (7, 40), (8, 92), (9, 352), (10, 724)])
def test_all_solutions_are_found(size: int, count: int) -> None:
    solutions = all_solutions(size)
    assert solutions.shape == (count, size)
    assert len(np.unique(solutions, axis=0)) == count
    assert NQueens(size=size).solutions(np.full(size * size, EMPTY)).shape == (count, size * size)


@pytest.mark.parametrize(("size", "pairs", "inputs"), [(8, 8_464, 5_148), (10, 126_700, 43_420)])
def test_the_data_is_the_papers(size: int, pairs: int, inputs: int) -> None:
    splits = [NQueens(size=size).split(name) for name in SPLITS]
    assert sum(len(examples) for examples in splits) == pairs
    groups = [len(np.unique(examples.groups)) for examples in splits]
    assert sum(groups) == inputs
    test = round(0.15 * inputs)
    assert groups[1:] == [round(0.05 * (inputs - test)), test]


def test_pairs_are_distinct_and_no_input_is_in_two_splits(task: NQueens) -> None:
    splits = [task.split(name) for name in SPLITS]
    pairs = {row.tobytes() for e in splits for row in np.concatenate([e.inputs, e.targets], axis=1)}
    assert len(pairs) == 8_464
    inputs = [{row.tobytes() for row in examples.inputs} for examples in splits]
    assert sum(len(some) for some in inputs) == len(set.union(*inputs)) == 5_148


def test_a_group_is_one_input_with_all_its_solutions(task: NQueens) -> None:
    for name in SPLITS:
        examples = task.split(name)
        _, first, rows = np.unique(examples.groups, return_index=True, return_counts=True)
        inputs = examples.inputs[first]
        assert len(np.unique(inputs, axis=0)) == len(inputs)  # two groups never share an input
        assert np.array_equal(np.repeat(inputs, rows, axis=0), examples.inputs)  # nor does a group mix two
        assert np.array_equal(task.solution_counts(inputs), rows)
        assert np.array_equal(examples.distinct()[0], inputs)


@pytest.mark.parametrize("size", [4, 5, 8])
def test_every_target_solves_its_input(size: int) -> None:
    task = NQueens(size=size)
    for name in SPLITS:
        examples = task.split(name)
        assert examples.inputs.dtype == examples.targets.dtype == np.int64
        verdict = task.verify(examples.inputs, examples.targets)
        assert verdict.valid.all()
        assert not verdict.conflicts.any()
        missing = size - (examples.inputs == QUEEN).sum(axis=1)
        assert set(missing) <= {size - 3, size - 2, size - 1}


def test_the_hash_is_stable_and_follows_the_seed(task: NQueens) -> None:
    assert task.split_hash() == NQueens(size=8).split_hash() == "6ad1a0b07aac"  # a change here changes every result
    assert NQueens(size=8, seed=1).split_hash() != task.split_hash()
    assert NQueens(size=8, test_share=0.2).split_hash() != task.split_hash()


def test_removed_chooses_the_inputs() -> None:
    task = NQueens(size=6, removed=(2, 2, 6), validation_share=0, test_share=0)
    train = task.split("train")
    assert len(train) == 4 * 15 + 4  # each number once, though 2 is named twice
    assert len(task.split("validation")) == len(task.split("test")) == 0
    assert set((train.inputs == QUEEN).sum(axis=1)) == {0, 4}
    assert len(task.split_hash()) == 12


def test_limits_keep_whole_groups() -> None:
    few = NQueens(size=8, max_inputs=100)
    splits = [few.split(name) for name in SPLITS]
    assert [len(np.unique(examples.groups)) for examples in splits] == [81, 4, 15]
    assert np.array_equal(
        few.solution_counts(splits[2].distinct()[0]), np.unique(splits[2].groups, return_counts=True)[1]
    )
    small = NQueens(size=8, max_pairs=500)
    assert 400 < sum(len(small.split(name)) for name in SPLITS) <= 500


@st.composite
def judged_boards(draw: st.DrawFn) -> tuple[int, list[int], list[int]]:
    """A size, an input, and an output that is random, a solution, or a solution with a few cells overwritten."""
    size = draw(st.integers(4, 8))
    cells = size * size
    solution = draw(st.sampled_from(all_solutions(size).tolist()))
    output = [QUEEN if solution[cell // size] == cell % size else EMPTY for cell in range(cells)]
    kept = draw(st.sets(st.integers(0, size - 1)))
    board = [token if cell // size in kept else EMPTY for cell, token in enumerate(output)]
    kind = draw(st.sampled_from(["solution", "corrupted", "random"]))
    if kind == "corrupted":
        for cell in draw(st.lists(st.integers(0, cells - 1), min_size=1, max_size=4)):
            output[cell] = draw(st.integers(-1, 3))
    if kind == "random":
        output = draw(st.lists(st.integers(0, 2), min_size=cells, max_size=cells))
    return size, board, output


@settings(max_examples=150, deadline=None)
@given(judged_boards())
def test_verify_agrees_with_brute_force(judged: tuple[int, list[int], list[int]]) -> None:
    size, board, output = judged
    verdict = NQueens(size=size).verify(np.array([board, board]), np.array([output, board]))
    expected = [brute_force_conflicts(size, board, output), brute_force_conflicts(size, board, board)]
    assert verdict.conflicts.tolist() == expected
    assert verdict.valid.tolist() == [count == 0 for count in expected]


def test_a_solution_without_the_given_queens_is_not_valid(task: NQueens) -> None:
    first, second = task.solutions(np.full(64, EMPTY))[[0, -1]]
    verdict = task.verify(first[None], second[None])
    assert not verdict.valid[0]
    assert verdict.conflicts[0] == ((first == QUEEN) & (second != QUEEN)).sum()


def test_verify_refuses_other_shapes(task: NQueens) -> None:
    with pytest.raises(GramError, match=r"\[rows, 64\], not \[2, 16\]"):
        task.verify(np.ones((2, 16), dtype=np.int64), np.ones((2, 64), dtype=np.int64))
    with pytest.raises(GramError, match="not 3 outputs for 2 inputs"):
        task.verify(np.ones((2, 64), dtype=np.int64), np.ones((3, 64), dtype=np.int64))


@pytest.mark.parametrize("size", [4, 5, 6])
def test_solutions_agree_with_brute_force(size: int) -> None:
    task = NQueens(size=size)
    inputs = np.concatenate([task.split("train").distinct(10)[0], np.eye(size * size, dtype=np.int64)[:4] + 1])
    for board, count in zip(inputs, task.solution_counts(inputs), strict=True):
        solutions = task.solutions(board)
        assert {solution.tobytes() for solution in solutions} == brute_force_solutions(size, board)
        assert len(solutions) == count


def test_solutions_contain_every_target_of_the_group(task: NQueens) -> None:
    test = task.split("test")
    for group in np.unique(test.groups)[:50]:
        rows = test.groups == group
        solutions = {solution.tobytes() for solution in task.solutions(test.inputs[rows][0])}
        assert solutions == {target.tobytes() for target in test.targets[rows]}


def test_parse_reads_back_what_render_draws(task: NQueens) -> None:
    for board in task.split("test").distinct(20)[0]:
        text = task.render(board)
        assert np.array_equal(task.parse(text), board)
        assert task.render(board, board) == text


@pytest.mark.parametrize(
    "text",
    [
        ".Q../..../..../....",
        ".q--\n__00\r\n....\n\n....\n",
        " .Q......\t........ ",
        ". Q . . / . . . . / .... / ....  /",
    ],
)
def test_parse_accepts_many_spellings(text: str) -> None:
    expected = [EMPTY] * 16
    expected[1] = QUEEN
    assert NQueens(size=4).parse(text).tolist() == expected


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "The board has 0 cells, but 16 are expected"),
        (".Q.............", "The board has 15 cells, but 16 are expected"),
        ("....\n....\n....", "The board has 3 rows (12 cells), but 4 rows (16 cells) are expected"),
        ("........\n........", "The board has 2 rows (16 cells), but 4 rows (16 cells) are expected"),
        ("..../...../.../....", "Row 2 of the board has 5 cells, but 4 are expected"),
        ("..../..K./..../....", "Unknown character 'K' at row 2, column 3: use Q for a queen, . for an empty cell"),
        ("....  ..1......... ", "Unknown character '1' at row 2, column 3: use Q for a queen, . for an empty cell"),
        ("Q.Q./..../..../....", "The queens at row 1, column 1 and at row 1, column 3 attack each other"),
        (".Q../..../..../.Q..", "The queens at row 1, column 2 and at row 4, column 2 attack each other"),
        (".Q../..../...Q/....", "The queens at row 1, column 2 and at row 3, column 4 attack each other"),
        ("...Q/..../..../Q...", "The queens at row 1, column 4 and at row 4, column 1 attack each other"),
        ("Q.../..../..../....", "No solution exists for this board"),
    ],
)
def test_parse_says_what_is_wrong(text: str, message: str) -> None:
    with pytest.raises(GramError) as error:
        NQueens(size=4).parse(text)
    assert str(error.value).startswith(message)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"size": 3}, "from 4 to 12, not 3"),
        ({"size": 13}, "from 4 to 12, not 13"),
        ({"removed": ()}, "removed must name"),
        ({"removed": (0,)}, "from 1 to 8"),
        ({"removed": (9,)}, "from 1 to 8"),
        ({"test_share": 1.0}, "test_share must be"),
        ({"validation_share": -0.1}, "validation_share must be"),
        ({"max_inputs": 0}, "max_inputs must be"),
        ({"max_pairs": 0}, "max_pairs must be"),
    ],
)
def test_wrong_arguments_are_refused(arguments: dict[str, object], message: str) -> None:
    with pytest.raises(GramError, match=message):
        NQueens(**arguments)  # type: ignore[arg-type]


def test_an_unknown_split_is_refused(task: NQueens) -> None:
    with pytest.raises(GramError, match="no split 'dev'"):
        task.split("dev")  # type: ignore[arg-type]


def test_render_tells_given_placed_attacked_lost_and_illegal_cells_apart() -> None:
    task = NQueens(size=4)
    board = np.full(16, EMPTY)
    board[1] = QUEEN
    assert task.render(task.solutions(board)[0], board) == ". Q . .\n. . . o\no . . .\n. . o ."
    output = np.full(16, EMPTY)
    output[[7, 8, 11]], output[15] = QUEEN, PAD
    assert task.render(output, board) == ". ! . .\n. . . x\nx . . x\n. . . ?"


def test_draw_marks_each_kind_of_cell() -> None:
    figure_module = pytest.importorskip("matplotlib.figure")
    colors = pytest.importorskip("matplotlib.colors")
    axes = figure_module.Figure().subplots()
    task = NQueens(size=4)
    board, output = np.full(16, EMPTY), np.full(16, EMPTY)
    board[1] = QUEEN
    output[[1, 7, 12, 14]] = QUEEN
    task.draw(axes, output, board)
    patches = [(patch.get_path().get_extents(), colors.to_hex(patch.get_facecolor())) for patch in axes.patches]
    centres = [tuple(np.round(extents.get_points().mean(axis=0)).astype(int).tolist()) for extents, _ in patches]
    assert centres == [(1, 0), (3, 1), (0, 3), (2, 3)]  # column, row
    assert all(extents.width < 1 and extents.height < 1 for extents, _ in patches)  # each stays in its square
    assert [colour for _, colour in patches] == ["#000000", "#1f5fbf", "#d62728", "#d62728"]
    assert len(axes.get_xticks()) == len(axes.get_yticks()) == 0


def test_an_input_with_several_solutions_is_the_first_with_enough_or_the_one_with_most() -> None:
    task = NQueens(size=8)
    inputs = task.split("test").distinct(SEARCHED).inputs
    counts = task.solution_counts(inputs)
    assert counts is not None
    most = int(counts.max())
    assert task.solution_counts(multimodal_input(task)[None]) == [most]
    assert np.array_equal(multimodal_input(task, 2), inputs[np.flatnonzero(counts >= 2)[0]])
    assert np.array_equal(multimodal_input(task, most + 1), multimodal_input(task))
