"""Tables fit 80 columns: nothing is cut."""

import io
from typing import Any

from rich.console import Console

from gram.cli.report import show_result, show_study, show_sweep
from gram.inference.select import RULES

CUT = "…"


def printed(show: Any, *arguments: Any) -> str:
    text = io.StringIO()
    show(Console(file=text, width=80), *arguments)
    assert max(map(len, text.getvalue().splitlines())) <= 80
    assert CUT not in text.getvalue()
    return text.getvalue()


def test_a_sweep_with_long_keys() -> None:
    def number(mean: float, deviation: float | None) -> dict[str, float | None]:
        return {"mean": mean, "deviation": deviation}

    entry = {
        "values": {"objective.beta_final": "0.75", "model.guidance_hidden": "64"},
        "runs": 3,
        "accuracy": number(0.9931, 0.0021),
        "accuracy_all_samples": number(1.0, 0.002),
        "coverage": number(0.93, None),
        "train_minutes": number(117.2, 10.3),
    }
    text = printed(show_sweep, [entry])
    for part in ("beta_final=0.75", "guidance_hidden=64", "99.3±0.2%", "100.0±0.2%", "93.0%", "117.2±10.3"):
        assert part in text


def test_an_evaluation() -> None:
    shares = ("accuracy", "accuracy_all_samples", "coverage", "uniform_coverage", "deterministic_coverage")
    numbers = dict.fromkeys(shares, 1.0)
    result = {
        **numbers,
        "task": "sudoku-generation-9",
        "split": "validation",
        "split_hash": "0123456789ab",
        "scoring": "solutions",
        "inputs": 1000,
        "inputs_in_split": 422_786,
        "headline": "mean over rows",
        "headline_rows": 422_786,
        "conflicts": 1_234_567,
        "width": 20,
        "depth": 16,
        "mean_steps": 16.0,
        "parameters": 12_345_678,
        "all_inputs": {"inputs": 422_786, **numbers},
        "pooled_rows": {"rows": 422_786, **numbers},
        "pooled_inputs": {"inputs": 422_786, **numbers},
        "by_solutions": [{"solutions": 1234, "inputs": 422_786, **numbers}],
    }
    text = printed(show_result, result)
    assert "pooled inputs" in text
    assert "1234 solutions" in text
    assert "1,000 of 422,786 inputs" in text


def test_a_scaling_study() -> None:
    record = {"depth": 64, "width": 50, "coverage": 1.0, **dict.fromkeys(RULES, 1.0)}
    study = {"inputs": 100, "task": "nqueens-8", "split": "test", "split_hash": "0" * 12, "records": [record]}
    assert "verified" in printed(show_study, "runs/nqueens-8-gram", study)
