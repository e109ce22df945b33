"""Rules that select one answer among many trajectories."""

from typing import Literal, get_args

import numpy as np
from numpy.typing import NDArray

from gram.errors import GramError
from gram.tasks.base import Tokens

Rule = Literal["first", "vote", "value", "halt", "verified"]
RULES: tuple[Rule, ...] = get_args(Rule)
BY_HEADS: tuple[Rule, ...] = ("value", "halt")
"""rules that use the heads of a recursive model"""
MEANING: dict[Rule, str] = {
    "first": "the first sample",
    "vote": "the most frequent whole output",
    "value": "the highest value (LPRM)",
    "halt": "the most confident halt head",
    "verified": "the task's checker",
}


def check_rule(rule: str, *, has_rules: bool) -> None:
    """Raise `GramError` unless the rule exists and can be used for a task with or without a checker."""
    if rule not in RULES:
        raise GramError(f"There is no selection rule '{rule}'. The rules are {', '.join(RULES)}.")
    if rule == "verified" and not has_rules:
        raise GramError("This task has no checker, so nothing can be verified: select by vote, value or halt.")


def select(
    outputs: Tokens, values: NDArray[np.float32], confidence: NDArray[np.float32], valid: NDArray[np.bool_], rule: Rule
) -> int:
    """Return the index of the selected trajectory; outputs [width, length], values, confidence and valid [width].

    `first` is the first sample; `vote` the most frequent whole output (ties go to the higher value, then to the earlier
    sample); `value` and `halt` the one that the value head (LPRM) or the halt head rates best. These do not use
    `valid`; `verified` takes the vote of the valid ones, or of all if there is none.
    """
    check_rule(rule, has_rules=True)
    if rule == "first":
        return 0
    if rule in ("value", "halt"):
        return int((values if rule == "value" else confidence).argmax())
    pool = np.flatnonzero(valid) if rule == "verified" and valid.any() else np.arange(len(outputs))
    _, member, counts = np.unique(outputs[pool], axis=0, return_inverse=True, return_counts=True)
    # np.lexsort sorts by its last key first; the earliest sample wins what is still tied.
    order = np.lexsort((pool, -values[pool], -counts[member.reshape(-1)]))
    return int(pool[order[0]])


def selected_are_valid(
    outputs: Tokens, values: NDArray[np.float32], confidence: NDArray[np.float32], valid: NDArray[np.bool_], rule: Rule
) -> NDArray[np.bool_]:
    """Return whether the selected answers are valid: [puzzles]; all arguments are [puzzles, width, ...]."""
    rows = zip(outputs, values, confidence, valid, strict=True)
    return np.array([right[select(boards, value, sure, right, rule)] for boards, value, sure, right in rows])


def distinct(outputs: Tokens) -> tuple[Tokens, NDArray[np.int64]]:
    """Return the distinct rows of outputs [width, length], most frequent first, and how often each occurs."""
    if not len(outputs):
        return outputs, np.zeros(0, dtype=np.int64)
    rows, first, counts = np.unique(outputs, axis=0, return_index=True, return_counts=True)
    order = np.lexsort((first, -counts))
    return rows[order], counts[order]
