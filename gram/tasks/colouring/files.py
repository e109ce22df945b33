"""Read a small graph: an edge list, a DIMACS .col file, or a networkx graph."""

import re
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gram.errors import GramError

if TYPE_CHECKING:
    import networkx as nx

Edges = list[tuple[int, int]]


def read_graph(text: str) -> tuple[int, Edges]:
    """Number of vertices and edges of a graph given as edge list, as DIMACS text, or as the path of a .col file.

    An edge list has edges such as 0-1 or 0 1, with commas or new lines between them; its vertices count from 0, and the
    highest one named is the last. DIMACS counts from 1.
    """
    if re.fullmatch(r"\S.*\.col", text.strip()):
        path = Path(text.strip()).expanduser()
        try:
            return read_dimacs(path.read_text().splitlines(), str(path))
        except (OSError, UnicodeDecodeError) as error:
            raise GramError(f"The graph {path} cannot be read ({error}): name a DIMACS .col file.") from error
    if re.search(r"^\s*p\s", text, re.MULTILINE):
        return read_dimacs(text.splitlines(), "The DIMACS text")
    if text.strip() == "no edges":
        return 0, []
    edges = [_edge(part) for part in re.split(r"[,;\n]", text) if part.strip()]
    if not edges:
        raise GramError("The graph is empty: write its edges as 0-1, 1-2, or 'no edges'.")
    return 1 + max(max(edge) for edge in edges), edges


def _edge(part: str) -> tuple[int, int]:
    ends = re.fullmatch(r"\s*(\d+)(?:\s*-\s*|\s+)(\d+)\s*", part, re.ASCII)
    if not ends:
        raise GramError(f"{part.strip()!r} is no edge: write two vertex numbers, such as 0-1 or 0 1.")
    if int(ends[1]) == int(ends[2]):
        raise GramError(f"The edge {part.strip()!r} joins a vertex to itself, so there is no colouring: remove it.")
    return int(ends[1]), int(ends[2])


def read_dimacs(lines: Iterable[str], source: str) -> tuple[int, Edges]:
    """Number of vertices and edges, counted from 0, of a graph in DIMACS format; `source` names it in errors."""
    vertices, announced, line_of_p, edges = None, 0, 0, []
    for number, line in enumerate(lines, 1):
        kind, *fields = line.split() or ["c"]
        where = f"{source}, line {number}"
        if kind == "p":
            if vertices is not None or len(fields) != 3 or fields[0] not in ("edge", "edges", "col"):
                raise GramError(f"{where}: one line 'p edge VERTICES EDGES' is expected, not {line.strip()!r}.")
            vertices = _number(fields[1], where)
            announced, line_of_p = _number(fields[2], where), number
        elif kind == "e":
            if vertices is None or len(fields) != 2:
                raise GramError(
                    f"{where}: 'e VERTEX VERTEX' is expected, after the line 'p edge', not {line.strip()!r}."
                )
            ends = tuple(_number(field, where) for field in fields)
            if not all(1 <= end <= vertices for end in ends):
                raise GramError(f"{where}: {line.strip()!r} names a vertex that is not from 1 to {vertices}.")
            if ends[0] == ends[1]:
                raise GramError(f"{where}: {line.strip()!r} joins a vertex to itself, so there is no colouring.")
            edges.append((ends[0] - 1, ends[1] - 1))
        elif kind not in ("c", "n"):
            raise GramError(f"{where}: a line starts with c, p, n or e, not {kind!r}.")
    if vertices is None:
        raise GramError(f"{source} has no line 'p edge VERTICES EDGES': it is no DIMACS graph.")
    if len(edges) < announced:  # more is usual: files are known to list each edge twice and to count it once
        raise GramError(
            f"{source}, line {line_of_p}: {announced} edges are announced, and there are {len(edges)}: it is cut off."
        )
    return vertices, edges


def _number(field: str, where: str) -> int:
    if not re.fullmatch(r"\d{1,9}", field, re.ASCII):
        raise GramError(f"{where}: a whole number is expected, not {field!r}.")
    return int(field)


def read_networkx(graph: "nx.Graph") -> tuple[int, Edges]:
    """Number of vertices and edges of a networkx graph; its nodes are numbered in their own order."""
    numbers: dict[Any, int] = {node: number for number, node in enumerate(graph.nodes)}
    for a, b in graph.edges():
        if a == b:
            raise GramError(f"The graph joins its node {a!r} to itself, so there is no colouring: remove that edge.")
    return len(numbers), [(numbers[a], numbers[b]) for a, b in graph.edges()]
