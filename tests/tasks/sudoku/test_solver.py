"""The solver finds exactly the solutions that brute force finds; the generator and the symmetries keep their word."""

import os
import time
from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gram.errors import GramError
from gram.tasks.sudoku.files import Puzzles, read_puzzles, rows_of, user_file
from gram.tasks.sudoku.generated import SudokuHard
from gram.tasks.sudoku.generator import distinct_boards, hard_puzzles, harden, minimal_puzzles, random_boards
from gram.tasks.sudoku.solver import Digits, geometry, list_solutions, solve
from gram.tasks.sudoku.symmetry import canonical_puzzles, fingerprints, random_symmetries, symmetric_pairs
from tests.tasks.sudoku.helpers import inverse

SIZES = [4, 6, 9]
SEVENTEEN = "................12..3.45...............1.6.7..45...3......3...4...2.....61.8....."
ITS_ANSWER = "598612743476398512123745896761483259239156478845927361987531624354269187612874935"


def digits(text: str) -> Digits:
    return np.array([0 if cell == "." else int(cell) for cell in text], dtype=np.int8)


def is_valid(size: int, board: list[int]) -> bool:
    """Naive check, sharing no code with the task."""
    high, wide = {4: (2, 2), 6: (2, 3), 9: (3, 3)}[size]
    rows = [board[start : start + size] for start in range(0, size * size, size)]
    columns = [list(column) for column in zip(*rows, strict=True)]
    boxes = [
        [rows[top + i][left + j] for i in range(high) for j in range(wide)]
        for top, left in product(range(0, size, high), range(0, size, wide))
    ]
    return all(sorted(unit) == list(range(1, size + 1)) for unit in rows + columns + boxes)


def brute_force(board: list[int]) -> set[tuple[int, ...]]:
    """All solutions of a 4x4 board, from every choice of four permutations as rows."""
    orders = [order for order in product(range(1, 5), repeat=4) if len(set(order)) == 4]
    rows = [
        [o for o in orders if all(g in (0, d) for g, d in zip(board[4 * r : 4 * r + 4], o, strict=True))]
        for r in range(4)
    ]
    return {sum(choice, ()) for choice in product(*rows) if is_valid(4, list(sum(choice, ())))}


@settings(max_examples=60)
@given(st.integers(0, 287), st.sets(st.integers(0, 15), max_size=12), st.integers(0, 15), st.integers(0, 4))
def test_the_solver_agrees_with_brute_force(board: int, blanks: set[int], cell: int, digit: int) -> None:
    puzzle = list_solutions(np.zeros(16), limit=300)[board].copy()
    puzzle[list(blanks)] = 0
    puzzle[cell] = digit  # often a contradiction
    if (puzzle == 0).sum() > 12:
        puzzle[:4] = [1, 2, 3, 4]
    expected = brute_force(puzzle.tolist())
    assert {tuple(solution.tolist()) for solution in list_solutions(puzzle, limit=300)} == expected
    solved = solve(puzzle[None], limit=300)
    assert solved.counts[0] == len(expected)
    assert tuple(solved.first[0].tolist()) in (expected or {(0,) * 16})


def test_all_small_boards_are_counted() -> None:
    assert solve(np.zeros((1, 16)), limit=1000).counts[0] == 288
    assert solve(np.zeros((1, 16)), limit=100).counts[0] == 100
    first_row_and_column = np.zeros((6, 6), dtype=np.int8)
    first_row_and_column[0] = range(1, 7)
    assert solve(first_row_and_column.reshape(1, 36), limit=100_000).counts[0] == 28_200_960 // 720


def test_a_known_puzzle_is_solved_and_rated() -> None:
    solved = solve(np.array([digits(SEVENTEEN), digits(ITS_ANSWER)]))
    assert solved.counts.tolist() == [1, 1]
    assert np.array_equal(solved.first, [digits(ITS_ANSWER)] * 2)
    assert solved.guesses[0] > 0
    assert solved.guesses[1] == 0


def test_contradictions_have_no_solution() -> None:
    twice = np.zeros(81, dtype=np.int8)
    twice[[0, 8]] = 5
    no_room = np.zeros(81, dtype=np.int8)
    no_room[:8], no_room[17] = range(1, 9), 9  # the last cell of the first row has no digit left
    solved = solve(np.array([twice, no_room]))
    assert solved.counts.tolist() == [0, 0]
    assert not solved.first.any()


def test_other_sizes_are_refused() -> None:
    with pytest.raises(GramError, match="must be 4, 6 or 9, not 5"):
        geometry(5)


@pytest.mark.parametrize("size", SIZES)
def test_boards_are_valid_and_follow_the_seed(size: int) -> None:
    boards = random_boards(size, 200, np.random.default_rng(1))
    assert all(is_valid(size, board) for board in boards.tolist())
    assert np.array_equal(boards, random_boards(size, 200, np.random.default_rng(1)))
    assert len(np.unique(boards, axis=0)) > 130
    assert all(len(np.unique(boards[:, cell])) == size for cell in range(size * size))


def test_all_small_boards_are_generated_and_no_more() -> None:
    boards = distinct_boards(4, 288, seed=0)
    assert len(np.unique(boards, axis=0)) == 288
    with pytest.raises(GramError, match="Only 288 different 4x4 boards"):
        distinct_boards(4, 289, seed=0)


@pytest.mark.parametrize("size", SIZES)
def test_minimal_puzzles_have_one_solution_and_can_spare_no_given(size: int) -> None:
    generator = np.random.default_rng(2)
    solutions = random_boards(size, 5, generator)
    puzzles = minimal_puzzles(solutions, generator)
    solved = solve(puzzles)
    assert (solved.counts == 1).all()
    assert np.array_equal(solved.first, solutions)
    for puzzle in puzzles:
        spared = np.repeat(puzzle[None], (puzzle > 0).sum(), axis=0)
        spared[np.arange(len(spared)), np.flatnonzero(puzzle)] = 0
        assert (solve(spared).counts == 2).all()


def test_hardening_raises_the_rating_and_keeps_the_solution() -> None:
    generator = np.random.default_rng(3)
    solutions = random_boards(9, 40, generator)
    puzzles = minimal_puzzles(solutions, generator)
    before = solve(puzzles).guesses
    harder, ratings = harden(puzzles, solutions, 3, generator)
    solved = solve(harder)
    assert np.array_equal(solved.guesses, ratings)
    assert (ratings >= before).all()
    assert ratings.sum() > before.sum()
    assert (solved.counts == 1).all()
    assert np.array_equal(solved.first, solutions)


@pytest.mark.parametrize(("size", "rating", "extra"), [(4, 0, 5), (6, 1, 0), (9, 3, 0)])
def test_generated_puzzles_are_hard_unique_and_different(size: int, rating: int, extra: int) -> None:
    puzzles, solutions = hard_puzzles(size, 15, seed=4, min_rating=rating, extra_givens=extra)
    solved = solve(puzzles)
    assert (solved.counts == 1).all()
    assert (solved.guesses >= rating).all()
    assert np.array_equal(solved.first, solutions)
    assert len(np.unique(canonical_puzzles(puzzles, solutions), axis=0)) == 15
    again, _ = hard_puzzles(size, 15, seed=4, min_rating=rating, extra_givens=extra)
    assert np.array_equal(puzzles, again)


def test_there_are_36_minimal_4x4_puzzles() -> None:
    # The known number of essentially different ones: a canonical form that joins or splits classes would miss it.
    assert len(hard_puzzles(4, 36, seed=0)[0]) == 36
    with pytest.raises(GramError, match="Only 36 of 37 4x4 puzzles"):
        hard_puzzles(4, 37, seed=0)


@settings(max_examples=25)
@given(st.sampled_from(SIZES), st.integers(0, 2**32))
def test_symmetries_keep_validity_invert_and_share_one_canonical_form(size: int, seed: int) -> None:
    generator = np.random.default_rng(seed)
    solutions = random_boards(size, 3, generator)
    puzzles = minimal_puzzles(solutions, generator)
    symmetries = random_symmetries(size, 3, generator)
    moved, moved_solutions = (symmetries.apply(some.astype(np.int64) + 1) - 1 for some in (puzzles, solutions))
    assert np.array_equal(inverse(symmetries).apply(moved + 1) - 1, puzzles)
    assert all(is_valid(size, board) for board in moved_solutions.tolist())
    assert np.array_equal(solve(moved).first, moved_solutions)
    assert (solve(moved).counts == 1).all()
    assert np.array_equal(fingerprints(puzzles, solutions), fingerprints(moved, moved_solutions))
    forms = canonical_puzzles(puzzles, solutions)
    assert np.array_equal(forms, canonical_puzzles(moved, moved_solutions))
    assert np.array_equal(forms, canonical_puzzles(forms, solve(forms).first))


def test_symmetric_pairs_are_found_and_others_are_not() -> None:
    generator = np.random.default_rng(5)
    solutions = random_boards(9, 40, generator)
    puzzles = minimal_puzzles(solutions, generator)
    symmetries = random_symmetries(9, 10, generator)
    moved, moved_solutions = (symmetries.apply(some[25:35].astype(np.int64) + 1) - 1 for some in (puzzles, solutions))
    pairs = symmetric_pairs(puzzles[:30], solutions[:30], moved, moved_solutions)
    assert pairs == [(row, 25 + row) for row in range(5)]
    # complete boards, which all have the same givens
    assert symmetric_pairs(solutions[:30], solutions[:30], moved_solutions, moved_solutions) == pairs
    assert len(np.unique(fingerprints(solutions, solutions), axis=0)) > 35
    # the same solution and pattern, one given moved elsewhere: no symmetry
    other = minimal_puzzles(solutions[:30], generator)
    assert symmetric_pairs(puzzles[:30], solutions[:30], other, solutions[:30]) == []
    assert symmetric_pairs(puzzles[:0], solutions[:0], moved, moved_solutions) == []


@pytest.mark.slow
def test_the_solver_is_fast() -> None:
    generator = np.random.default_rng(6)
    easy = minimal_puzzles(random_boards(9, 4000, generator), generator)
    solve(easy[:1])
    start = time.process_time()  # of all threads
    solve(easy)
    rate = len(easy) / (time.process_time() - start)
    print(f"\n{rate:.0f} minimal puzzles a second and core")
    assert rate > 20_000


@pytest.mark.slow
@pytest.mark.timeout(3600)
@pytest.mark.skipif(not os.environ.get("GRAM_DATA"), reason="GRAM_DATA is not set")
def test_all_real_puzzles_load_solve_and_verify() -> None:
    loaded: list[Puzzles] = []
    for name, rows in (("sudoku/sudoku_extreme_1k_train.csv", 1000), ("sudoku/hard.csv.gz", 100_000)):
        path = user_file(name)
        wall, cpu = time.time(), time.process_time()
        found = read_puzzles(path, rows_of(path))  # checks every answer and that it is the only one
        assert len(found.puzzles) == rows
        print(
            f"\n{name}: {rows} rows read and checked, {time.time() - wall:.1f} s, CPU {time.process_time() - cpu:.1f} s"
        )
        cpu = time.process_time()
        solved = solve(found.puzzles)
        rate = rows / (time.process_time() - cpu)
        print(f"  solved at {rate:.0f} a second and core, mean rating {solved.guesses.mean():.1f}")
        assert (solved.counts == 1).all()
        assert np.array_equal(solved.first, found.solutions)
        loaded.append(found)
    few, many = loaded
    cpu = time.process_time()
    assert symmetric_pairs(few.puzzles, few.solutions, many.puzzles, many.solutions) == []
    print(f"no symmetries between the two, CPU {time.process_time() - cpu:.1f} s")


def test_a_board_that_keeps_a_search_busy_is_given_up() -> None:
    # Norvig's: without a solution, and a search does not see why.
    text = ".....5.8....6.1.43..........1.5........1.6...3.......553.....61........4........."
    board = np.array([0 if cell == "." else int(cell) for cell in text])
    with pytest.raises(GramError, match="It takes too long"):
        list_solutions(board, limit=2, guess_limit=1000)
    with pytest.raises(GramError, match="It takes too long"):
        SudokuHard().parse(text)
