"""Graphs in and out as text: what is read, and what is refused by line."""

from pathlib import Path

import networkx as nx
import numpy as np
import pytest

from gram.errors import GramError
from gram.tasks.colouring.task import NO_EDGE, Colouring
from tests.tasks.colouring.helpers import naive_edges


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
        ("", "The graph is empty"),
        ("0-1, 2", "'2' is no edge: write two vertex numbers, such as 0-1 or 0 1"),
        ("0-1, a-b", "'a-b' is no edge"),
        ("0 1 2", "'0 1 2' is no edge"),
        ("0-1, 2-2", "The edge '2-2' joins a vertex to itself"),
        ("0-1, 1-9", "The graph has 10 vertices (0 to 9), but colouring-5 takes at most 5"),
        ("0-1, 0-2, 0-3, 1-2, 1-3, 2-3", "The graph cannot be coloured with 3 colours"),
        ("missing.col", "The graph missing.col cannot be read"),
        ("p edge 3 1\ne 1\n", "The DIMACS text, line 2: 'e VERTEX VERTEX' is expected"),
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
    with pytest.raises(GramError, match="The graph has 20 vertices"):
        task.parse("p edge 20 0\n")
    with pytest.raises(GramError, match="The graph has 6 vertices"):
        task.parse(nx.path_graph(6))
    with pytest.raises(GramError, match="joins its node 'b' to itself"):
        task.parse(nx.Graph([("a", "b"), ("b", "b")]))
