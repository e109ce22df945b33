"""What the colouring task promises: the paper's counts, splits apart up to isomorphism, a strict verdict."""

from collections.abc import Callable
from itertools import combinations, permutations, product
from pathlib import Path

import networkx as nx
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gram.errors import GramError
from gram.evaluation.weighting import DRAWS, ideal_coverage, weightings
from gram.tasks.base import IGNORE, SplitName, Tokens
from gram.tasks.colouring import graphs
from gram.tasks.colouring.task import EDGE, FIRST_COLOUR, NO_EDGE, PAD, Colouring

SPLITS: tuple[SplitName, ...] = ("train", "validation", "test")


@pytest.fixture(scope="module", autouse=True)
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Builds of these tests are kept apart from the user's."""
    folder = tmp_path_factory.mktemp("cache")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("GRAM_CACHE", str(folder))
        yield folder


@pytest.fixture(scope="module")
def task(cache: Path) -> Colouring:
    return Colouring(size=8)


def naive_edges(size: int, tokens: list[int]) -> list[tuple[int, int]]:
    return [pair for pair, token in zip(combinations(range(size), 2), tokens, strict=True) if token == 2]


def naive_conflicts(size: int, colours: int, tokens: list[int], output: list[int]) -> int:
    """Count the broken rules one by one, sharing no code with the task."""
    legal = range(3, 3 + colours)
    edges = sum(output[a] == output[b] and output[a] in legal for a, b in naive_edges(size, tokens))
    return edges + sum(output[vertex] not in legal for vertex in range(size))


def naive_colourings(size: int, colours: int, tokens: list[int]) -> set[tuple[int, ...]]:
    """Try every assignment; rename the colours in order of first use."""
    found = set()
    for assignment in product(range(colours), repeat=size):
        if all(assignment[a] != assignment[b] for a, b in naive_edges(size, tokens)):
            names = list(dict.fromkeys(assignment))
            found.add(tuple(3 + names.index(colour) for colour in assignment))
    return found


@st.composite
def graphs_and_outputs(draw: st.DrawFn) -> tuple[Colouring, Tokens, Tokens]:
    """A task, inputs and outputs [3, length]; outputs are colours with, now and then, any other token."""
    size, colours = draw(st.integers(4, 9)), draw(st.integers(2, 6))
    task = Colouring(size=size, colours=colours, edge_probability=0.5)
    generator = np.random.default_rng(draw(st.integers(0, 2**32)))
    inputs = generator.integers(NO_EDGE, EDGE + 1, (3, task.length))
    outputs = generator.integers(FIRST_COLOUR, task.vocab_size, (3, task.length))
    spoiled = generator.random(outputs.shape) < draw(st.sampled_from([0.0, 0.1, 0.5]))
    outputs[spoiled] = generator.integers(-1, task.vocab_size + 2, spoiled.sum())
    return task, inputs, outputs


# The data


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


# Verdict, canonical form, solutions


@settings(max_examples=100)
@given(graphs_and_outputs())
def test_verify_agrees_with_brute_force(case: tuple[Colouring, Tokens, Tokens]) -> None:
    task, inputs, outputs = case
    pairs = zip(inputs.tolist(), outputs.tolist(), strict=True)
    expected = [naive_conflicts(task.size, task.colours, tokens, output) for tokens, output in pairs]
    verdict = task.verify(inputs, outputs)
    assert verdict.conflicts.tolist() == expected
    assert verdict.valid.tolist() == [count == 0 for count in expected]


@settings(max_examples=60)
@given(graphs_and_outputs(), st.randoms(use_true_random=False))
def test_canonical_is_idempotent_and_blind_to_names_and_to_the_rest(case, random) -> None:  # type: ignore[no-untyped-def]
    task, inputs, outputs = case
    canonical = task.canonical(outputs)
    assert np.array_equal(task.canonical(canonical), canonical)
    assert (canonical[:, task.size :] == PAD).all()
    assert np.array_equal(task.verify(inputs, canonical).conflicts, task.verify(inputs, outputs).conflicts)

    names = random.sample(range(task.colours), task.colours)
    renamed = outputs.copy()
    for old, new in enumerate(names):
        renamed[outputs == FIRST_COLOUR + old] = FIRST_COLOUR + new
    renamed[:, task.size :] = 1
    assert np.array_equal(task.canonical(renamed), canonical)

    for row, output in zip(canonical.tolist(), outputs.tolist(), strict=True):
        used = [token for token in dict.fromkeys(row[: task.size]) if FIRST_COLOUR <= token < task.vocab_size]
        assert used == [FIRST_COLOUR + number for number in range(len(used))]
        same = [(a, b) for a, b in combinations(range(task.size), 2) if output[a] == output[b]]
        assert same == [(a, b) for a, b in combinations(range(task.size), 2) if row[a] == row[b]]


@settings(max_examples=40)
@given(st.integers(4, 6), st.integers(2, 4), st.integers(0, 2**32))
def test_solutions_agree_with_brute_force(size: int, colours: int, seed: int) -> None:
    task = Colouring(size=size, colours=colours)
    generator = np.random.default_rng(seed)
    tokens = np.where(generator.random(task.length) < generator.random(), EDGE, NO_EDGE)
    expected = naive_colourings(size, colours, tokens.tolist())
    solutions = task.solutions(tokens)
    assert solutions is not None
    assert {tuple(row) for row in solutions[:, :size].tolist()} == expected
    assert len(solutions) == len(expected) == task.solution_counts(tokens[None])[0]
    assert (solutions[:, size:] == PAD).all()
    assert np.array_equal(task.canonical(solutions), solutions)


@settings(max_examples=30)
@given(st.integers(9, 16), st.integers(2, 6), st.integers(0, 2**32))
def test_the_count_agrees_with_the_list_at_every_size(size: int, colours: int, seed: int) -> None:
    probability = graphs.balanced_probability(size, colours)
    edges = np.random.default_rng(seed).random((5, size * (size - 1) // 2)) < probability
    graph, _ = graphs.list_colourings(edges, size, colours)
    assert [graphs.count_colourings(row, size, colours) for row in edges] == np.bincount(graph, minlength=5).tolist()


def test_graphs_with_too_many_colourings_are_counted_but_not_listed() -> None:
    task = Colouring(size=16, colours=6)
    empty = np.full(120, NO_EDGE)
    # partitions of 16 vertices into at most 6 sets: Stirling numbers of the second kind
    assert task.solution_counts(empty[None])[0] == 1 + 32767 + 7141686 + 171798901 + 1096190550 + 2734926558
    assert task.solutions(empty) is None


def test_the_mean_number_of_colourings_is_what_random_graphs_have() -> None:
    edges = np.random.default_rng(0).random((20_000, 15)) < 0.4
    graph, _ = graphs.list_colourings(edges, 6, 3)
    assert len(graph) / len(edges) == pytest.approx(graphs.expected_colourings(6, 3, 0.4), rel=0.02)


@pytest.mark.parametrize(("size", "classes"), [(4, 11), (5, 34), (6, 156)])
def test_classes_are_exactly_the_graphs_up_to_isomorphism(size: int, classes: int) -> None:
    pairs = size * (size - 1) // 2
    every = (np.arange(2**pairs)[:, None] >> np.arange(pairs) & 1).astype(np.bool_)
    assert graphs.isomorphism_classes(every, size).max() + 1 == classes


def test_the_1044_graphs_with_seven_vertices_are_told_apart() -> None:
    atlas = [graph for graph in nx.graph_atlas_g() if len(graph) == 7]
    lower, higher = np.triu_indices(7, 1)
    edges = np.array([nx.to_numpy_array(graph)[lower, higher] > 0 for graph in atlas])
    assert graphs.isomorphism_classes(edges, 7).max() + 1 == len(atlas) == 1044


# Augmentation


@settings(max_examples=60)
@given(graphs_and_outputs(), st.integers(0, 2**32))
def test_renumbering_is_exact_and_inverts(case: tuple[Colouring, Tokens, Tokens], seed: int) -> None:
    task, inputs, outputs = case
    targets = task.canonical(outputs)
    targets[:, task.size :] = IGNORE
    order = np.random.default_rng(seed).random((3, task.size)).argsort(axis=1)
    moved_inputs, moved = task.renumber(inputs, targets, order)
    assert np.array_equal(task.verify(moved_inputs, moved).conflicts, task.verify(inputs, targets).conflicts)
    assert (moved[:, task.size :] == IGNORE).all()
    for row in range(3):
        before = nx.Graph(naive_edges(task.size, inputs[row].tolist()))
        after = nx.Graph(naive_edges(task.size, moved_inputs[row].tolist()))
        assert {frozenset(order[row][list(edge)].tolist()) for edge in after.edges} == set(map(frozenset, before.edges))
    back_inputs, back = task.renumber(moved_inputs, moved, order.argsort(axis=1))
    assert np.array_equal(back_inputs, inputs)
    assert np.array_equal(back, targets)


def test_relabelling_keeps_training_rows_valid_and_canonical() -> None:
    task = Colouring(size=8, relabel=True)
    train = task.split("train")
    inputs, targets = task.augment(train.inputs[:2000], train.targets[:2000], np.random.default_rng(0))
    assert task.verify(inputs, targets).valid.all()
    assert np.array_equal(task.canonical(targets)[:, :8], targets[:, :8])
    assert (inputs != train.inputs[:2000]).any(axis=1).mean() > 0.9
    again, _ = task.augment(train.inputs[:2000], train.targets[:2000], np.random.default_rng(0))
    assert np.array_equal(again, inputs)
    classes = graphs.isomorphism_classes(np.concatenate([inputs, train.inputs[:2000]]) == EDGE, 8)
    assert np.array_equal(classes[:2000], classes[2000:])


def test_without_the_option_nothing_is_relabelled(task: Colouring) -> None:
    train = task.split("train")
    inputs, targets = task.augment(train.inputs, train.targets, np.random.default_rng(0))
    assert inputs is train.inputs
    assert targets is train.targets
    assert not task.augments
    assert Colouring(relabel=True).augments


# Reading and drawing


def test_parse_reads_back_what_render_draws(task: Colouring) -> None:
    for tokens in task.split("test").distinct(50)[0]:
        assert np.array_equal(task.parse(task.render(tokens)), tokens)
        assert task.render(tokens, tokens) == task.render(tokens)
    empty = np.full(28, NO_EDGE)
    assert np.array_equal(task.parse(task.render(empty)), empty)


DIMACS = "c a triangle and a tail\np edge 4 4\ne 1 2\ne 2 3\ne 3 1\ne 4 3\n"


def test_parse_accepts_edge_lists_dimacs_and_networkx(tmp_path: Path) -> None:
    task = Colouring(size=5)
    expected = task.parse("0-1, 1-2, 0-2, 2-3")
    assert naive_edges(5, expected.tolist()) == [(0, 1), (0, 2), (1, 2), (2, 3)]  # vertex 4 is added without edges
    file = tmp_path / "tail.col"
    file.write_text(DIMACS)
    graph = nx.Graph([("a", "b"), ("b", "c"), ("c", "a"), ("c", "d")])
    for same in ("0 1\n1 2\n2 0\n3 2\n", " 1 - 0;2-1,0 2, 2-3, 3-2", DIMACS, str(file), graph):
        assert np.array_equal(task.parse(same), expected)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "the graph is empty"),
        ("0-1, 2", "'2' is no edge: write two vertex numbers, such as 0-1 or 0 1"),
        ("0-1, a-b", "'a-b' is no edge"),
        ("0 1 2", "'0 1 2' is no edge"),
        ("0-1, 2-2", "the edge '2-2' joins a vertex to itself"),
        ("0-1, 1-9", "the graph has 10 vertices (0 to 9), but colouring-5 takes at most 5"),
        ("0-1, 0-2, 0-3, 1-2, 1-3, 2-3", "the graph cannot be coloured with 3 colours"),
        ("missing.col", "the graph missing.col cannot be read"),
        ("p edge 3 1\ne 1\n", "the DIMACS text, line 2: 'e VERTEX VERTEX' is expected"),
    ],
)
def test_parse_says_what_is_wrong(text: str, message: str) -> None:
    with pytest.raises(GramError) as error:
        Colouring(size=5).parse(text)
    assert str(error.value).startswith(message)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("e 1 2\n", "line 1: 'e VERTEX VERTEX' is expected, after the line 'p edge', not 'e 1 2'"),
        ("p edge 3 1\n\ne 1 x\n", "line 3: a whole number is expected, not 'x'"),
        ("p edge 3 1\ne 1 4\n", "line 2: 'e 1 4' names a vertex that is not from 1 to 3"),
        ("p edge 3 1\ne 0 1\n", "line 2: 'e 0 1' names a vertex that is not from 1 to 3"),
        ("p edge 3 1\ne 2 2\n", "line 2: 'e 2 2' joins a vertex to itself"),
        ("p edge 3\n", "line 1: one line 'p edge VERTICES EDGES' is expected"),
        ("p edge 3 3\ne 1 2\ne 2 3\n", "line 1: 3 edges are announced, and there are 2: it is cut off"),
        ("p edge 3 1\np edge 3 1\n", "line 2: one line 'p edge VERTICES EDGES' is expected"),
        ("p edge 3 1\nx 1 2\n", "line 2: a line starts with c, p, n or e, not 'x'"),
    ],
)
def test_a_malformed_dimacs_line_is_named(tmp_path: Path, content: str, message: str) -> None:
    file = tmp_path / "bad.col"
    file.write_text(content)
    with pytest.raises(GramError) as error:
        Colouring(size=5).parse(str(file))
    assert str(error.value).startswith(f"{file}, {message}")


def test_other_bad_graphs_are_refused(tmp_path: Path) -> None:
    file = tmp_path / "comment.col"
    file.write_text("c nothing else\n")
    task = Colouring(size=5)
    with pytest.raises(GramError, match=r"comment\.col has no line 'p edge VERTICES EDGES'"):
        task.parse(str(file))
    with pytest.raises(GramError, match="the graph has 20 vertices"):
        task.parse("p edge 20 0\n")
    with pytest.raises(GramError, match="the graph has 6 vertices"):
        task.parse(nx.path_graph(6))
    with pytest.raises(GramError, match="joins its node 'b' to itself"):
        task.parse(nx.Graph([("a", "b"), ("b", "b")]))


def test_render_names_colours_conflicts_and_illegal_tokens() -> None:
    task = Colouring(size=4)
    graph = task.parse("0-1, 1-2, 2-3")
    assert task.render(np.array([3, 4, 5, 3, PAD, PAD]), graph) == "0: red\n1: blue\n2: green\n3: red"
    output = np.array([3, 3, EDGE, 4, EDGE, EDGE])
    assert task.render(output, graph) == "0: red  CONFLICT with 1\n1: red  CONFLICT with 0\n2: ?\n3: blue"
    assert task.render(np.array([3, 3, 4, 5, IGNORE, IGNORE])) == "0: red\n1: red\n2: blue\n3: green"
    wrong = np.full(6, NO_EDGE)
    assert task.render(wrong, graph) == "0: ?\n1: ?\n2: ?\n3: ?"  # an answer, though it could be a graph


def test_draw_marks_conflicting_edges_red() -> None:
    figure_module = pytest.importorskip("matplotlib.figure")
    task = Colouring(size=4)
    graph = task.parse("0-1, 1-2, 2-3")
    axes = figure_module.Figure().subplots()
    task.draw(axes, np.array([3, 3, 4, 5, PAD, PAD]), graph)
    assert [line.get_color() for line in axes.lines] == ["#d62728", "#999999", "#999999"]
    assert [text.get_text() for text in axes.texts] == ["0", "1", "2", "3"]
    colours = axes.collections[0].get_facecolors()
    assert np.array_equal(colours[0], colours[1])
    assert len(np.unique(colours, axis=0)) == 3
    plain = figure_module.Figure().subplots()
    task.draw(plain, graph, graph)
    assert [line.get_color() for line in plain.lines] == ["#999999"] * 3
    task.draw(figure_module.Figure().subplots(), graph)
    illegal = figure_module.Figure().subplots()
    task.draw(illegal, np.array([3, 1, 4, 5, PAD, PAD]))
    assert [text.get_text() for text in illegal.texts] == ["0", "1?", "2", "3"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"size": 3}, "from 4 to 16, not 3"),
        ({"size": 17}, "from 4 to 16, not 17"),
        ({"colours": 1}, "from 2 to 6, not 1"),
        ({"colours": 7}, "from 2 to 6, not 7"),
        ({"edge_probability": 0.0}, "edge_probability must lie"),
        ({"edge_probability": 1.0}, "edge_probability must lie"),
        ({"train_graphs": 0}, "train_graphs must be"),
        ({"test_graphs": -1}, "test_graphs must be"),
        ({"max_colourings": 0}, "max_colourings must be"),
        ({"validation_share": 1.0}, "validation_share must be"),
        ({"seed": -1}, "must not be negative"),
    ],
)
def test_wrong_arguments_are_refused(arguments: dict[str, object], message: str) -> None:
    with pytest.raises(GramError, match=message):
        Colouring(**arguments)  # type: ignore[arg-type]


def test_wrong_shapes_and_splits_are_refused(task: Colouring) -> None:
    with pytest.raises(GramError, match=r"\[rows, 28\], not \[2, 16\]"):
        task.verify(np.ones((2, 16), dtype=np.int64), np.ones((2, 28), dtype=np.int64))
    with pytest.raises(GramError, match="not 3 outputs for 2 inputs"):
        task.verify(np.ones((2, 28), dtype=np.int64), np.ones((3, 28), dtype=np.int64))
    with pytest.raises(GramError, match="no split 'dev'"):
        task.split("dev")  # type: ignore[arg-type]
