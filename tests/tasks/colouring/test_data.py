"""The data of the colouring task: the paper's counts, and splits that are apart up to isomorphism."""

from collections.abc import Callable
from itertools import permutations
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gram.errors import GramError
from gram.evaluation.weighting import DRAWS, ideal_coverage, weightings
from gram.tasks.base import IGNORE, SplitName, Tokens
from gram.tasks.colouring import graphs
from gram.tasks.colouring.task import EDGE, Colouring

SPLITS: tuple[SplitName, ...] = ("train", "validation", "test")
PAIRS = {8: 7_002, 10: 13_465}
"""The paper's training instances, those for validation included."""


@pytest.mark.parametrize(("size", "train", "test"), [(8, 2_295, 255), (10, 1_728, 192)])
def test_the_counts_are_the_papers(size: int, train: int, test: int) -> None:
    splits = {name: Colouring(size=size).split(name) for name in SPLITS}
    validation = round(0.05 * train)
    assert [len(part.distinct().rows) for part in splits.values()] == [train - validation, validation, test]
    assert len(splits["train"]) + len(splits["validation"]) == PAIRS[size]


@pytest.mark.parametrize(
    ("options", "mean"),
    [({"size": 8}, 3.0), ({"size": 10}, 7.8), ({"edge_probability": 0.5, "train_graphs": 7_002, "seed": 0}, 7.3)],
)
def test_every_split_has_as_many_colourings_per_graph(options: dict[str, int], mean: float) -> None:
    task = Colouring(**options)  # type: ignore[arg-type]
    for name in SPLITS:
        assert task.split(name).distinct().rows.mean() == pytest.approx(mean, rel=0.05)


@pytest.mark.parametrize(("size", "uniform"), [(8, 0.910), (10, 0.648)])
def test_a_uniform_sampler_could_reach_the_papers_coverage(size: int, uniform: float) -> None:
    for name in ("train", "test"):
        colourings = Colouring(size=size).split(name).distinct().rows  # type: ignore[arg-type]
        pooled = weightings(colourings, colourings)["pooled_inputs"]
        assert ideal_coverage(colourings, pooled, DRAWS)["uniform_coverage"] == pytest.approx(uniform, abs=0.02)


@pytest.mark.parametrize(
    ("size", "probability", "train", "test", "expected"),
    [(8, 0.5, 7_002, 255, "9a44f3a67fa5"), (10, 0.44, 13_465, 192, "d78d97610d4d")],
)
def test_the_data_of_earlier_results_is_reached_by_options(
    size: int, probability: float, train: int, test: int, expected: str
) -> None:
    earlier = {"edge_probability": probability, "train_graphs": train, "test_graphs": test, "seed": 0}
    assert Colouring(size=size, stratified=False, **earlier).split_hash() == expected  # type: ignore[arg-type]


@settings(max_examples=60)
@given(
    st.lists(st.tuples(st.integers(1, 5), st.integers(1, 200)), min_size=2, max_size=60),
    st.data(),
    st.integers(0, 2**32),
)
def test_evenly_spread_classes_stay_whole(cases: list[tuple[int, int]], data: st.DataObject, seed: int) -> None:
    sizes, colourings = np.array(cases).T
    classes = np.repeat(np.arange(len(cases)) * 3, sizes)  # some class numbers are not in use
    wanted = data.draw(st.integers(0, len(classes) - 1))
    chosen = graphs.evenly_spread_classes(classes, np.repeat(colourings, sizes), wanted, np.random.default_rng(seed))
    taken = np.unique(classes[chosen])
    assert np.array_equal(np.isin(classes, taken), chosen)
    assert chosen.any() == (wanted > 0)
    assert abs(chosen.sum() - wanted) <= 5 * len(cases) ** 0.5 + 5


def test_evenly_spread_classes_have_the_mean_that_random_ones_miss() -> None:
    colourings = np.sort(np.random.default_rng(0).geometric(0.02, 3_000))
    classes = np.arange(3_000)

    def misses(choose: Callable[[np.random.Generator], graphs.Mask]) -> list[float]:
        means = [colourings[choose(np.random.default_rng(seed))].mean() for seed in range(10)]
        return [abs(mean - colourings.mean()) for mean in means]

    spread = misses(lambda generator: graphs.evenly_spread_classes(classes, colourings, 150, generator))
    random = misses(lambda generator: graphs.whole_classes(classes, 150, generator))
    assert max(spread) < 0.5 < max(random)


def test_labelled_graphs_are_distinct_and_no_class_is_in_two_splits(task: Colouring) -> None:
    inputs = [task.split(name).distinct()[0] for name in SPLITS]
    everything = np.concatenate(inputs)
    assert len(np.unique(everything, axis=0)) == len(everything) == 2_550
    classes = graphs.isomorphism_classes(everything == EDGE, 8)
    parts = [set(part) for part in np.split(classes, np.cumsum([len(some) for some in inputs])[:-1])]
    assert sum(len(part) for part in parts) == len(set.union(*parts))


@pytest.mark.parametrize("size", [4, 5])
def test_no_two_splits_share_a_graph_under_any_numbering(size: int) -> None:
    task = Colouring(size=size)
    lower, higher = np.triu_indices(size, 1)

    def smallest_numbering(row: Tokens) -> bytes:
        matrix = np.zeros((size, size), dtype=np.int64)
        matrix[lower, higher] = matrix[higher, lower] = row
        return min(matrix[np.ix_(order, order)].tobytes() for order in permutations(range(size)))

    parts = [{smallest_numbering(row) for row in task.split(name).distinct()[0]} for name in SPLITS]
    assert all(parts)
    assert sum(len(part) for part in parts) == len(set.union(*parts))


@pytest.mark.parametrize("options", [{"size": 4, "colours": 2}, {"size": 6, "colours": 2}, {"size": 8}])
def test_a_group_is_one_graph_with_all_its_colourings(options: dict[str, int]) -> None:
    task = Colouring(**options)  # type: ignore[arg-type]
    for name in SPLITS:
        examples = task.split(name)
        assert examples.inputs.dtype == examples.targets.dtype == examples.groups.dtype == np.int64
        inputs, rows, _ = examples.distinct()
        assert len(inputs)
        assert np.array_equal(np.repeat(inputs, rows, axis=0), examples.inputs)
        assert (np.diff(examples.groups) >= 0).all()
        assert np.array_equal(task.solution_counts(inputs[:60]), rows[:60])
        assert task.verify(examples.inputs, examples.targets).valid.all()
        assert (examples.targets[:, task.size :] == IGNORE).all()
        pairs = np.concatenate([examples.inputs, examples.targets], axis=1)
        assert len(np.unique(pairs, axis=0)) == len(pairs)
        assert np.array_equal(task.canonical(examples.targets)[:, : task.size], examples.targets[:, : task.size])


def test_the_hash_is_stable_and_follows_the_settings(task: Colouring) -> None:
    assert task.split_hash() == Colouring(size=8).split_hash() == "703b07680153"  # a change here changes every result
    few = Colouring(size=8, train_graphs=300, test_graphs=20)
    hashes = {few.split_hash(), task.split_hash()}
    changes = ({"seed": 1}, {"edge_probability": 0.4}, {"max_colourings": 2}, {"validation_share": 0.2})
    for change in (*changes, {"stratified": False}):
        hashes.add(Colouring(size=8, train_graphs=300, test_graphs=20, **change).split_hash())  # type: ignore[arg-type]
    assert len(hashes) == 7


def test_a_kept_build_is_what_a_fresh_one_is(cache: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    first = Colouring(size=6, train_graphs=100, test_graphs=10).split_hash()
    assert Colouring(size=6, train_graphs=100, test_graphs=10).split_hash() == first  # read
    monkeypatch.setenv("GRAM_CACHE", str(tmp_path))
    assert Colouring(size=6, train_graphs=100, test_graphs=10).split_hash() == first  # built again
    assert len(list(tmp_path.rglob("colouring-*.npz"))) == 1


def test_the_limit_on_colourings_holds_in_training_only(task: Colouring) -> None:
    few = Colouring(size=8, max_colourings=3)
    rows = few.split("train").distinct().rows
    all_rows = task.split("train").distinct().rows
    assert np.array_equal(rows, np.minimum(all_rows, 3))
    assert few.verify(few.split("train").inputs, few.split("train").targets).valid.all()
    assert len(few.split("test")) == len(task.split("test"))
    assert few.split("train").targets[:, 1].mean() == pytest.approx(task.split("train").targets[:, 1].mean(), abs=0.1)


def test_a_limit_that_exceeds_the_graphs_that_exist_is_refused() -> None:
    with pytest.raises(GramError, match=r"100 \+ 255 graphs are asked for, but only 63 were found"):
        Colouring(size=4, train_graphs=100).split("train")
    with pytest.raises(GramError, match="change edge_probability"):
        Colouring(size=9, colours=2, edge_probability=0.95).split("train")


@pytest.mark.slow
@pytest.mark.parametrize("colours", range(2, 7))
@pytest.mark.parametrize("size", range(4, 17))
def test_every_size_and_number_of_colours_builds(size: int, colours: int) -> None:
    task = Colouring(size=size, colours=colours)
    for name in SPLITS:
        examples = task.split(name)
        assert len(examples)
        assert task.verify(examples.inputs, examples.targets).valid.all()
