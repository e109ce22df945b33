"""What the bench says is counted, adds up, and does not grow unnoticed."""

import json
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Any

import pytest
import torch

from gram.cli.app import main
from gram.cli.bench import bench, beside_peak, count_flops, matmul_speed, share_of_peak
from gram.cli.bench_report import LINES
from gram.config import Recipe, load_recipe
from gram.files import look_up
from gram.models.reasoner import Reasoner
from gram.tasks import make_task
from gram.training.launch import make_fabric
from gram.training.step import Trainer
from tests.models.baselines.helpers import KINDS, recipe_of_kind

ROOT = Path(__file__).parents[2]
BASELINE = ROOT / "tests" / "golden" / "flops.json"


def test_flops_of_a_multiply_are_counted() -> None:
    a, b = torch.zeros(3, 5), torch.zeros(5, 7)
    assert count_flops(lambda: a @ b) == 2 * 3 * 5 * 7
    assert matmul_speed(torch.device("cpu"), repeats=1) > 0.1


def test_the_figures_add_up(queens_recipe: Callable[..., Recipe], monkeypatch: pytest.MonkeyPatch) -> None:
    timed: list[dict[str, Any]] = []

    def noted(*arguments: Any) -> dict[str, Any]:
        timed.append(beside_peak(*arguments))
        return timed[-1]

    monkeypatch.setattr("gram.cli.bench.beside_peak", noted)
    result = bench(queens_recipe(), steps=4, puzzles=2)
    for key, _ in LINES.values():
        assert look_up(result, key) > 0
    assert sum(result["time_shares"].values()) == pytest.approx(1, abs=0.1)
    assert all(share >= 0 for share in result["time_shares"].values())
    rate = result["gflop_per_step"] * result["steps_per_second"]
    assert rate == pytest.approx(result["gflop_per_second"])
    for part, moments in zip((result, result["inference"]), timed, strict=True):
        peaks, fastest = moments["peaks"], min(moments["seconds"])
        rates = [part["gflop_per_second"] * fastest / seconds for seconds in moments["seconds"]]
        share = median(rate / peak for rate, peak in zip(rates, peaks, strict=True))
        assert part["share_of_peak"] == pytest.approx(share)
    assert result["matmul_peak_gflop_per_second"] == max(timed[0]["peaks"])


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_of_model_is_measured(queens_recipe: Callable[..., Recipe], kind: str) -> None:
    recipe = recipe_of_kind(queens_recipe, kind)
    result = bench(recipe, steps=2, puzzles=3)
    for key, _ in LINES.values():
        assert look_up(result, key) > 0
    steps = {"ar": 25, "mdlm": 8, "d3pm": 6, "absorbing d3pm": 6, "vae": 1}
    # Digits are unconditional: three samples are drawn, and not as many as an evaluation draws.
    width = 3 if kind == "vae" else recipe.eval.width
    assert (result["inference"]["depth"], result["inference"]["width"]) == (steps[kind], width)


def test_operations_of_rows_that_are_sampled_side_by_side_are_counted(
    queens_recipe: Callable[..., Recipe], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Reasoner, "groups", lambda self, rows: [range(rows // 2), range(rows // 2, rows)])
    before = torch.get_num_threads()
    try:
        assert bench(queens_recipe(train={"threads": 2}), steps=1, puzzles=2)["inference"]["share_of_peak"] > 0
    finally:
        torch.set_num_threads(before)


def test_the_share_of_the_peak_is_the_median_of_moments() -> None:
    timed = {"seconds": [1.0, 2.0, 4.0], "peaks": [10.0, 10.0, 1.0]}
    assert share_of_peak(int(5e9), timed) == pytest.approx(0.5)


@pytest.mark.parametrize("name", json.loads(BASELINE.read_text()))
def test_a_step_needs_no_more_operations_than_it_did(name: str) -> None:
    """After a change that is meant to cost more, write the new number into tests/golden/flops.json."""
    recipe = load_recipe(ROOT / "gram" / "recipes" / name)
    task = make_task(recipe.task.name, **recipe.task.options)
    trainer = Trainer(recipe, task, task.split("train"), make_fabric("cpu", "32-true"))
    assert count_flops(trainer.step) <= json.loads(BASELINE.read_text())[name]


def test_two_results_are_compared(
    queens_file: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    before = tmp_path / "before.json"
    for line, code in (
        (["bench", queens_file, "--steps", "2", "--puzzles", "2", "--json", before], 0),
        (["bench", "--compare", before, before], 0),
        (["bench", queens_file, before], 1),
        (["bench", "--compare", queens_file.with_suffix(".json"), before], 1),
    ):
        monkeypatch.setattr("sys.argv", ["gram", *map(str, line)])
        with pytest.raises(SystemExit) as done:
            main()
        assert done.value.code == code
    out = capsys.readouterr().out
    assert "fraction of the peak" in out
    assert "1.00" in out
