"""The rule that picks depth and temperature, and the figures it is given."""

import io
from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rich.console import Console

from gram.config import Recipe
from gram.errors import GramError
from gram.evaluation.evaluate import evaluate
from gram.evaluation.tune import (
    HALT_AT,
    HALTING_LOSS,
    Tuned,
    Tuning,
    choose_halting,
    choose_setting,
    tune_settings,
)
from gram.models.reasoner import Reasoner
from gram.solver import Solver, load
from gram.tasks.nqueens import NQueens

SHARES = st.sampled_from([0.0, 0.5, 0.9, 0.95, 1.0])


@settings(max_examples=40)
@given(st.lists(st.tuples(SHARES, SHARES), min_size=1, max_size=6))
def test_the_best_coverage_among_the_accurate_or_else_the_most_accurate(tried: list[tuple[float, float]]) -> None:
    settings_tried = [{"accuracy_all_samples": accuracy, "coverage": coverage} for accuracy, coverage in tried]
    chosen = choose_setting(settings_tried, 0.95)
    accurate = [coverage for accuracy, coverage in tried if accuracy >= 0.95]
    if accurate:
        assert chosen["accuracy_all_samples"] >= 0.95
        assert chosen["coverage"] == max(accurate)
    else:
        assert chosen["accuracy_all_samples"] == max(accuracy for accuracy, _ in tried)


def test_nothing_is_chosen_without_a_validation_split(
    queens_model: Callable[..., Reasoner], queens_recipe: Callable[..., Recipe]
) -> None:
    solver = Solver(queens_model().eval(), NQueens(size=5, validation_share=0), queens_recipe())
    with pytest.raises(GramError, match="The validation split of nqueens-5 is empty"):
        tune_settings(solver, Tuning((1,), limit=5), Console(quiet=True), width=1)


def test_every_setting_has_the_figures_of_its_own_evaluation(
    queens: NQueens, queens_model: Callable[..., Reasoner], queens_recipe: Callable[..., Recipe]
) -> None:
    solver = Solver(queens_model().eval(), queens, queens_recipe())
    console = Console(file=io.StringIO())
    tuned = tune_settings(
        solver, Tuning((1, 3), ((0.5, 0.5), (1.0, 1.0), (1.5, 0.2)), limit=5, accuracy=0.9), console, width=4, seed=2
    )
    tried = tuned.tried
    assert tuned.chosen == choose_setting(tried, 0.9)
    drawn = (1 + 1 + 2) * 4 * 5  # a falling temperature depends on the depth, so that both depths are sampled
    assert f"{drawn} of {drawn}" in console.file.getvalue()
    settled = [{name: item[name] for name in ("depth", "temperature", "temperature_final")} for item in tried]
    assert settled == [
        {"depth": 1, "temperature": 0.5, "temperature_final": None},
        {"depth": 3, "temperature": 0.5, "temperature_final": None},
        {"depth": 1, "temperature": 1.0, "temperature_final": None},
        {"depth": 3, "temperature": 1.0, "temperature_final": None},
        {"depth": 1, "temperature": 1.5, "temperature_final": 0.2},
        {"depth": 3, "temperature": 1.5, "temperature_final": 0.2},
    ]
    for item, setting in zip(tried, settled, strict=True):
        options = solver.with_options(**setting, width=4, seed=2)
        expected = evaluate(solver.model, queens, "validation", options, limit=5)
        for name in ("accuracy", "accuracy_all_samples", "coverage", "mean_steps", "headline_rows"):
            assert item[name] == pytest.approx(expected[name]), name
    assert [item["halt_at"] for item in tuned.halting] == 2 * list(HALT_AT)
    assert {item["halt_by"] for item in tuned.halting} == {"head", "output"}
    assert len({item["mean_steps"] for item in tuned.halting}) > 1 or tuned.chosen["depth"] == 1
    for item in tuned.halting:
        setting = settled[tried.index(tuned.chosen)]
        options = solver.with_options(
            **setting, width=4, seed=2, halt=True, halt_by=item["halt_by"], halt_at=item["halt_at"]
        )
        expected = evaluate(solver.model, queens, "validation", options, limit=5)
        for name in ("accuracy", "accuracy_all_samples", "coverage", "mean_steps"):
            assert item[name] == pytest.approx(expected[name]), name


def test_answers_of_shallower_depths_are_chosen_by_the_heads_as_they_were_there() -> None:
    solver = load("nqueens-8")  # of its answers after one step, the heads choose others than they would after four
    tuned = tune_settings(solver, Tuning((1, 4), ((1.5, 1.5),), limit=12), Console(quiet=True), width=6, seed=1)
    for item in tuned.tried:
        options = solver.with_options(depth=item["depth"], temperature=1.5, temperature_final=None, width=6, seed=1)
        expected = evaluate(solver.model, solver.task, "validation", options, limit=12)
        for rule in ("value", "halt"):
            assert item["selection"][rule] == expected["selection"][rule], (item["depth"], rule)
            assert item["all_inputs"]["selection"][rule] == expected["all_inputs"]["selection"][rule]
    assert tuned.tried[0]["all_inputs"]["selection"]["value"] < 1


def test_a_model_without_a_threshold_gets_none(
    queens: NQueens, queens_model: Callable[..., Reasoner], queens_recipe: Callable[..., Recipe]
) -> None:
    solver = Solver(queens_model(halting="q_learning").eval(), queens, queens_recipe())
    tuned = tune_settings(solver, Tuning((2,), limit=3), Console(quiet=True), width=2)
    assert (tuned.halting, tuned.halt, tuned.halting_settings) == ([], None, {})


@pytest.mark.parametrize(
    ("accuracies", "chosen"),
    [
        ((0.90, 0.9885, 0.99), 0.9),  # the fewest steps among those within 0.2 points
        ((0.90, 0.987, 0.99), 0.99),
        ((0.90, 0.95, 0.98), None),
        ((0.995, 0.99, 0.99), 0.5),
        ((0.90, 0.95, 0.98, 0.99), None),  # the last one is safe, because nothing ever halts there
    ],
)
def test_halting_costs_next_to_nothing(accuracies: tuple[float, ...], chosen: float | None) -> None:
    assert pytest.approx(0.002) == HALTING_LOSS
    tried = [
        {"halt_by": "output", "halt_at": at, "accuracy_all_samples": accuracy, "mean_steps": steps}
        for at, accuracy, steps in zip((0.5, 0.9, 0.99, 0.999), accuracies, (1.5, 2.5, 4.0, 8.0), strict=False)
    ]
    full = {"accuracy_all_samples": 0.99, "mean_steps": 8.0}
    found = choose_halting(tried, full)
    assert (found and found["halt_at"]) == chosen
    settings = {"halt": False} if chosen is None else {"halt": True, "halt_by": "output", "halt_at": chosen}
    assert Tuned([], full, tried, found).halting_settings == settings
