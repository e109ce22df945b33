"""The graphs of the colouring task: how many, how dense, and which split each of them is in."""

from typing import NamedTuple

import numpy as np

from gram.errors import GramError
from gram.tasks import store
from gram.tasks.base import SplitName, split_bounds
from gram.tasks.colouring import graphs

SPLITS: tuple[SplitName, ...] = ("test", "validation", "train")
"""In the order in which graphs are stored."""


class Defaults(NamedTuple):
    """The data that is built unless the task's options say otherwise."""

    edge_probability: float
    train_graphs: int
    test_graphs: int
    seed: int


# 255 and 192 test graphs are a tenth of all graphs. The seeds were searched for the paper's number of training pairs,
# 7,002 and 13,465, and for nothing else; the pairs of other seeds differ from it by a few per cent.
PAPER = {(8, 3): Defaults(0.61, 2_295, 255, seed=1561), (10, 3): Defaults(0.46, 1_728, 192, seed=5093)}
"""The data that agrees with the paper's counts, by number of vertices and colours."""


def defaults(size: int, colours: int) -> Defaults:
    """Return the paper's data, or for another size as many graphs as it has with 8 vertices."""
    if (size, colours) in PAPER:
        return PAPER[size, colours]
    return PAPER[8, 3]._replace(edge_probability=graphs.balanced_probability(size, colours), seed=0)


def build(
    *,
    size: int,
    colours: int,
    edge_probability: float,
    train_graphs: int | None,
    test_graphs: int | None,
    validation_share: float,
    stratified: bool,
    seed: int,
) -> store.Arrays:
    """Draw the graphs, split them, and list their colourings; `Colouring` explains the options.

    Returns `edges` [graphs, pairs] in order of `SPLITS`, the number of `graphs` [3] in each split, and of every
    colouring its `graph` [colourings] and the vertices' `colours` [colourings, size].
    """
    generator = np.random.default_rng(seed)
    usual = defaults(size, colours)
    train, test = train_graphs or usual.train_graphs, test_graphs or usual.test_graphs
    edges = graphs.random_colourable(size, colours, edge_probability, train + test, generator)
    if len(edges) < train + test:
        if train_graphs or test_graphs or size > 6:
            raise GramError(
                f"{train:,} + {test:,} graphs are asked for, but only {len(edges):,} were found: lower "
                f"train_graphs and test_graphs, or change edge_probability (now {edge_probability})."
            )
        test = len(edges) // 10
    counts = np.bincount(graphs.list_colourings(edges, size, colours)[0])
    _, validation = split_bounds(len(edges) - test, validation_share=validation_share)
    wanted: dict[SplitName, int] = {"test": test, "validation": validation}
    split = assign_splits(
        graphs.isomorphism_classes(edges, size), counts if stratified else None, wanted=wanted, generator=generator
    )
    edges = edges[np.argsort(split, kind="stable")]
    graph, chosen = graphs.list_colourings(edges, size, colours)
    return {"edges": edges, "graphs": np.bincount(split, minlength=3), "graph": graph, "colours": chosen}


def assign_splits(
    classes: graphs.Ints,
    colourings: graphs.Ints | None,
    *,
    wanted: dict[SplitName, int],
    generator: np.random.Generator,
) -> graphs.Ints:
    """Return the place in `SPLITS` of every graph [graphs]; isomorphic graphs, of one class [graphs], share it.

    Each split gets about as many graphs as are `wanted`, and train the rest. With the number of colourings [graphs],
    the splits have about the same mean of it; without, they are random.
    """
    split = np.full(len(classes), SPLITS.index("train"))
    for name, count in wanted.items():
        free = np.flatnonzero(split == SPLITS.index("train"))
        if colourings is None:
            chosen = graphs.whole_classes(classes[free], count, generator)
        else:
            chosen = graphs.evenly_spread_classes(classes[free], colourings[free], count, generator)
        split[free[chosen]] = SPLITS.index(name)
    return split
