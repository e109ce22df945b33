"""The task of a token model whose data is not available: it can solve puzzles, but not be evaluated."""

from typing import Any

import numpy as np

from gram.errors import GramError
from gram.tasks.base import Examples, SplitName, Tokens, Verdict, check_pairs
from gram.tasks.tokens.plugin import Plugin
from gram.tasks.tokens.task import TokenFile, checked_shape


class TokensWithoutData(TokenFile):
    """Rows of tokens of a known shape and vocabulary. Only a plugin can verify an answer."""

    def __init__(
        self,
        *,
        path: str,
        vocab_size: int,
        length: int,
        plugin: str | None = None,
        shape: tuple[int, int] | None = None,
    ) -> None:
        """Use the sizes of the model; `path` is the missing data."""
        self.path, self.vocab_size, self.length = path, vocab_size, length
        self.shape = checked_shape(shape, length)
        self.puzzles = 0
        self.plugin = Plugin(plugin)
        self._structure = self.plugin.structure(length=length, vocab_size=vocab_size)
        self.has_rules = self.plugin.has("verify")

    def split(self, name: SplitName) -> Examples:
        """Raise `GramError`: there is no data."""
        raise GramError(f"The data of this model, {self.path}, is missing: put it there, or below GRAM_DATA.")

    def check_puzzle_table(self, stored: dict[str, Any]) -> None:
        """Accept any table: puzzle ids come from data, and there is none."""

    def verify(self, inputs: Tokens, outputs: Tokens) -> Verdict:
        """Verify outputs [rows, length] by the plugin; without one, nothing is valid."""
        if self.has_rules:
            return super().verify(inputs, outputs)
        inputs, outputs = check_pairs(self, inputs, outputs)
        return Verdict(valid=np.zeros(len(inputs), bool), conflicts=np.zeros(len(inputs), np.int64))

    def solutions(self, tokens: Tokens) -> Tokens | None:
        """Return None: no target is known."""
        return None

    def canonical(self, outputs: Tokens) -> Tokens:
        """Change nothing: which positions have no label is not known."""
        return outputs
