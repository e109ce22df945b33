"""Small labelled graphs: drawing at random, telling apart up to isomorphism, listing colourings.

A graph of n vertices is a row of n(n-1)/2 booleans, True where an edge is: the strict upper triangle of the adjacency
matrix, row by row. A colouring names its colours in order of first use, so that renaming colours makes no second one.
"""

from functools import cache
from math import comb

import numpy as np
from numpy.typing import NDArray

from gram.errors import GramError

Mask = NDArray[np.bool_]
Ints = NDArray[np.int64]

MAX_PARTIAL = 5_000_000
"""Partial colourings held at once while listing: up to 1 GB at six colours."""
BATCH = 2048
"""Graphs drawn and coloured at once."""
SPREAD_CHOICES = 200
"""Choices compared by `evenly_spread_classes`: enough for one of exactly the wanted size at 8 and 10 vertices."""


@cache
def vertex_pairs(size: int) -> tuple[Ints, Ints]:
    """Lower and higher vertex of every possible edge, each [size * (size - 1) / 2] (read-only)."""
    lower, higher = np.triu_indices(size, 1)
    for ends in (lower, higher):
        ends.setflags(write=False)  # shared by every graph of this size
    return lower, higher


def matrices(edges: Mask, size: int) -> Mask:
    """Adjacency matrices [graphs, size, size] of edges [graphs, pairs]."""
    lower, higher = vertex_pairs(size)
    adjacent = np.zeros((len(edges), size, size), dtype=np.bool_)
    adjacent[:, lower, higher] = adjacent[:, higher, lower] = edges
    return adjacent


def neighbourhoods(edges: Mask, size: int) -> Ints:
    """Return the neighbours of every vertex as bits of one integer [graphs, size], of edges [graphs, pairs]."""
    return matrices(edges, size) @ (1 << np.arange(size))


def _place(vertex: int, classes: Ints, used: Ints, neighbours: Ints) -> tuple[Ints, Ints, Ints]:
    """Give a vertex every used colour that is free, and the next new one.

    classes [rows, colours] holds the vertices of each colour as bits, used [rows] the number of colours in use, and
    neighbours [rows] those of the vertex. Returns the row that each result [results] comes from, its classes and used.
    """
    free = (classes & neighbours[:, None]) == 0
    free &= np.arange(classes.shape[1]) <= used[:, None]
    row, colour = np.nonzero(free)
    classes, used = classes[row], used[row]
    classes[np.arange(len(row)), colour] |= 1 << vertex
    return row, classes, used + (colour == used)


def list_colourings(edges: Mask, size: int, colours: int) -> tuple[Ints, NDArray[np.int8]]:
    """Return all proper colourings of graphs [graphs, pairs], in lexicographic order.

    Returns the graph that each belongs to [colourings], ascending, and the colour of each vertex from 0
    [colourings, size].
    """
    starts = range(0, len(edges), BATCH)
    parts = [_list_batch(edges[start : start + BATCH], size, colours) for start in starts]
    graph = np.concatenate([start + graph for start, (graph, _) in zip(starts, parts, strict=True)])
    return graph, np.concatenate([chosen for _, chosen in parts])


def _list_batch(edges: Mask, size: int, colours: int) -> tuple[Ints, NDArray[np.int8]]:
    neighbours = neighbourhoods(edges, size)
    graph = np.arange(len(edges))
    classes, used = np.zeros((len(edges), colours), dtype=np.int64), np.zeros(len(edges), dtype=np.int64)
    for vertex in range(size):
        row, classes, used = _place(vertex, classes, used, neighbours[graph, vertex])
        graph = graph[row]
        if len(graph) > MAX_PARTIAL:
            raise GramError(
                f"These graphs have more than {MAX_PARTIAL:,} colourings: they need more edges to be listed."
            )
    chosen = np.zeros((len(graph), size), dtype=np.int8)
    for colour in range(1, colours):
        chosen[(classes[:, colour, None] >> np.arange(size) & 1) == 1] = colour
    return graph, chosen


def count_colourings(edges: Mask, size: int, colours: int) -> int:
    """Number of proper colourings of one graph [pairs], exact however many there are."""
    neighbours = neighbourhoods(edges[None], size)[0]
    classes = np.zeros((1, colours), dtype=np.int64)
    used, ways = np.zeros(1, dtype=np.int64), np.ones(1, dtype=np.int64)
    for vertex in range(size):
        row, classes, used = _place(vertex, classes, used, np.full(len(used), neighbours[vertex]))
        # Vertices without later neighbours are forgotten, and partial colourings that are then alike become one.
        later = neighbours[: vertex + 1] >> (vertex + 1) != 0
        classes = -np.sort(-(classes & int(later @ (1 << np.arange(vertex + 1)))), axis=1)
        states, alike = np.unique(np.column_stack([classes, used]), axis=0, return_inverse=True)
        classes, used = states[:, :-1], states[:, -1]
        merged = np.zeros(len(states), dtype=np.int64)
        np.add.at(merged, alike.ravel(), ways[row])
        ways = merged
    return int(ways.sum())


@cache
def expected_colourings(size: int, colours: int, edge_probability: float) -> float:
    """Return the mean number of proper colourings of a random graph, those without any included."""
    if size == 0:
        return 1.0
    if colours == 0:
        return 0.0
    return sum(  # over the number of vertices that share the first vertex's colour
        comb(size - 1, same - 1)
        * (1 - edge_probability) ** comb(same, 2)
        * expected_colourings(size - same, colours - 1, edge_probability)
        for same in range(1, size + 1)
    )


def balanced_probability(size: int, colours: int) -> float:
    """Edge probability, to two digits, with as many colourings on average as 8 vertices and 3 colours have at 0.5."""
    grid = np.arange(1, 100) / 100
    wanted = expected_colourings(8, 3, 0.5)
    found = np.array([expected_colourings(size, colours, float(p)) for p in grid])
    return float(grid[np.abs(np.log(found / wanted)).argmin()])


def random_colourable(
    size: int, colours: int, edge_probability: float, limit: int, generator: np.random.Generator
) -> Mask:
    """At most `limit` distinct colourable labelled Erdos-Renyi graphs [graphs, pairs], in the order they are drawn.

    Fewer come back only where no more exist, or where they are too rare to be found.
    """
    if size <= 6:
        return _race(size, colours, edge_probability, generator)[:limit]
    found = np.zeros((0, comb(size, 2)), dtype=np.bool_)
    for _ in range(100 + 20 * limit // BATCH):
        drawn = generator.random((BATCH, found.shape[1])) < edge_probability
        found = _first_occurrences(np.concatenate([found, _colourable(drawn, size, colours)]))
        if len(found) >= limit:
            break
    return found[:limit]


def _race(size: int, colours: int, edge_probability: float, generator: np.random.Generator) -> Mask:
    """Return every colourable graph, in the order in which independent draws would first meet them.

    That order is the order of exponential waiting times at rates in the ratio of the graphs' probabilities.
    """
    pairs = comb(size, 2)
    graphs = (np.arange(2**pairs)[:, None] >> np.arange(pairs) & 1).astype(np.bool_)
    log_rates = graphs.sum(axis=1) * (np.log(edge_probability) - np.log1p(-edge_probability))
    order = np.argsort(np.log(generator.exponential(size=len(graphs))) - log_rates)
    return _colourable(graphs[order], size, colours)


def _colourable(edges: Mask, size: int, colours: int) -> Mask:
    graph, _ = list_colourings(edges, size, colours)
    return edges[np.unique(graph)]


def _first_occurrences(edges: Mask) -> Mask:
    _, first = np.unique(np.packbits(edges, axis=1), axis=0, return_index=True)
    return edges[np.sort(first)]


def isomorphism_classes(edges: Mask, size: int) -> Ints:
    """Return a class number [graphs] of each graph [graphs, pairs]: isomorphic graphs always share it.

    Classes are told apart by refining the colour of every pair of vertices from the multiset of two-step walks between
    them (Weisfeiler-Leman), with 64-bit hashes. Graphs that are not isomorphic but alike in this share a class too.
    """
    pairs = _scramble(matrices(edges, size) + 2 * np.eye(size, dtype=np.uint64)[None])
    for _ in range(4):
        pairs = _scramble(pairs @ pairs + 3 * pairs)  # sums wrap around, and so do not depend on the vertices' order
    vertices = _scramble(_scramble(pairs).sum(axis=2))
    _, classes = np.unique(vertices.sum(axis=1), return_inverse=True)
    return classes.ravel()


def _scramble(values: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Mix the bits of every number (the finaliser of splitmix64)."""
    values = values + np.uint64(0x9E3779B97F4A7C15)
    values = (values ^ (values >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    values = (values ^ (values >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return values ^ (values >> np.uint64(31))


def whole_classes(classes: Ints, wanted: int, generator: np.random.Generator) -> Mask:
    """Choose `wanted` graphs, or nearly so many, so that no class [graphs] is parted; True [graphs] where chosen.

    At least one class is chosen if any graph is wanted.
    """
    sizes = np.bincount(classes)
    chosen = np.zeros(len(sizes), dtype=np.bool_)
    for candidate in generator.permutation(np.flatnonzero(sizes)):
        if sizes[candidate] <= wanted:
            chosen[candidate] = True
            wanted -= sizes[candidate]
    if wanted and not chosen.any():
        chosen[np.where(sizes, sizes, len(classes) + 1).argmin()] = True
    return chosen[classes]


def evenly_spread_classes(classes: Ints, colourings: Ints, wanted: int, generator: np.random.Generator) -> Mask:
    """Choose whole classes like `whole_classes`, with as many colourings per graph [graphs] as in all graphs.

    A few graphs have hundreds of colourings, so the mean of a random choice is mostly luck. Here the classes are put
    in order of their colourings, and every n-th one is taken from a random start. Of several such choices, the one
    nearest to `wanted` graphs is returned; among equals, the one nearest to the mean number of colourings.
    """
    best, least = np.zeros(len(classes), dtype=np.bool_), (np.inf, np.inf)
    if not wanted:
        return best
    names, first, sizes = np.unique(classes, return_index=True, return_counts=True)
    step = len(classes) / wanted
    for _ in range(SPREAD_CHOICES):
        order = np.lexsort([generator.random(len(names)), sizes, colourings[first]])
        start = generator.uniform(0, min(step, len(names)))  # so that at least one class is taken
        taken = order[np.arange(start, len(names), step).astype(np.int64)]
        chosen = np.isin(classes, names[taken])
        difference = abs(colourings[chosen].mean() - colourings.mean())
        score = (abs(chosen.sum() - wanted), float(difference))
        if score < least:
            best, least = chosen, score
    return best


def random_rows_of_each(group: Ints, limit: int, generator: np.random.Generator) -> Ints:
    """Return rows [kept], ascending, with at most `limit` random ones of each group [rows], which ascends."""
    shuffled = np.lexsort([generator.random(len(group)), group])
    rank = np.arange(len(group)) - np.searchsorted(group, group)
    return np.sort(shuffled[rank < limit])
