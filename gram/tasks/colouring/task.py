"""Graph colouring: give every vertex one of k colours so that no edge joins two vertices of one colour.

As in the paper, the graphs are Erdos-Renyi graphs that can be coloured, and an input has as many targets as its graph
has colourings; colours are named in order of first use, so that renaming them makes no second colouring.

The paper does not state its edge probability. Its "7,002 training and 255 test instances" are read as training pairs
and test graphs, and `gram.tasks.colouring.data.PAPER` holds what agrees with that; docs/tasks.md says why.

Isomorphic graphs are never in two splits: a model that has seen a graph under other vertex numbers has seen its answer.

    task = Colouring(size=8)
    train = task.split("train")               # inputs, targets [rows, 28]; one row per graph and colouring
    print(task.render(train.targets[0], train.inputs[0]))
"""

from functools import cached_property
from operator import index
from typing import TYPE_CHECKING, Any

import numpy as np

from gram.errors import GramError
from gram.tasks import store
from gram.tasks.base import (
    IGNORE,
    Examples,
    SplitName,
    Task,
    Tokens,
    Verdict,
    check_count,
    check_pairs,
    check_rows,
    check_split,
    check_split_options,
)
from gram.tasks.colouring import graphs
from gram.tasks.colouring.data import SPLITS, build, defaults
from gram.tasks.colouring.files import read_graph, read_networkx

if TYPE_CHECKING:
    import networkx as nx
    from matplotlib.axes import Axes

PAD, NO_EDGE, EDGE, FIRST_COLOUR = 0, 1, 2, 3

COLOUR_NAMES = ("red", "blue", "green", "orange", "purple", "brown")
MAX_LISTED = 100_000
"""A graph with more colourings than this has too few edges for its solutions to be listed."""


class Colouring(Task):
    """Colouring of graphs with `size` vertices; tokens are 0 pad, 1 no edge, 2 edge, 3 and up the colours.

    An input is the strict upper triangle of the adjacency matrix, row by row. The first `size` positions of a target
    are the vertices' colours; the others carry no label, and what an output says there is ignored.
    """

    def __init__(
        self,
        *,
        size: int = 8,
        colours: int = 3,
        edge_probability: float | None = None,
        train_graphs: int | None = None,
        test_graphs: int | None = None,
        validation_share: float = 0.05,
        max_colourings: int | None = 1000,
        relabel: bool = False,
        stratified: bool = True,
        seed: int | None = None,
    ) -> None:
        """Describe the benchmark; the data is built when it is first asked for, and kept.

        Args:
            size: vertices of a graph, 4 to 16.
            colours: how many there are, 2 to 6.
            edge_probability: of the Erdos-Renyi graphs; by default 0.61 for 8 vertices, 0.46 for 10, and elsewhere what
                makes as many colourings per random graph as 8 vertices have at 0.5.
            train_graphs: distinct labelled graphs to train on, those for validation included; by default 2,295, or
                1,728 for 10 vertices.
            test_graphs: distinct labelled graphs to test on; by default the paper's 255, or 192 for 10 vertices. Where
                too few graphs exist for both defaults, a tenth of them.
            validation_share: of the training graphs.
            max_colourings: a random subset of at most this many colourings of a graph is trained on; None keeps all.
                The test and validation splits always hold all. With the defaults this cuts nothing up to 10 vertices.
            relabel: renumber the vertices at random each time that an example is used in training.
            stratified: give every split about the same mean number of colourings; False splits at random.
            seed: of the graphs and the split; by default the one that makes the paper's number of training pairs for 8
                and 10 vertices, and 0 elsewhere.
        """
        if not 4 <= index(size) <= 16:
            raise GramError(f"The number of vertices must be from 4 to 16, not {size}.")
        if not 2 <= index(colours) <= 6:
            raise GramError(f"The number of colours must be from 2 to 6, not {colours}.")
        if edge_probability is not None and not 0 < edge_probability < 1:
            raise GramError(f"edge_probability must lie between 0 and 1, not be {edge_probability}.")
        limits = {"train_graphs": train_graphs, "test_graphs": test_graphs, "max_colourings": max_colourings}
        for name, limit in limits.items():
            check_count(name, limit, least=1, none=True)
        default = defaults(size, colours)
        seed = default.seed if seed is None else seed
        check_split_options(seed=seed, validation_share=validation_share)
        self.name = f"colouring-{size}"
        self.vocab_size = FIRST_COLOUR + colours
        self.length = size * (size - 1) // 2
        self.size, self.colours, self.seed = size, colours, seed
        self.edge_probability = default.edge_probability if edge_probability is None else edge_probability
        self.train_graphs, self.test_graphs = train_graphs, test_graphs
        self.stratified = bool(stratified)
        self.validation_share, self.max_colourings = validation_share, max_colourings
        self.has_validation = validation_share > 0
        self.augments = bool(relabel)

    @cached_property
    def _data(self) -> store.Arrays:
        """The graphs in order of test, validation and train, how many each split has, and all their colourings."""
        names = ("size", "colours", "edge_probability", "train_graphs", "test_graphs", "validation_share", "stratified")
        settings: dict[str, Any] = {name: getattr(self, name) for name in (*names, "seed")}
        return store.cached_arrays("colouring-2", settings, lambda: build(**settings))

    def split(self, name: SplitName) -> Examples:
        """Return a seeded split, one row per graph and colouring [rows, length]; no graph is in two splits."""
        check_split(name)
        number = SPLITS.index(name)
        first, last = np.cumsum([0, *self._data["graphs"]])[[number, number + 1]]
        chosen = slice(*np.searchsorted(self._data["graph"], (first, last)))
        graph, colours = self._data["graph"][chosen], self._data["colours"][chosen]
        if name == "train" and self.max_colourings is not None:
            kept = graphs.random_rows_of_each(graph, self.max_colourings, np.random.default_rng(self.seed))
            graph, colours = graph[kept], colours[kept]
        inputs = np.where(self._data["edges"][graph], EDGE, NO_EDGE).astype(np.int64, copy=False)
        return Examples(inputs, self._padded(colours, IGNORE), graph)

    def verify(self, inputs: Tokens, outputs: Tokens) -> Verdict:
        """Judge outputs [rows, length] against inputs [rows, length].

        The conflicts are the edges between two vertices of one colour, and the vertices whose token is no colour.
        """
        inputs, outputs = check_pairs(self, inputs, outputs)
        uncoloured = (~self._coloured(outputs)).sum(axis=1)
        conflicts = self._conflicts(inputs, outputs).sum(axis=1) + uncoloured
        return Verdict(valid=conflicts == 0, conflicts=conflicts)

    def _coloured(self, outputs: Tokens) -> graphs.Mask:
        """[rows, size] whether the vertex has a colour."""
        return np.isin(outputs[:, : self.size], np.arange(FIRST_COLOUR, self.vocab_size))

    def _conflicts(self, inputs: Tokens, outputs: Tokens) -> graphs.Mask:
        """[rows, length] whether there is an edge and it joins two vertices of one colour."""
        lower, higher = graphs.vertex_pairs(self.size)
        same = (outputs[:, lower] == outputs[:, higher]) & self._coloured(outputs)[:, lower]
        conflicts: graphs.Mask = same & (inputs == EDGE)
        return conflicts

    def canonical(self, outputs: Tokens) -> Tokens:
        """Name the colours of outputs [rows, length] in order of first use, and blank what follows the vertices."""
        vertices = check_rows(self, outputs)[:, : self.size]
        has = vertices[:, :, None] == FIRST_COLOUR + np.arange(self.colours)  # [rows, size, colours]
        first_use = np.where(has.any(axis=1), has.argmax(axis=1), self.size)
        new_names = np.argsort(np.argsort(first_use, axis=1, kind="stable"), axis=1)  # [rows, colours]
        renamed = FIRST_COLOUR + (has * new_names[:, None, :]).sum(axis=2)
        result = np.full_like(outputs, PAD)
        result[:, : self.size] = np.where(has.any(axis=2), renamed, vertices)
        return result

    def solutions(self, tokens: Tokens) -> Tokens | None:
        """Return all canonical colourings [count, length] of one input [length], or None if there are over 100,000."""
        edges = check_rows(self, tokens[None]) == EDGE
        if graphs.count_colourings(edges[0], self.size, self.colours) > MAX_LISTED:
            return None
        return self._padded(graphs.list_colourings(edges, self.size, self.colours)[1], PAD)

    def solution_counts(self, inputs: Tokens) -> Tokens:
        """Return how many colourings [rows] each input [rows, length] has, exact however many they are."""
        edges = check_rows(self, inputs) == EDGE
        return np.array([graphs.count_colourings(row, self.size, self.colours) for row in edges], dtype=np.int64)

    def augment(self, inputs: Tokens, targets: Tokens, generator: np.random.Generator) -> tuple[Tokens, Tokens]:
        """Number the vertices of each row [rows, length] in a random order, if the option `relabel` is set."""
        if not self.augments:
            return inputs, targets
        return self.renumber(inputs, targets, generator.random((len(inputs), self.size)).argsort(axis=1))

    def renumber(self, inputs: Tokens, targets: Tokens, order: Tokens) -> tuple[Tokens, Tokens]:
        """Make vertex order[row, i] the vertex i; the colours are renamed in order of first use.

        order [rows, size] holds a permutation in each row; inputs and targets are [rows, length].
        """
        lower, higher = graphs.vertex_pairs(self.size)
        place = np.zeros((self.size, self.size), dtype=np.int64)  # of an edge in the input
        place[lower, higher] = place[higher, lower] = np.arange(self.length)
        inputs = np.take_along_axis(check_rows(self, inputs), place[order[:, lower], order[:, higher]], axis=1)
        moved = check_rows(self, targets).copy()
        moved[:, : self.size] = np.take_along_axis(targets, order, axis=1)
        moved[:, : self.size] = self.canonical(moved)[:, : self.size]
        return inputs, moved

    def parse(self, text: "str | nx.Graph") -> Tokens:
        """Turn a graph into tokens [length]: an edge list, the path or text of a DIMACS .col file, a networkx graph.

        Edge lists such as 0-1, 1-2 count vertices from 0. Vertices that the graph lacks are added without edges; such a
        vertex can have any colour, so the colourings of a smaller graph become more.
        """
        vertices, edges = read_graph(text) if isinstance(text, str) else read_networkx(text)
        if vertices > self.size:
            raise GramError(
                f"The graph has {vertices} vertices (0 to {vertices - 1}), but {self.name} takes at most {self.size}."
            )
        adjacent = np.zeros((self.size, self.size), dtype=np.bool_)
        for a, b in edges:
            adjacent[min(a, b), max(a, b)] = True
        present = adjacent[graphs.vertex_pairs(self.size)]
        if not graphs.count_colourings(present, self.size, self.colours):
            raise GramError(f"The graph cannot be coloured with {self.colours} colours: remove an edge.")
        return np.where(present, EDGE, NO_EDGE).astype(np.int64, copy=False)

    def render(self, tokens: Tokens, given: Tokens | None = None) -> str:
        """Draw one row [length] as text: a graph as its edge list, a colouring as one line per vertex.

        '?' stands for a token that is no colour. Where `given` tells the graph, neighbours of one colour are named.
        """
        tokens = check_rows(self, tokens[None])[0]
        if self._is_graph(tokens, given):
            ends = zip(*graphs.vertex_pairs(self.size), strict=True)
            edges = [f"{a}-{b}" for (a, b), token in zip(ends, tokens, strict=True) if token == EDGE]
            return ", ".join(edges) or "no edges"
        clashes = self._clashes(tokens, given)
        lines = []
        for vertex, token in enumerate(tokens[: self.size].tolist()):
            rivals = ", ".join(str(other) for other in np.flatnonzero(clashes[vertex]))
            lines.append(f"{vertex}: {self._colour_name(token)}" + (f"  CONFLICT with {rivals}" if rivals else ""))
        return "\n".join(lines)

    def draw(self, axes: "Axes", tokens: Tokens, given: Tokens | None = None) -> None:
        """Draw one row [length]: the vertices on a circle in their colours, edges grey, or red where they conflict."""
        tokens = check_rows(self, tokens[None])[0]
        plain = self._is_graph(tokens, given)
        graph = tokens if plain else np.zeros_like(tokens) if given is None else given
        clashes = self._clashes(tokens, given)
        angle = np.pi / 2 - 2 * np.pi * np.arange(self.size) / self.size  # clockwise from the top
        x, y = np.cos(angle), np.sin(angle)
        for a, b in np.stack(graphs.vertex_pairs(self.size), axis=1)[graph == EDGE]:
            style = {"color": "#d62728", "linewidth": 2.5} if clashes[a, b] else {"color": "#999999"}
            axes.plot(x[[a, b]], y[[a, b]], zorder=1, **style)
        names = ["?" if plain else self._colour_name(token) for token in tokens[: self.size].tolist()]
        fills = ["white" if name == "?" else name for name in names]
        axes.scatter(x, y, s=250, c=fills, edgecolors="black", zorder=2)
        for vertex, name in enumerate(names):
            label = f"{vertex}?" if name == "?" and not plain else str(vertex)
            ink = "black" if name == "?" else "white"
            axes.text(x[vertex], y[vertex], label, ha="center", va="center", color=ink)
        axes.set(xlim=(-1.2, 1.2), ylim=(-1.2, 1.2), xticks=[], yticks=[], aspect="equal")

    def _is_graph(self, tokens: Tokens, given: Tokens | None) -> bool:
        """Return whether tokens [length] are an input and not an answer."""
        return bool(np.isin(tokens, (NO_EDGE, EDGE)).all()) and (given is None or np.array_equal(tokens, given))

    def _clashes(self, tokens: Tokens, given: Tokens | None) -> graphs.Mask:
        """[size, size] whether two vertices are joined and have one colour; nowhere if the graph is not known."""
        known = np.zeros_like(tokens) if given is None else given
        clashes: graphs.Mask = graphs.matrices(self._conflicts(known[None], tokens[None]), self.size)[0]
        return clashes

    def _colour_name(self, token: int) -> str:
        return COLOUR_NAMES[token - FIRST_COLOUR] if FIRST_COLOUR <= token < self.vocab_size else "?"

    def _padded(self, colours: np.ndarray, filler: int) -> Tokens:
        """Return tokens [rows, length] of colours from 0 [rows, size]."""
        tokens = np.full((len(colours), self.length), filler, dtype=np.int64)
        tokens[:, : self.size] = colours + FIRST_COLOUR
        return tokens
