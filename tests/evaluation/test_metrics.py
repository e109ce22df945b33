"""Accuracy and coverage against plain loops over five queens."""

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from gram.config import SampleOptions
from gram.errors import GramError
from gram.evaluation import evaluate as evaluation
from gram.evaluation.evaluate import evaluate
from gram.evaluation.metrics import PerInput, measure, summarise
from gram.inference.sample import Trajectories, sample
from gram.models.reasoner import Reasoner
from gram.tasks.base import Examples, Tokens
from gram.tasks.nqueens import NQueens

ModelBuilder = Callable[..., Reasoner]
FIGURES = ("accuracy", "accuracy_all_samples", "coverage", "any_valid")


def trajectories(outputs: Tokens) -> Trajectories:
    zeros = np.zeros(outputs.shape[:2], dtype=np.float32)
    return Trajectories(outputs, zeros, zeros, np.full(outputs.shape[:2], 2))


def perfect(task: NQueens, inputs: Tokens, width: int) -> Tokens:
    """Every solution in turn."""
    return np.stack([np.resize(task.solutions(row), (width, task.length)) for row in inputs])


def mixed(task: NQueens, inputs: Tokens, width: int, seed: int = 0) -> Tokens:
    """Solutions, solutions of other inputs, and damaged boards, at random."""
    rng = np.random.default_rng(seed)
    outputs = np.empty((len(inputs), width, task.length), dtype=np.int64)
    for i, row in enumerate(inputs):
        own, every = task.solutions(row), task.solutions(np.ones(task.length, dtype=np.int64))
        for j in range(width):
            pool = own if rng.random() < 0.6 else every
            outputs[i, j] = pool[rng.integers(len(pool))]
            if rng.random() < 0.3:
                outputs[i, j, rng.integers(task.length)] = rng.integers(3)
    return outputs


def is_solution(task: NQueens, given: Tokens, board: Tokens) -> bool:
    """The rules of the game, cell by cell."""
    if set(board.tolist()) - {1, 2} or (board[given == 2] != 2).any():
        return False
    cells = [divmod(int(cell), task.size) for cell in np.flatnonzero(board == 2)]
    attacks = any(
        r == s or c == d or abs(r - s) == abs(c - d) for i, (r, c) in enumerate(cells) for s, d in cells[i + 1 :]
    )
    return len(cells) == task.size and not attacks


def naive_figures(task: NQueens, given: Tokens, outputs: Tokens) -> dict[str, float]:
    """The four figures of one input."""
    valid = [is_solution(task, given, board) for board in outputs]
    found = {board.tobytes() for board, good in zip(outputs, valid, strict=True) if good}
    return {
        "accuracy": float(valid[0]),
        "accuracy_all_samples": sum(valid) / len(valid),
        "coverage": len(found) / len(task.solutions(given)),
        "any_valid": float(any(valid)),
    }


def mean(rows: list[dict[str, float]]) -> dict[str, float]:
    return {name: sum(row[name] for row in rows) / len(rows) for name in FIGURES}


def figures_of(result: dict[str, object]) -> dict[str, float]:
    return {name: result[name] for name in FIGURES}


@pytest.fixture(scope="module")
def examples(queens: NQueens) -> Examples:
    return queens.split("train")


@pytest.fixture
def samples_of(monkeypatch: pytest.MonkeyPatch, queens: NQueens) -> Callable[[Callable[..., Tokens]], None]:
    """Let `evaluate` sample from a function instead of a model."""

    def use(sampler: Callable[..., Tokens]) -> None:
        def fake(model: object, inputs: Tokens, options: SampleOptions, **_: object) -> Trajectories:
            return trajectories(sampler(queens, inputs, options.width))

        monkeypatch.setattr(evaluation, "sample", fake)

    return use


# --- one input --------------------------------------------------------------------------------------------------------


def test_every_figure_is_that_of_a_plain_loop(queens: NQueens, examples: Examples) -> None:
    inputs = examples.distinct()[0]
    outputs = mixed(queens, inputs, width=7)
    found = measure(queens, inputs, trajectories(outputs))
    expected = [naive_figures(queens, row, boards) for row, boards in zip(inputs, outputs, strict=True)]
    assert 0 < np.mean([row["accuracy"] for row in expected]) < 1
    for name, values in zip(
        FIGURES, (found.first_valid, found.valid_share, found.coverage, found.any_valid), strict=True
    ):
        np.testing.assert_allclose(values, [row[name] for row in expected])
    assert found.solutions.tolist() == [len(queens.solutions(row)) for row in inputs]


def test_a_perfect_sampler_covers_everything(queens: NQueens, examples: Examples) -> None:
    inputs = examples.distinct()[0]
    found = measure(queens, inputs, trajectories(perfect(queens, inputs, width=10)))
    for values in (found.first_valid, found.valid_share, found.coverage, found.any_valid):
        assert (values == 1).all()


def test_a_deterministic_solver_covers_one_of_k(queens: NQueens, examples: Examples) -> None:
    inputs = examples.distinct()[0]
    outputs = np.repeat(perfect(queens, inputs, width=1), 10, axis=1)
    found = measure(queens, inputs, trajectories(outputs))
    assert found.solutions.max() > 1
    np.testing.assert_allclose(found.coverage, 1 / found.solutions)


def test_an_input_without_solutions_has_no_coverage(queens: NQueens) -> None:
    impossible = np.ones((1, 25), dtype=np.int64)
    impossible[0, :2] = 2  # two queens side by side
    with pytest.raises(GramError, match="coverage is not defined"):
        measure(queens, impossible, trajectories(impossible[:, None]))


# --- the headline -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("limit", [None, 40])
def test_the_headline_is_the_mean_over_rows_with_several_solutions(
    queens: NQueens,
    queens_model: ModelBuilder,
    examples: Examples,
    samples_of: Callable[[Callable[..., Tokens]], None],
    limit: int | None,
) -> None:
    samples_of(mixed)
    model = queens_model()
    result = evaluate(model, queens, "train", SampleOptions(width=6, depth=2), limit=limit)
    kept = np.unique(examples.groups)[:limit]
    inputs = np.stack([examples.inputs[examples.groups == group][0] for group in kept])
    by_group = dict(zip(kept.tolist(), mixed(queens, inputs, 6), strict=True))

    rows, every, by_count = [], [], {}
    found_rows = all_rows = found_inputs = all_inputs = 0.0  # solutions found and existing, for the pooled coverage
    for group, given in zip(kept.tolist(), inputs, strict=True):
        figures = naive_figures(queens, given, by_group[group])
        solutions = len(queens.solutions(given))
        every.append(figures)
        found, stands_for = figures["coverage"] * solutions, (examples.groups == group).sum()
        found_rows, all_rows = found_rows + stands_for * found, all_rows + stands_for * solutions
        found_inputs, all_inputs = found_inputs + found, all_inputs + solutions
        by_count.setdefault(solutions, []).append(figures)
        # One test row per input and target: an input with k solutions stands k times.
        rows += [figures for g in examples.groups if g == group and solutions >= 2]
    assert rows
    assert figures_of(result) == pytest.approx(mean(rows))
    assert result["headline_rows"] == len(rows)
    assert figures_of(result["all_inputs"]) == pytest.approx(mean(every))
    assert result["all_inputs"]["inputs"] == result["pooled_inputs"]["inputs"] == len(kept)
    assert result["pooled_rows"]["coverage"] == pytest.approx(found_rows / all_rows)
    assert result["pooled_inputs"]["coverage"] == pytest.approx(found_inputs / all_inputs)
    assert result["pooled_inputs"]["accuracy"] == result["all_inputs"]["accuracy"]
    assert [line["solutions"] for line in result["by_solutions"]] == sorted(by_count)
    for line in result["by_solutions"]:
        assert line["inputs"] == len(by_count[line["solutions"]])
        assert figures_of(line) == pytest.approx(mean(by_count[line["solutions"]]))


def test_perfect_and_deterministic_headlines(
    queens: NQueens, queens_model: ModelBuilder, samples_of: Callable[[Callable[..., Tokens]], None]
) -> None:
    samples_of(perfect)
    options = SampleOptions(width=10, depth=2)
    assert set(figures_of(evaluate(queens_model(), queens, "train", options)).values()) == {1.0}
    samples_of(lambda task, inputs, width: np.repeat(perfect(task, inputs, 1), width, axis=1))
    result = evaluate(queens_model(), queens, "train", options)
    assert result["accuracy"] == 1
    lines = [line for line in result["by_solutions"] if line["solutions"] >= 2]
    # An input with k solutions counts k times and is covered to 1/k: the headline is inputs over rows.
    assert result["coverage"] == pytest.approx(sum(line["inputs"] for line in lines) / result["headline_rows"])
    # It is the ideal that is printed beside every coverage, on the same inputs and in the same weighting.
    weightings = ("all_inputs", "pooled_rows", "pooled_inputs")
    for section in (result, *(result[name] for name in weightings), *result["by_solutions"]):
        assert section["deterministic_coverage"] == pytest.approx(section["coverage"])


def test_the_uniform_sampler_beside_a_result_has_its_width_and_inputs(queens: NQueens, examples: Examples) -> None:
    rng = np.random.default_rng(0)
    inputs, rows, _ = examples.distinct()
    results = []
    for _ in range(60):
        drawn = np.stack([rng.choice(queens.solutions(row), 3) for row in inputs])
        sampled = trajectories(drawn)
        results.append(summarise(measure(queens, inputs, sampled), rows, sampled.steps))
    for name in ("all_inputs", "pooled_rows", "pooled_inputs"):
        expected = results[0][name]["uniform_coverage"]
        assert np.mean([result[name]["coverage"] for result in results]) == pytest.approx(expected, abs=0.02)
        assert expected > results[0][name]["deterministic_coverage"]


def test_without_several_solutions_the_headline_says_so() -> None:
    ones = np.ones(3)
    whole = np.ones(3, dtype=np.int64)
    single = PerInput(whole, ones, ones, ones, np.array([1.0, 0.0, 0.5]), conflicts=whole, selected={"vote": ones / 4})
    result = summarise(single, np.ones(3, dtype=np.int64), np.array([[2, 4], [3, 3], [1, 5]]))
    assert result["any_valid"] == pytest.approx(0.5)
    assert result["selection"] == {"vote": 0.25}
    assert result["headline_rows"] == 3  # the inputs that the figures above are the mean of
    assert "none has two solutions" in result["headline"]
    assert result["mean_steps"] == 3


# --- evaluate ---------------------------------------------------------------------------------------------------------


def test_evaluate_is_sample_and_measure_with_every_setting(queens: NQueens, queens_model: ModelBuilder) -> None:
    model = queens_model()
    options = SampleOptions(width=3, depth=2, temperature=0.5, seed=4, halt=True)
    result = evaluate(model, queens, "test", options)
    inputs = queens.split("test").distinct()[0]
    found = sample(model, inputs, options)
    assert result["mean_steps"] == pytest.approx(found.steps.mean())
    assert result["all_inputs"]["inputs"] == len(inputs)
    expected = {"width": 3, "depth": 2, "temperature": 0.5, "seed": 4, "halt": True, "task": "nqueens-5"}
    assert {key: result[key] for key in expected} == expected
    assert result["split_hash"] == queens.split_hash()
    assert result["parameters"] == sum(p.numel() for p in model.parameters())


def test_evaluate_reports_the_same_twice_and_another_seed_differently(
    queens: NQueens, queens_model: ModelBuilder
) -> None:
    model, options = queens_model(), SampleOptions(width=2, depth=2, halt=True)
    results = [evaluate(model, queens, "test", replace(options, seed=seed)) for seed in (0, 0, 1)]
    assert results[0] == results[1]
    assert results[0]["seed"] != results[2]["seed"]


def test_an_empty_split_is_one_clear_error(queens_model: ModelBuilder) -> None:
    task = NQueens(size=5, validation_share=0)
    with pytest.raises(GramError, match="validation split of nqueens-5 is empty"):
        evaluate(queens_model(), task, "validation", SampleOptions(width=2, depth=1))
