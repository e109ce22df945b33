"""Choose one answer among many trajectories. Every choice says how it was made."""

from typing import Literal, get_args

import numpy as np
from numpy.typing import NDArray

from gram.errors import GramError
from gram.tasks.base import Tokens

Rule = Literal["first", "vote", "value"]


def select(outputs: Tokens, values: NDArray[np.float32], rule: Rule) -> int:
    """Index of the chosen trajectory among outputs [width, length] with values [width].

    `first` is the first sample, `vote` the most frequent whole output (ties go to the higher value, then to the earlier
    sample), `value` the one that the value head (LPRM) rates best.
    """
    if rule == "first":
        return 0
    if rule == "value":
        return int(values.argmax())
    if rule != "vote":
        raise GramError(f"There is no rule '{rule}' to choose an answer; there is {', '.join(get_args(Rule))}.")
    _, member, counts = np.unique(outputs, axis=0, return_inverse=True, return_counts=True)
    # np.lexsort sorts by its last key first; the earliest sample wins what is still tied.
    order = np.lexsort((np.arange(len(outputs)), -values, -counts[member.reshape(-1)]))
    return int(order[0])


def distinct(outputs: Tokens) -> tuple[Tokens, NDArray[np.int64]]:
    """The different rows of outputs [width, length], most frequent first, and how often each occurred."""
    if not len(outputs):
        return outputs, np.zeros(0, dtype=np.int64)
    rows, first, counts = np.unique(outputs, axis=0, return_index=True, return_counts=True)
    order = np.lexsort((first, -counts))
    return rows[order], counts[order]
