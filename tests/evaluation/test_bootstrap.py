"""Intervals and paired comparisons against what is known of them."""

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from gram.config import SampleOptions
from gram.errors import GramError
from gram.evaluation.bootstrap import mean_interval, paired_difference, weighted_interval
from gram.evaluation.compare import compare_outcomes, outcomes
from gram.evaluation.evaluate import evaluate
from gram.evaluation.metrics import measure
from gram.evaluation.weighting import ideal_coverage, weightings
from gram.inference.sample import sample
from gram.models.reasoner import Reasoner
from gram.solver import Solver
from gram.tasks.nqueens import NQueens

ModelBuilder = Callable[..., Reasoner]


def test_the_interval_of_a_proportion_is_that_of_the_binomial() -> None:
    values = np.repeat([1.0, 0.0], [300, 100])
    low, high = mean_interval(values)
    error = 1.96 * (0.75 * 0.25 / 400) ** 0.5
    assert (low, high) == (pytest.approx(0.75 - error, abs=0.01), pytest.approx(0.75 + error, abs=0.01))
    assert mean_interval(values) == (low, high)  # the same numbers, the same interval
    assert mean_interval(np.ones(10)) == (1.0, 1.0)


def test_more_inputs_than_are_drawn_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    values = np.arange(50.0)
    whole = mean_interval(values)
    monkeypatch.setattr("gram.evaluation.bootstrap.AT_ONCE", 1000)
    assert mean_interval(values) == pytest.approx(whole, abs=1)


def test_weights_count_and_inputs_without_weight_do_not() -> None:
    values = np.array([[0.0], [1.0], [5.0]])
    weights = np.array([[1.0], [1.0], [0.0]])
    assert weighted_interval(values, weights).tolist() == [[0.0, 1.0]]
    heavy = weighted_interval(np.tile([[0.0], [1.0]], (50, 1)), np.tile([[1.0], [3.0]], (50, 1)))
    assert heavy[0, 0] < 0.75 < heavy[0, 1]


def test_pairing_finds_a_small_difference_that_two_intervals_would_not() -> None:
    generator = np.random.default_rng(0)
    hard = generator.random(2000) < 0.5  # both models fail on hard inputs
    a = (~hard).astype(float)
    b = np.where(generator.random(2000) < 0.02, 1.0, a)
    found = paired_difference(a, b, np.ones(2000))
    assert found.difference == pytest.approx(found.b - found.a)
    assert found.clear
    assert found.interval[0] > 0
    assert mean_interval(b)[0] < found.a < mean_interval(b)[1]  # unpaired, they overlap
    assert not paired_difference(a, a, np.ones(2000)).clear


def test_every_metric_of_an_evaluation_has_an_interval(queens: NQueens, queens_model: ModelBuilder) -> None:
    result = evaluate(queens_model(), queens, "train", SampleOptions(width=4, depth=2))
    for part in (result, result["all_inputs"], *result["by_solutions"]):
        for name in ("accuracy", "accuracy_all_samples", "coverage", "any_valid"):
            low, high = part["intervals"][name]
            assert low <= part[name] <= high
        assert part["intervals"]["selection"].keys() == part["selection"].keys()
    low, high = result["intervals"]["conflicts"]
    assert low <= result["conflicts"] <= high
    assert low < high


def test_two_models_are_compared_on_the_same_inputs(
    queens: NQueens, queens_model: ModelBuilder, queens_recipe: Callable[..., object]
) -> None:
    asked = queens.split("train").distinct(40)
    options = SampleOptions(width=4, depth=2)
    solvers = [Solver(queens_model(seed=seed), queens, queens_recipe()) for seed in (0, 1)]
    a, b = (outcomes(solver, asked, options) for solver in solvers)
    perfect = replace(b, first_valid=np.ones(40), coverage=np.ones(40))
    found = compare_outcomes(a, perfect, asked.rows, (4, 20))
    assert found["all_inputs"]["accuracy"]["b"] == 1
    assert found["all_inputs"]["accuracy"]["a"] == pytest.approx(a.first_valid.mean())
    assert found["all_inputs"]["coverage"]["clear"]
    several = a.solutions >= 2
    expected = np.average(a.coverage[several], weights=asked.rows[several])
    assert found["headline"]["coverage"]["a"] == pytest.approx(expected)
    ideal = found["ideal"]["headline"]
    assert ideal["a"] == ideal_coverage(a.solutions, weightings(a.solutions, asked.rows)["headline"], 4)
    assert ideal["a"]["uniform_coverage"] < ideal["b"]["uniform_coverage"]  # it has more samples
    assert ideal["a"]["deterministic_coverage"] == ideal["b"]["deterministic_coverage"]
    # Sampled exactly as an evaluation samples.
    again = measure(queens, asked.inputs, sample(solvers[0].model, asked.inputs, options))
    np.testing.assert_array_equal(again.coverage, a.coverage)


def test_models_that_generate_have_no_inputs_to_pair(
    queens_model: ModelBuilder, queens_recipe: Callable[..., object]
) -> None:
    task = NQueens(size=5)
    task.scoring = "generation"
    with pytest.raises(GramError, match="no inputs"):
        outcomes(Solver(queens_model(), task, queens_recipe()), task.split("test").distinct(), SampleOptions())
