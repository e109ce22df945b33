"""The solver: answers that agree with themselves, verified only when they are right, and errors that say what to do."""

import io
import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from rich.console import Console

import gram
from gram import solver as solver_module
from gram.checkpoints import find
from gram.checkpoints.find import find_model, shipped_models
from gram.checkpoints.folder import save_model
from gram.cli.report import answers_as_json, show_answers, show_boards
from gram.config import Recipe, SampleOptions
from gram.errors import GramError
from gram.inference.sample import Trajectories
from gram.inference.select import RULES
from gram.models.reasoner import Reasoner
from gram.solver import Solver
from gram.tasks.base import Tokens
from gram.tasks.images import Digits
from gram.tasks.nqueens import NQueens

EMPTY_BOARD = "...../...../...../...../....."
ONE_QUEEN = "Q..../...../...../...../....."


@pytest.fixture(scope="module")
def recipe(queens_recipe: Callable[..., Recipe]) -> Recipe:
    return queens_recipe()


@pytest.fixture(scope="module")
def solver(queens: NQueens, recipe: Recipe) -> Solver:
    return Solver(Reasoner(recipe.model, vocab_size=3, length=25).eval(), queens, recipe)


def pretend(monkeypatch: pytest.MonkeyPatch, outputs: Tokens, values: np.ndarray) -> None:
    """Let the model answer with these outputs [width, length]."""
    steps = np.full(len(outputs), 2)
    found = Trajectories(outputs[None], values[None].astype(np.float32), values[None].astype(np.float32), steps[None])
    monkeypatch.setattr(solver_module, "sample", lambda *_, **__: found)


# --- results ----------------------------------------------------------------------------------------------------------


BOARDS = st.lists(
    st.tuples(st.integers(0, 9), st.sampled_from([-1, -1, 0, 7, 24]), st.sampled_from([0.2, 0.8])),
    min_size=1,
    max_size=8,
)
"""Trajectories: which solution of the empty board, which cell of it is damaged (-1: none), and its value."""


def test_nothing_is_verified_where_nothing_was_checked(tiny_model: Callable[..., Reasoner]) -> None:
    task = Digits()
    model = tiny_model(vocab_size=task.vocab_size, length=task.length)
    result = Solver(model, task, Recipe()).solve("", width=3, depth=1)
    assert not result.verified
    assert not result.valid.any()
    assert len(result.distinct) == 0
    assert str(result).startswith("answer, not checked")
    said = Console(file=io.StringIO(), width=200)
    show_answers(said, result, 4)
    assert "none verified: this task has no checker" in said.file.getvalue()  # type: ignore[attr-defined]
    assert "valid" not in said.file.getvalue().replace("verified", "")  # type: ignore[attr-defined]
    assert (answers_as_json(result)["verified"], answers_as_json(result)["has_checker"]) == (False, False)


@settings(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(boards=BOARDS, rule=st.sampled_from(RULES), puzzle=st.sampled_from([EMPTY_BOARD, ONE_QUEEN]))
def test_a_result_agrees_with_itself_and_verifies_only_solutions(
    solver: Solver, boards: list[tuple[int, int, float]], rule: str, puzzle: str
) -> None:
    task = solver.task
    every = task.solutions(task.parse(EMPTY_BOARD))
    outputs = np.stack([every[number] for number, _, _ in boards])
    for row, (_, cell, _) in zip(outputs, boards, strict=True):
        if cell >= 0:
            row[cell] = 3 - row[cell]  # a queen goes, or one too many comes
    values = np.array([value for _, _, value in boards])
    with pytest.MonkeyPatch.context() as patch:
        pretend(patch, outputs, values)
        result = solver.solve(puzzle, rule=rule)

    allowed = {board.tobytes() for board in task.solutions(task.parse(puzzle))}
    valid = [row.tobytes() in allowed for row in outputs]
    assert result.valid.tolist() == valid
    assert result.verified == any(valid) or rule != "verified"
    assert (result.best.tobytes() in allowed) == result.verified
    assert {row.tobytes() for row in result.distinct} == {row.tobytes() for row in outputs} & allowed
    assert len({row.tobytes() for row in result.distinct}) == len(result.distinct)
    assert int(result.counts.sum()) == sum(valid)
    assert result.counts.tolist() == sorted(result.counts.tolist(), reverse=True)
    for row, count in zip(result.distinct, result.counts, strict=True):
        assert count == sum(output.tobytes() == row.tobytes() for output in outputs)
    if rule == "first":
        assert np.array_equal(result.best, outputs[0])
    if rule in ("value", "halt"):
        assert np.array_equal(result.best, outputs[int(values.argmax())])
    if rule == "verified" and any(valid):
        best = [
            int(count) for row, count in zip(result.distinct, result.counts, strict=True) if (row == result.best).all()
        ]
        assert best == [int(result.counts[0])]
    assert f"{len(boards)} trajectories ({sum(valid)} verified)" in result.chosen_by
    assert ("the task's checker" in result.chosen_by) == (rule == "verified" and any(valid))
    assert result.estimate.seen == len(result.distinct)
    assert ("NOT a solution" in str(result)) != result.verified

    as_json = answers_as_json(result)
    assert as_json["verified"] == result.verified
    assert as_json["solutions"] == result.distinct.tolist()
    assert as_json["valid_trajectories"] == sum(valid)


def test_a_random_model_gives_a_complete_result(solver: Solver) -> None:
    result = solver.solve(ONE_QUEEN, width=4, depth=3, seed=2, keep_steps=True)
    assert result.options == SampleOptions(width=4, depth=3, seed=2, keep_steps=True)
    assert result.trajectories.outputs.shape == (1, 4, 25)
    assert result.trajectories.step_outputs.shape == (1, 4, 3, 25)
    assert result.best.shape == result.given.shape == (25,)
    assert any(np.array_equal(result.best, output) for output in result.trajectories.outputs[0])
    again = solver.solve(result.given, width=4, depth=3, seed=2)
    assert np.array_equal(again.best, result.best)


def test_options_come_from_the_recipe_unless_given(solver: Solver, recipe: Recipe) -> None:
    assert solver.solve(ONE_QUEEN).options == SampleOptions(width=recipe.eval.width, depth=recipe.eval.depth)
    assert solver.with_options(width=7).width == 7
    assert solver.with_options(width=7).depth == recipe.eval.depth
    assert solver.options.width == recipe.eval.width  # unchanged


def test_tokens_and_text_are_the_same_puzzle(solver: Solver) -> None:
    tokens = solver.task.parse(ONE_QUEEN)
    results = [solver.solve(puzzle) for puzzle in (ONE_QUEEN, tokens, tokens.tolist())]
    for result in results[1:]:
        assert np.array_equal(result.trajectories.outputs, results[0].trajectories.outputs)


def test_boards_side_by_side() -> None:
    console = Console(width=20, file=io.StringIO())
    show_boards(console, [("a", "1 [2]\n3 4"), ("title", "5"), ("next row", "6")])
    lines = [line.rstrip() for line in console.file.getvalue().splitlines()]
    assert lines == ["a           title", "1 [2]       5", "3 4", "", "next row", "6", ""]


# --- errors -----------------------------------------------------------------------------------------------------------


def test_an_unknown_option_is_named_and_the_known_ones_listed(solver: Solver) -> None:
    with pytest.raises(GramError, match=r"'widht'.*width.*depth.*temperature"):
        solver.solve(ONE_QUEEN, widht=3)
    with pytest.raises(GramError, match="width must be greater than or equal to 1"):
        solver.solve(ONE_QUEEN, width=0)


@pytest.mark.parametrize("puzzle", [np.ones(24, dtype=np.int64), np.ones((5, 5), dtype=np.int64), []])
def test_tokens_of_the_wrong_shape(solver: Solver, puzzle: Tokens) -> None:
    with pytest.raises(GramError, match="25 tokens"):
        solver.solve(puzzle)


@pytest.mark.parametrize("token", [-1, 3])
def test_tokens_outside_the_vocabulary(solver: Solver, token: int) -> None:
    with pytest.raises(GramError, match=r"0\.\.2"):
        solver.solve([token] + [1] * 24)


@pytest.mark.parametrize("puzzle", [[1.7] * 25, [[1], [1, 2]]], ids=["fractions", "ragged"])
def test_tokens_that_are_not_integers(solver: Solver, puzzle: list[object]) -> None:
    with pytest.raises(GramError):
        solver.solve(puzzle)


def test_an_unknown_rule(solver: Solver) -> None:
    with pytest.raises(GramError, match="median"):
        solver.solve(ONE_QUEEN, rule="median")


def test_text_that_is_no_board(solver: Solver) -> None:
    for text in ("", "Q", "QQ.../...../...../...../.....", "Q..x./...../...../...../....."):
        with pytest.raises(GramError):
            solver.solve(text)


# --- finding models ---------------------------------------------------------------------------------------------------


def test_a_saved_folder_gives_the_same_answers(solver: Solver, recipe: Recipe, tmp_path: Path) -> None:
    save_model(tmp_path / "model", solver.model, recipe)
    for name in (tmp_path / "model", str(tmp_path / "model")):
        loaded = gram.load(name)
        assert loaded.task.name == "nqueens-5"
        assert loaded.options == solver.options
        ours, theirs = solver.solve(ONE_QUEEN), loaded.solve(ONE_QUEEN)
        assert np.array_equal(ours.trajectories.outputs, theirs.trajectories.outputs)
        assert np.array_equal(ours.trajectories.values, theirs.trajectories.values)


def test_a_model_of_another_shape_than_its_task(recipe: Recipe, tmp_path: Path) -> None:
    save_model(tmp_path / "model", Reasoner(recipe.model, vocab_size=3, length=16), recipe)
    with pytest.raises(GramError, match="does not fit its task"):
        Solver.from_pretrained(tmp_path / "model")


@pytest.mark.parametrize("name", ["nqueens-99", "./nothing/here", "/nothing/here", "a/b/c", "runs/"])
def test_an_unknown_name_never_asks_the_hub(name: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)  # where there are no runs
    monkeypatch.setattr(find, "_download", lambda _: pytest.fail("asked the hub"))
    with pytest.raises(GramError, match="There is no model"):
        find_model(name)


def test_a_folder_without_a_model(tmp_path: Path) -> None:
    with pytest.raises(GramError, match=r"config\.json is missing"):
        Solver.from_pretrained(tmp_path)


def test_a_hub_id_is_downloaded(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    import huggingface_hub

    asked = []
    published = Path(find_model("nqueens-8"))

    def snapshot(repo_id: str, allow_patterns: list[str]) -> str:
        asked.append(repo_id)
        for file in published.iterdir():
            if any(file.match(pattern) for pattern in allow_patterns):
                shutil.copy(file, tmp_path)
        return str(tmp_path)

    monkeypatch.setattr(huggingface_hub, "snapshot_download", snapshot)
    gram.load("someone/their-model").save_pretrained(tmp_path / "again")
    assert asked == ["someone/their-model"]
    for name in ("config.json", "model.safetensors", "README.md"):  # the card stays with the model
        assert (tmp_path / "again" / name).is_file()
    assert (tmp_path / "again" / "README.md").read_bytes() == (published / "README.md").read_bytes()


def test_a_hub_that_does_not_answer_is_one_clear_error(monkeypatch: pytest.MonkeyPatch) -> None:
    import huggingface_hub
    from huggingface_hub.errors import LocalEntryNotFoundError

    def snapshot(repo_id: str, **_: object) -> str:
        raise LocalEntryNotFoundError("offline")

    monkeypatch.setattr(huggingface_hub, "snapshot_download", snapshot)
    with pytest.raises(GramError, match="'someone/their-model' is not a folder"):
        find_model("someone/their-model")


def test_shipped_models_are_found_by_name() -> None:
    for name, folder in shipped_models().items():
        assert find_model(name) == folder


# --- boards of other sizes --------------------------------------------------------------------------------------------


def test_a_network_without_weights_for_positions_solves_boards_of_other_sizes(
    queens: NQueens, queens_recipe: Callable[..., Recipe], tmp_path: Path
) -> None:
    recipe = queens_recipe(model={"mixing": "constraints", "positions": "none"})
    model = Reasoner(recipe.model, vocab_size=3, length=25, structure=queens.structure).eval()
    save_model(tmp_path / "any", model, recipe)
    larger = gram.load(tmp_path / "any", size=6)
    assert larger.task.length == 36
    assert larger.split_hash is None
    assert larger.solve("/".join(["......"] * 6), width=2).trajectories.outputs.shape == (1, 2, 36)
    for name, part in model.state_dict().items():
        assert larger.model.state_dict()[name].equal(part)


def test_the_shipped_sudoku_network_solves_small_boards() -> None:
    small = gram.load("sudoku-extreme", size=4)
    result = small.solve("1...34..2143.3.1", width=20)
    assert result.verified
    with pytest.raises(GramError, match="4"):
        gram.load("sudoku-extreme", size=5)


def test_other_networks_refuse_another_size(solver: Solver) -> None:
    with pytest.raises(GramError, match="mixing: constraints"):
        solver.resized(6)
