"""The public API: what `import gram` offers, from one's own arrays to an evaluated model."""

import itertools
import shutil
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch

import gram
from tests.pictures import checked_picture

SMALL = ["model.dim=16", "model.supervision_steps=2", "train.steps=3", "train.slots=8", "train.eval_inputs=2"]
BOARD = "Q......./......../......../......../......../......../......../........"


def latin() -> tuple[np.ndarray, np.ndarray]:
    """Latin squares of 3 x 3 with their last row missing: inputs and targets [rows, 3, 3]."""
    lines = itertools.product(itertools.permutations((2, 3, 4)), repeat=3)
    squares = np.array([rows for rows in lines if all(len(set(column)) == 3 for column in zip(*rows, strict=True))])
    inputs = np.concatenate([squares, squares])
    inputs[: len(squares), 2], inputs[len(squares) :, :2] = 1, 1
    return inputs, np.concatenate([squares, squares])


def test_every_public_name_can_be_used() -> None:
    for name in gram.__all__:
        assert getattr(gram, name) is not None
    assert set(gram.__all__) <= set(dir(gram))
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        _ = gram.nothing


def test_importing_gram_is_fast() -> None:
    script = "import sys, gram; sys.exit('torch' in sys.modules or 'numpy' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", script], check=False).returncode == 0


def test_own_arrays_become_a_solver(tmp_path: Path) -> None:
    inputs, targets = latin()
    solver = gram.train(
        inputs=torch.from_numpy(inputs), targets=targets, out=tmp_path / "run", overrides=SMALL, quiet=True
    )
    assert solver.task.shape == (3, 3)
    assert (solver.task.vocab_size, solver.task.length) == (5, 9)
    known = {row.tobytes() for row in inputs.reshape(-1, 9)}
    found = np.concatenate([solver.task.split(part).inputs for part in ("train", "validation", "test")])
    assert {row.tobytes() for row in found} == known
    assert solver.solve(inputs[0].reshape(-1)).best.shape == (9,)
    metrics = gram.evaluate(solver, "test", width=2)
    assert metrics["width"] == 2
    assert gram.evaluate(str(tmp_path / "run"), "test", width=2)["coverage"] == metrics["coverage"]


def test_bad_arrays_are_refused_before_anything_is_written(tmp_path: Path) -> None:
    inputs, targets = latin()
    for given in (
        {"inputs": inputs},
        {"inputs": inputs, "targets": targets[:, :2]},
        {"inputs": inputs.astype(float), "targets": targets},
        {"inputs": [[1, 2], [1]], "targets": targets},
        {"inputs": inputs[0, 0], "targets": targets[0, 0]},
    ):
        with pytest.raises(gram.GramError):
            gram.train(**given, out=tmp_path / "run")  # type: ignore[arg-type]
        assert list(tmp_path.iterdir()) == []


def test_a_recipe_by_name_with_overrides(tmp_path: Path) -> None:
    overrides = ["task.options.size=4", *SMALL, "eval.width=2"]
    solver = gram.train("nqueens-8/gram", out=tmp_path / "run", overrides=overrides, quiet=True)
    assert solver.task.name == "nqueens-4"
    again = gram.train(solver.recipe, out=tmp_path / "again", start=tmp_path / "run", quiet=True)
    assert again.recipe == solver.recipe
    with pytest.raises(gram.GramError, match="already exists"):
        gram.train("nqueens-8/gram", out=tmp_path / "run", quiet=True)


def test_shipped_models_are_listed_with_their_results() -> None:
    models = gram.list_models()
    assert models["nqueens-8"].task == "nqueens-8"
    for name, about in models.items():
        solver = gram.load(name)
        assert about.parameters == solver.model.parameter_count
        assert about.results
        assert repr(solver).startswith(f"Solver({solver.task.name}, {about.parameters:,} parameters, ")


def test_many_puzzles_are_solved_as_one_batch() -> None:
    solver = gram.load("nqueens-8")
    boards = ["." * place + "Q" + "." * (63 - place) for place in range(3)]
    counted = []
    results = solver.solve_many(boards, width=4, progress=counted.append)
    assert sum(counted) == 12
    for board, result in zip(boards, results, strict=True):
        alone = solver.solve(board, width=4)
        assert np.array_equal(result.trajectories.outputs, alone.trajectories.outputs)
        assert np.array_equal(result.best, alone.best)
    assert solver.solve_many([]) == []


def test_a_puzzle_is_text_a_list_an_array_or_a_tensor() -> None:
    solver = gram.load("nqueens-8")
    tokens = solver.task.parse(BOARD)
    for puzzle in (tokens, tokens.tolist(), torch.from_numpy(tokens)):
        assert np.array_equal(solver.solve(puzzle, width=2).given, tokens)


def test_a_result_shows_itself(tmp_path: Path) -> None:
    solver = gram.load("nqueens-8")
    result = solver.solve(BOARD, width=8, keep_steps=True)
    assert "verified" in repr(result)
    assert f"depth {solver.options.depth} x width 8" in repr(result)
    html = result._repr_html_()
    assert "<pre>" in html
    assert "Q" in html
    figure = result.plot(tmp_path / "steps.png")
    assert len(figure.axes) > len(result.distinct)
    checked_picture(tmp_path / "steps.png", least=300)
    titles = [axes.get_title() for axes in solver.solve(BOARD, width=8).plot().axes]
    assert titles[:2] == ["input", "solution 1"]


def test_states_and_outputs_of_every_step_are_arrays() -> None:
    solver = gram.load("nqueens-8")
    result = solver.solve(BOARD, width=3, depth=4, keep_states=True)
    trajectories = result.trajectories
    model = solver.reasoner
    assert trajectories.step_outputs.shape == (1, 3, 4, 64)
    assert trajectories.states.shape == (1, 3, 4, model.tokens, model.config.dim)
    logits = model.decoder.logits(torch.from_numpy(trajectories.states[0, :, -1]))
    assert np.array_equal(logits.argmax(dim=-1).numpy(), trajectories.outputs[0])
    assert solver.solve(BOARD, width=3).trajectories.states is None


def test_every_worker_uses_one_thread_and_the_setting_stays_as_it_was(monkeypatch: pytest.MonkeyPatch) -> None:
    solver = gram.load("nqueens-8")
    seen, real = [], solver.model.roll_out

    def noted(*arguments: object, **options: object) -> object:
        seen.append(torch.get_num_threads())
        return real(*arguments, **options)  # type: ignore[arg-type]

    monkeypatch.setattr(solver.model, "roll_out", noted)
    before = torch.get_num_threads()
    try:
        torch.set_num_threads(2)
        solver.solve(BOARD, width=4, depth=1)
        solver.solve(BOARD, width=80, depth=1)
        assert torch.get_num_threads() == 2
    finally:
        torch.set_num_threads(before)
    assert len(seen) > 2  # the wide one in several groups
    assert set(seen) == {1}


def test_a_model_is_pushed_to_the_hub_as_the_folder_that_load_reads(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from huggingface_hub import HfApi

    pushed = tmp_path / "pushed"

    def create(_: HfApi, repo_id: str, **__: object) -> SimpleNamespace:
        return SimpleNamespace(repo_id=repo_id)

    def upload(_: HfApi, *, repo_id: str, folder_path: Path, **__: object) -> str:
        assert repo_id == "someone/queens"
        shutil.copytree(folder_path, pushed)
        return "url"

    monkeypatch.setattr(HfApi, "create_repo", create)
    monkeypatch.setattr(HfApi, "upload_folder", upload)
    solver = gram.load("nqueens-8")
    solver.push_to_hub("someone/queens")
    again = gram.load(pushed)
    assert np.array_equal(again.solve(BOARD, width=2).best, solver.solve(BOARD, width=2).best)
    assert (pushed / "README.md").read_text() == (solver.folder / "README.md").read_text()  # type: ignore[operator]


def test_a_solver_is_saved_over_its_own_folder(tmp_path: Path) -> None:
    gram.load("nqueens-8").save_pretrained(tmp_path)
    solver = gram.load(tmp_path)
    card = (tmp_path / "README.md").read_text()
    solver.save_pretrained(tmp_path)
    assert (tmp_path / "README.md").read_text() == card
