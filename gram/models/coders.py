"""The token encoder, and the decoder with its LM, halt and value heads."""

import math
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from gram.config import ModelConfig
from gram.models.images import PatchDecoder, PatchEncoder
from gram.models.layers import Linear, SwiGLU, truncated_normal_
from gram.models.symbols import SymbolDecoder, Symbols

HALT_BIAS = -5.0
"""The halt head is initialised to predict that nothing is solved (as published)."""


class Encoder(nn.Module):
    """e_x = sqrt(D) * embed(x), with learned positions and puzzle tokens in front where the model has them.

    Puzzle tokens hold the puzzle's own embedding, or zeros in a model without puzzle embeddings.
    """

    def __init__(self, config: ModelConfig, vocab_size: int, length: int, symbols: Symbols | None = None) -> None:
        super().__init__()
        self.dim = config.dim
        self.symbols = symbols
        self.puzzle_tokens = config.puzzle_tokens
        self.step_embedding = config.step_embedding
        std = 1 / math.sqrt(config.dim)  # times sqrt(D) gives unit variance
        self.patches = None if config.image is None else PatchEncoder(config.dim, config.image, config.patch)
        if self.patches is None:
            kinds = vocab_size if symbols is None else symbols.kinds
            self.tokens = nn.Parameter(truncated_normal_(torch.empty(kinds, config.dim), std))
        self.positions: nn.Parameter | None = None
        if config.positions == "learned":
            shape = (config.position_count(length), config.dim)
            self.positions = nn.Parameter(truncated_normal_(torch.empty(shape), std))
        self.puzzles: nn.Parameter | None = None
        if config.puzzles:
            width = config.puzzle_width or config.puzzle_tokens * config.dim
            self.puzzles = nn.Parameter(torch.zeros(config.puzzles, width))

    def forward(self, inputs: Tensor, puzzle_ids: Tensor | None = None) -> Tensor:
        """Embed inputs [batch, length] (and puzzle_ids [batch]) as e_x [batch, positions, dim]."""
        if self.symbols is not None:
            inputs = self.symbols.relative(inputs)
        embedded = self.tokens[inputs] if self.patches is None else self._patched(inputs, self.patches)
        if self.puzzles is not None:
            embedded = torch.cat((self._front(self.puzzles, puzzle_ids), embedded), dim=1)
        elif self.puzzle_tokens:
            embedded = F.pad(embedded, (0, 0, self.puzzle_tokens, 0))
        if self.positions is not None:
            embedded = math.sqrt(0.5) * (embedded + self.positions)  # keeps unit variance
        return math.sqrt(self.dim) * embedded

    def at_transition(self, e_x: Tensor, first: Tensor | None, t: int) -> Tensor:
        """Add the code of transition `first` [batch] + t to e_x, in a model with step embeddings."""
        if not self.step_embedding:
            return e_x
        if first is None:
            raise ValueError("a model with step embeddings needs first_transition")
        return e_x + sinusoid(first + t, e_x.shape[-1])[:, None, :]

    def _front(self, puzzles: Tensor, puzzle_ids: Tensor | None) -> Tensor:
        """Return the embeddings of puzzle_ids [batch], filled up with zeros, as tokens [batch, puzzle_tokens, dim]."""
        if puzzle_ids is None:
            raise ValueError("a model with puzzle embeddings needs puzzle_ids")
        # Sparse: an update touches the rows of this batch, however many puzzles there are.
        front = F.embedding(puzzle_ids, puzzles, sparse=True)
        front = F.pad(front, (0, self.puzzle_tokens * self.dim - front.shape[1]))
        return front.view(-1, self.puzzle_tokens, self.dim)

    def _patched(self, images: Tensor, patches: PatchEncoder) -> Tensor:
        """Embed images [batch, pixels] as [batch, positions, dim], at the scale of the tokens' embeddings."""
        if len(images) > 1 and bool((images == images[:1]).all()):  # the blank input: convolved once for all rows
            return self._patched(images[:1], patches).expand(len(images), -1, -1)
        # Patches have unit variance already; tokens get it from the factor at the end.
        return patches(images) / math.sqrt(self.dim)  # type: ignore[no-any-return]


class Readout(NamedTuple):
    """The outputs of the halt and value heads."""

    q_halt: Tensor
    """[batch] logit: the current output is correct"""
    q_continue: Tensor
    """[batch] logit: continue for one more step (Q-learning only)"""
    value: Tensor
    """[batch] logit of the trajectory's final quality (LPRM)"""


class Decoder(nn.Module):
    """Decodes h: logits for every content token, and the halt and value heads."""

    def __init__(self, config: ModelConfig, vocab_size: int, symbols: Symbols | None = None) -> None:
        super().__init__()
        self.puzzle_tokens = config.puzzle_tokens
        self.lm: nn.Module = Linear(config.dim, vocab_size)
        if symbols is not None:
            self.lm = SymbolDecoder(config.dim, symbols)
        if config.image is not None:
            self.lm = PatchDecoder(config.dim, vocab_size, config.image, config.patch)
        pooled = config.readout == "pooled"
        self.pool = SwiGLU(config.dim, config.dim) if pooled else None
        self.halt = nn.Linear(config.dim, 2)
        self.value = nn.Linear(config.dim, 1)
        nn.init.zeros_(self.halt.weight)
        nn.init.constant_(self.halt.bias, HALT_BIAS)
        nn.init.zeros_(self.value.weight)
        nn.init.zeros_(self.value.bias)

    def logits(self, h: Tensor) -> Tensor:
        """Decode h [batch, positions, dim] to logits [batch, length, vocabulary]."""
        return self.lm(h[:, self.puzzle_tokens :])  # type: ignore[no-any-return]

    def readout(self, h: Tensor) -> Readout:
        """Read three numbers per row from h [batch, tokens, dim], in float32 whatever the precision."""
        summary = h[:, 0] if self.pool is None else self.pool(h).mean(dim=1)
        halt = self.halt(summary).float()
        return Readout(halt[:, 0], halt[:, 1], self.value(summary).float()[:, 0])


def sinusoid(index: Tensor, dim: int) -> Tensor:
    """Return the Transformer's sinusoidal code [batch, dim] of index [batch]; defined at any depth."""
    half = (dim + 1) // 2
    frequencies = torch.exp(torch.arange(half, device=index.device) * (-math.log(10000.0) / half))
    angles = index[:, None].float() * frequencies
    return torch.cat((angles.sin(), angles.cos()), dim=-1)[:, :dim]
