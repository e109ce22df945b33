"""What the colouring task promises: a strict verdict, all solutions, and one name for each colouring."""

from itertools import combinations, product

import networkx as nx
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gram.errors import GramError
from gram.tasks.base import IGNORE, Tokens
from gram.tasks.colouring import graphs
from gram.tasks.colouring.task import EDGE, FIRST_COLOUR, NO_EDGE, PAD, Colouring
from tests.tasks.colouring.helpers import naive_edges


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
