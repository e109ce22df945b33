"""Which reading of the paper's N-Queens data and metrics agrees with its deterministic models?

A deterministic model covers 1/k of an input's k solutions or nothing, so its coverage divided by its accuracy tells how
many solutions the inputs have. Prints that ratio for a model that is always right, and the coverage of a uniform
sampler with 20 draws, for several readings as a Markdown table; then how much the ratio of the best one varies with the
random test split.

python benchmarks/readings.py
"""

from collections.abc import Callable

import numpy as np

from gram.evaluation.weighting import DRAWS, Floats, Weighting, ideal_coverage, weightings
from gram.tasks.nqueens import NQueens

Counts = list[Floats]
"""Of each number of removed queens, ascending: how many solutions [inputs] the distinct inputs have."""
Reading = Callable[[Counts], tuple[Floats, Weighting]]
"""The solutions [inputs] of the inputs that count, and how much each counts."""

SIZES = (8, 10)


def solution_counts(size: int) -> Counts:
    """Count the solutions of every input with three, two and one queens left."""
    tasks = [NQueens(size=size, removed=(size - left,), validation_share=0, test_share=0) for left in (3, 2, 1)]
    return [task.split("train").distinct().rows.astype(np.float64) for task in tasks]


def weighted(name: str, *, numbers: slice = slice(None), at_least: int = 1) -> Reading:
    """Take a weighting of the library, over some numbers of removed queens and inputs with `at_least` solutions."""

    def read(counts: Counts) -> tuple[Floats, Weighting]:
        solutions = np.concatenate(counts[numbers])
        solutions = solutions[solutions >= at_least]
        return solutions, weightings(solutions, solutions)[name]

    return read


def equally_often(*, pooled: bool, at_least: int = 1) -> Reading:
    """Take one random removal of each number of queens per solution, so that every number makes as many rows."""

    def read(counts: Counts) -> tuple[Floats, Weighting]:
        solutions = np.concatenate(counts)
        rows = np.concatenate([some / some.sum() for some in counts]) * (solutions >= at_least)
        return solutions, Weighting("rows", rows, rows * solutions if pooled else rows)

    return read


READINGS: dict[str, Reading] = {
    "mean over inputs": weighted("all_inputs"),
    "mean over inputs with at least 2 solutions": weighted("all_inputs", at_least=2),
    "mean over inputs with at least 5 solutions": weighted("all_inputs", at_least=5),
    "mean over rows, or pooled over inputs": weighted("pooled_inputs"),
    "mean over rows of inputs with at least 2 solutions (our headline)": weighted("headline"),
    "mean over rows of inputs with at least 4 solutions": weighted("headline", at_least=4),
    "the same as our headline, the two larger numbers of removed queens": weighted("headline", numbers=slice(1, None)),
    "mean over inputs with at least 2, the two larger numbers": weighted(
        "all_inputs", numbers=slice(1, None), at_least=2
    ),
    "mean over rows, every number of removed queens equally often": equally_often(pooled=False),
    "the same, inputs with at least 2 solutions": equally_often(pooled=False, at_least=2),
    "pooled over rows, every number equally often": equally_often(pooled=True),
    "**pooled over rows**": weighted("pooled_rows"),
    "pooled over rows of inputs with at least 2 solutions": weighted("pooled_rows", at_least=2),
}


def ratio_and_coverage(counts: Counts, reading: Reading) -> tuple[float, float]:
    """Coverage of an ideal deterministic model, which is its ratio to accuracy, and of a uniform sampler."""
    solutions, weighting = reading(counts)
    covered = ideal_coverage(solutions, weighting, DRAWS)
    return covered["deterministic_coverage"], covered["uniform_coverage"]


def ratios_of_splits(counts: Counts, share: float = 0.15, splits: int = 4000) -> Floats:
    """Pool over the rows of random test splits, and return the ratio of each [splits]."""
    solutions = np.concatenate(counts)
    generator, size = np.random.default_rng(0), round(share * len(solutions))
    drawn = (generator.permutation(solutions)[:size] for _ in range(splits))
    return np.array([some.sum() / (some**2).sum() for some in drawn])


def main() -> None:
    """Print the table and the ranges."""
    counts = {size: solution_counts(size) for size in SIZES}
    print("| reading | ratio, 8 | ratio, 10 | uniform sampler, 8 | uniform sampler, 10 |\n|---|---|---|---|---|")
    for name, reading in READINGS.items():
        (ratio, uniform), (other_ratio, other_uniform) = (ratio_and_coverage(counts[size], reading) for size in SIZES)
        print(f"| {name} | {ratio:.3f} | {other_ratio:.3f} | {uniform:.1%} | {other_uniform:.1%} |")
    for size in SIZES:
        low, high = np.quantile(ratios_of_splits(counts[size]), (0.025, 0.975))
        print(f"\n95% of random test splits, pooled over rows, size {size}: {low:.3f} to {high:.3f}")


if __name__ == "__main__":
    main()
