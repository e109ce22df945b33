"""Figures: titles that fit, plain ticks, no empty panels, no columns that repeat, several runs in one."""

from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from matplotlib.figure import Figure

from gram.experiments.figures import scaling_figure
from gram.inference.select import RULES
from gram.plots import style
from gram.plots.curves import runs_figure
from gram.plots.gallery import sheet_figure
from gram.plots.style import changing_steps, save_figure, step_titles
from gram.solver import load
from gram.tasks.nqueens import NQueens
from tests.pictures import checked_picture

BOARD = "Q......./......../......../......../......../......../......../........"


@pytest.fixture
def drawn(monkeypatch: pytest.MonkeyPatch) -> list[Figure]:
    """Every figure that was saved."""
    figures: list[Figure] = []

    def noted(figure: Figure, path: Path | None, title: str) -> Figure:
        figures.append(figure)
        return save_figure(figure, path, title)

    for module in ("gram.plots.gallery", "gram.plots.curves", "gram.experiments.figures", "gram.plots.boards"):
        monkeypatch.setattr(f"{module}.save_figure", noted)
    return figures


def title_box(figure: Figure) -> tuple[float, float, float, float]:
    """Left, bottom, right and top of the title, as fractions of the figure."""
    figure.draw_without_rendering()
    assert figure._suptitle is not None
    box = figure._suptitle.get_window_extent().transformed(figure.transFigure.inverted())
    return box.x0, box.y0, box.x1, box.y1


@pytest.mark.parametrize("count", [1, 2, 9, 100])
def test_a_long_title_fits_above_few_and_many_samples(count: int, tmp_path: Path, drawn: list[Figure]) -> None:
    task = NQueens(size=5)
    boards = np.ones((count, task.length), dtype=np.int64)
    title = f"a-model-with-a-long-name: {count} of 100,000 samples, depth 16 x steps 1000, temperature 0.75, seed 123"
    sheet_figure(task, boards, title, tmp_path / "sheet.png")
    left, bottom, right, top = title_box(drawn[0])
    assert left >= 0
    assert right <= 1
    assert top <= 1
    assert bottom >= max(axes.get_position().y1 for axes in drawn[0].axes)  # above the boards
    assert " ".join(drawn[0].get_suptitle().split()) == title


def test_only_steps_that_change_a_board_are_drawn(tmp_path: Path, drawn: list[Figure]) -> None:
    history = np.array([[[0], [1], [1], [2], [2], [2]], [[0], [0], [0], [3], [3], [3]]])
    assert changing_steps(history, 7) == [0, 1, 3]
    assert changing_steps(history, 2) == [0, 3]
    assert step_titles([0, 1, 3], 6) == ["step 1", "step 2", "steps 4 to 6"]
    assert step_titles([0, 5], 6) == ["step 1", "step 6"]
    result = load("nqueens-8").solve(BOARD, width=8, depth=16, keep_steps=True)
    result.plot(tmp_path / "steps.png")
    titles = [axes.get_title() for axes in drawn[0].axes]
    columns = titles.index("input", 1)
    assert titles[columns - 1].endswith("to 16")  # it has settled long before
    history = result.trajectories.step_outputs[0]  # type: ignore[index]
    shown = [int(title.split()[1]) - 1 for title in titles[1:columns]]
    for one, other in pairwise(shown):
        assert (history[:, one] != history[:, other]).any()


def test_a_scaling_figure_has_no_empty_panel_and_plain_ticks(tmp_path: Path, drawn: list[Figure]) -> None:
    records: list[dict[str, Any]] = [
        {"depth": depth, "width": width, "coverage": 0.5, **dict.fromkeys(RULES, 0.6 + depth / 100)}
        for depth in (1, 4, 16)
        for width in (1, 5)
    ]
    metrics = {"coverage": 0.5, "accuracy_all_samples": 0.5}
    line = {"solutions": 1, "uniform_coverage": 1.0, **metrics, "intervals": {key: [0.4, 0.6] for key in metrics}}
    study = {
        "task": "x",
        "inputs": 1,
        "split": "test",
        "seed": 0,
        "records": records,
        "by_width": {1: [line], 5: [line]},
    }
    scaling_figure({"model": study}, tmp_path / "scaling.png")
    figure = drawn[0]
    figure.draw_without_rendering()
    panels = figure.axes
    assert len(panels) == len(RULES) + 3
    assert all(axes.lines and axes.axison for axes in panels)
    ticks = [label.get_text() for label in panels[0].get_xticklabels()]
    assert {"1", "4", "16"} <= set(ticks)
    for axes in panels[: len(RULES)]:  # no point is outside
        low, high = axes.get_ylim()
        assert all(low <= y <= high for line_ in axes.lines for y in line_.get_ydata())


def test_several_runs_share_a_figure(tmp_path: Path, drawn: list[Figure]) -> None:
    lines = [{"step": step, "loss": 1.0, "reconstruction": 0.5 / step, "kl_1": 0.1} for step in (1, 2, 3)]
    lines.append({"step": 3, "validation_coverage": 0.5, "validation_negative_elbo": 2.0})
    runs_figure({"runs/a": lines, "runs/b": lines}, tmp_path / "curves.png")
    labels = [line.get_label() for line in drawn[0].axes[0].lines]
    assert labels == ["a: reconstruction", "a: kl_1", "b: reconstruction", "b: kl_1"]
    colours = {label: line.get_color() for label, line in zip(labels, drawn[0].axes[0].lines, strict=True)}
    assert colours["a: reconstruction"] == colours["a: kl_1"] != colours["b: kl_1"]
    runs_figure({"runs/a": lines}, tmp_path / "one.png")
    assert [line.get_label() for line in drawn[1].axes[0].lines] == ["reconstruction", "kl_1"]
    checked_picture(tmp_path / "one.png", least=300)
    drawn[1].draw_without_rendering()
    assert not any("10^" in label.get_text() for label in drawn[1].axes[0].get_yticklabels())


def test_a_notebook_keeps_its_backend(monkeypatch: pytest.MonkeyPatch) -> None:
    used: list[str] = []
    monkeypatch.setattr(style.matplotlib, "use", used.append)
    monkeypatch.setattr(style.matplotlib, "get_backend", lambda: "module://matplotlib_inline.backend_inline")
    style.without_screen()
    assert used == []
