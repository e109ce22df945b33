"""Start a wider network from the weights of a narrower one, so that both compute the same.

Every channel of the state is copied, which leaves each norm as it is. A weight that reads a channel is divided among
its copies, unevenly, so that they can grow apart. New hidden units, and means over sets that the narrower network does
not have, begin with weight zero. Only noise tells the two networks apart: each copy has its own.
"""

import math
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from gram.models.base import Model
from gram.models.constraints import ConstraintBlock
from gram.models.layers import SwiGLU
from gram.models.reasoner import Reasoner
from gram.models.symbols import SymbolDecoder

UNEVEN = 0.1
"""Standard deviation of the parts that copies get, relative to the weights'."""
WIDER = {"dim", "channel_hidden"}
"""The settings that may differ."""


def can_widen(narrow: Model, wide: Model) -> bool:
    """Return whether `wide` is a wider network of the same kind, mixing by the same constraints or more."""
    if not (isinstance(narrow, Reasoner) and isinstance(wide, Reasoner)):
        return False
    old, new = narrow.config, wide.config
    same = old.model_dump(exclude=WIDER) == new.model_dump(exclude=WIDER)
    larger = new.dim % old.dim == 0 and new.channel_hidden >= old.channel_hidden
    sets = set(_kinds(narrow)) <= set(_kinds(wide))
    constraints = old.mixing == "constraints" and not narrow.guidance.learned
    return same and larger and sets and constraints and (old != new or _kinds(narrow) != _kinds(wide))


@torch.no_grad()
def widen(narrow: Model, wide: Model) -> None:
    """Set the weights of `wide` so that it computes what `narrow` does; see `can_widen`."""
    assert isinstance(narrow, Reasoner)
    assert isinstance(wide, Reasoner)
    copying = _Copying(wide.config.dim // narrow.config.dim, torch.Generator().manual_seed(0))
    for name in ("h_init", "l_init"):
        getattr(wide, name).copy_(getattr(narrow, name).repeat(copying.copies))
    # The encoder multiplies by the root of the number of channels.
    wide.encoder.tokens.copy_(narrow.encoder.tokens.repeat(1, copying.copies) / math.sqrt(copying.copies))
    kinds = {kind: place for place, kind in enumerate(_kinds(narrow))}
    for old_network, new_network in ((narrow.low, wide.low), (narrow.high, wide.high)):
        if old_network is None or new_network is None:
            continue
        for old, new in zip(old_network.blocks, new_network.blocks, strict=True):
            assert isinstance(old, ConstraintBlock)
            assert isinstance(new, ConstraintBlock)
            copying.gates(old, new)
            for weight, kind in zip(new.kinds, _kinds(wide), strict=True):
                weight.zero_()
                if kind in kinds:
                    copying.rows(old.kinds[kinds[kind]], weight)
    assert narrow.decoder.pool is not None
    assert wide.decoder.pool is not None
    copying.gates(narrow.decoder.pool, wide.decoder.pool)
    for old_head, new_head in zip(_heads(narrow), _heads(wide), strict=True):
        new_head.weight.copy_(copying.read(old_head.weight))
        if old_head.bias is not None:
            new_head.bias.copy_(old_head.bias)


def _kinds(model: Reasoner) -> list[str]:
    """Return the kinds of sets in the order of `ConstraintBlock.kinds`; "" stands for the symbols of a cell."""
    return [*model.structure.constraints, *([""] if model.config.symbols else [])]


def _heads(model: Reasoner) -> list[nn.Linear]:
    decoder = model.decoder
    readers = [decoder.lm.of_symbol, decoder.lm.of_others] if isinstance(decoder.lm, SymbolDecoder) else [decoder.lm]
    return [*readers, decoder.halt, decoder.value]


@dataclass(frozen=True)
class _Copying:
    copies: int
    generator: torch.Generator

    def read(self, weight: Tensor) -> Tensor:
        """Divide weight [..., dim] among the copies: [..., copies x dim]."""
        parts = torch.randn(self.copies, *weight.shape, generator=self.generator).to(weight)
        parts *= UNEVEN * weight.std(correction=0)
        return torch.cat(list(weight / self.copies + parts - parts.mean(dim=0)), dim=-1)

    def rows(self, old: Tensor, new: Tensor) -> None:
        """Set the rows of gates and values, [2 m, dim] each, that the narrower network has."""
        hidden = len(old) // 2
        new.view(2, -1, new.shape[1])[:, :hidden] = self.read(old).view(2, hidden, -1)

    def gates(self, old: ConstraintBlock | SwiGLU, new: ConstraintBlock | SwiGLU) -> None:
        """Set the two multiplies of a SwiGLU, whose new hidden units nothing reads yet."""
        self.rows(old.gate_up.weight, new.gate_up.weight)
        new.down.weight.zero_()
        new.down.weight[:, : old.down.weight.shape[1]] = old.down.weight.repeat(self.copies, 1)
