"""The colouring task in plain Python, to compare with."""

from itertools import combinations


def naive_edges(size: int, tokens: list[int]) -> list[tuple[int, int]]:
    return [pair for pair, token in zip(combinations(range(size), 2), tokens, strict=True) if token == 2]
