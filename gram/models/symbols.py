"""Interchangeable symbols: tokens are encoded relative to each symbol, which makes the model equivariant."""

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor, nn

from gram.models.layers import Linear


class Symbols(nn.Module):
    """Encodes tokens relative to every symbol: "this symbol", "another symbol", or one of the other tokens."""

    table: Tensor
    """[vocabulary, symbols] the number of each token relative to each symbol"""

    def __init__(self, symbols: Sequence[int], vocab_size: int) -> None:
        super().__init__()
        self.tokens = list(symbols)
        self.others = [token for token in range(vocab_size) if token not in self.tokens]
        # By numpy: torch would import its compiler, half a second, if the model is built on the meta device.
        table = np.ones((vocab_size, self.count), dtype=np.int64)
        table[self.tokens] -= np.eye(self.count, dtype=np.int64)
        table[self.others] = np.arange(2, self.kinds)[:, None]
        self.register_buffer("table", torch.from_numpy(table), persistent=False)

    @property
    def count(self) -> int:
        """The number of symbols."""
        return len(self.tokens)

    @property
    def kinds(self) -> int:
        """The number of relative codes."""
        return 2 + len(self.others)

    def relative(self, tokens: Tensor) -> Tensor:
        """Number tokens [batch, cells] relative to each symbol: [batch, cells x symbols]."""
        return self.table[tokens].flatten(1)


class SymbolDecoder(nn.Module):
    """Logits of a cell: one number per symbol from that symbol's state; the other tokens' from the mean state."""

    order: Tensor

    def __init__(self, dim: int, symbols: Symbols) -> None:
        super().__init__()
        self.symbols = symbols
        self.of_symbol = Linear(dim, 1)
        self.of_others = Linear(dim, len(symbols.others))
        order = torch.tensor(symbols.tokens + symbols.others).argsort()
        self.register_buffer("order", order, persistent=False)

    def forward(self, h: Tensor) -> Tensor:
        """Decode h [batch, cells x symbols, dim] to logits [batch, cells, vocabulary]."""
        states = h.view(len(h), -1, self.symbols.count, h.shape[-1])
        logits = torch.cat((self.of_symbol(states).squeeze(-1), self.of_others(states.mean(dim=2))), dim=-1)
        return logits[..., self.order]
