"""ARC for people: what is typed, printed and drawn, and what is refused."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from gram.errors import GramError
from gram.tasks.arc.grids import LENGTH, to_canvas
from gram.tasks.arc.task import ARC


def pair(asked: list[list[int]], answer: list[list[int]]) -> dict[str, Any]:
    return {"input": asked, "output": answer}


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"version": 3}, "version 1 .* or 2 .*, never both at once, not 3"),
        ({"version": 1, "evaluation": "x.json"}, "a version or files of your own, not both"),
        ({"training": "x.json"}, "needs evaluation tasks"),
        ({"augmentations": -1}, "must be at least 0"),
        ({"seed": -1}, "must not be negative"),
        ({"translated_share": 1.5}, "translated_share must be a number from 0 to 1"),
        ({"validation_share": -0.5}, "validation_share must be at least 0 and below 1"),
    ],
)
def test_wrong_options_are_refused_at_once(options: dict[str, Any], message: str) -> None:
    with pytest.raises(GramError, match=message):
        ARC(**options)


def test_verify_refuses_other_shapes() -> None:
    board = np.zeros((2, LENGTH), dtype=np.int64)
    with pytest.raises(GramError, match=r"\[rows, 900\], not \[2, 81\]"):
        ARC().verify(board, np.zeros((2, 81), dtype=np.int64))
    with pytest.raises(GramError, match="not 1 outputs for 2 inputs"):
        ARC().verify(board, board[:1])


def test_an_unknown_split_is_refused() -> None:
    with pytest.raises(GramError, match="no split 'dev'"):
        ARC().split("dev")  # type: ignore[arg-type]


def test_parse_reads_text_and_files(tmp_path: Path) -> None:
    task = ARC()
    tokens = task.parse(" [[0, 1],\n [2, 3]]")
    assert np.array_equal(tokens, to_canvas(np.array([[0, 1], [2, 3]], dtype=np.uint8)))
    path = tmp_path / "grid.json"
    path.write_text("[[0, 1], [2, 3]]")
    assert np.array_equal(task.parse(str(path)), tokens)
    assert task.render(tokens) == "0 1\n2 3"
    path.write_text("[[0, 1], [2]]")
    with pytest.raises(GramError, match=r"grid\.json: row 2 has 1 cells, but the first row has 2"):
        task.parse(str(path))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[[0, 1", "The grid is not JSON"),
        ("[[0, 11]]", "The grid: row 1 holds 11"),
        ('{"a": 1}', "a grid is a list of rows"),
        ("[1, 2]", "a grid is a list of rows"),
        (str([[0] * 31]), "1 x 31 cells, but at most 30 x 30"),
        ("nowhere.json", "neither a grid in JSON"),
        ("", "neither a grid in JSON"),
    ],
)
def test_parse_says_what_is_wrong(text: str, message: str) -> None:
    with pytest.raises(GramError, match=message):
        ARC().parse(text)


def test_render_finds_the_grid_where_the_input_starts() -> None:
    task = ARC()
    given_tokens = to_canvas(np.array([[4]], dtype=np.uint8), 3, 7).astype(np.int64)
    output = to_canvas(np.array([[1, 2], [3, 4]], dtype=np.uint8), 3, 7).astype(np.int64)
    output[0] = 5  # a stray colour, as in what a model may say where nothing is labelled
    assert task.render(output, given_tokens) == "1 2\n3 4"
    assert task.render(np.zeros(LENGTH, dtype=np.int64)) == "(no grid)"


def test_draw_uses_the_palette_and_marks_wrong_cells(tmp_path: Path) -> None:
    figure_module = pytest.importorskip("matplotlib.figure")
    path = tmp_path / "one.json"
    path.write_text(json.dumps({"train": [pair([[1]], [[2]])], "test": [pair([[3]], [[0, 4], [5, 6]])]}))
    task = ARC(evaluation=path, augmentations=0)
    test = task.split("test")
    given_tokens, output = test.inputs[0], test.targets[0].copy()
    output[0] = 3  # blue where black is right
    axes = figure_module.Figure().subplots()
    task.draw(axes, output, given_tokens)
    mesh, crosses = axes.collections
    colour = mesh.to_rgba(mesh.get_array())[0, 0, :3]
    assert "#{:02x}{:02x}{:02x}".format(*(round(255 * part) for part in colour)) == "#0074d9"
    assert crosses.get_offsets().tolist() == [[0.5, 0.5]]
    axes = figure_module.Figure().subplots()
    task.draw(axes, to_canvas(np.zeros((29, 30), dtype=np.uint8)).astype(np.int64), given_tokens)
    assert axes.get_title().startswith("wrong size")
    axes = figure_module.Figure().subplots()
    task.draw(axes, np.zeros(LENGTH, dtype=np.int64), given_tokens)
    assert axes.get_title() == "no grid"
