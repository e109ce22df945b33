"""The Transformer of the generative models: pre-norm blocks, causal or not, with a cache or with time modulation."""

import math

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from gram.config import DenoiserConfig, TransformerConfig
from gram.errors import GramError
from gram.models.images import PatchDecoder, PatchEncoder
from gram.models.layers import Attention, KeyValues, Linear, Rope, SwiGLU, rms_norm, truncated_normal_

FREQUENCIES = 256
"""Width of the sinusoidal code of a time (as in DiT)."""
TIME_SCALE = 1000.0
"""Times lie in [0, 1]; their code is that of DiT's 1000 steps."""


class Modulation(nn.Module):
    """adaLN-zero: vectors that a condition sets, all zero at first, so that every block begins as the identity."""

    def __init__(self, condition: int, dim: int, count: int) -> None:
        super().__init__()
        self.count = count
        self.linear = nn.Linear(condition, count * dim)
        nn.init.zeros_(self.linear.weight)
        nn.init.zeros_(self.linear.bias)

    def forward(self, condition: Tensor) -> tuple[Tensor, ...]:
        """Map condition [rows, width] to `count` tensors [rows, 1, dim]."""
        return self.linear(F.silu(condition))[:, None].chunk(self.count, dim=-1)  # type: ignore[no-any-return]


def modulate(x: Tensor, shift: Tensor, scale: Tensor) -> Tensor:
    """Scale x [rows, length, dim] by 1 + scale and shift it, both [rows, 1, dim]."""
    return torch.addcmul(shift, x, 1 + scale)


class TransformerBlock(nn.Module):
    """Attention, then a SwiGLU: each reads the normalised state and is added to it."""

    def __init__(self, config: TransformerConfig, condition: int = 0) -> None:
        super().__init__()
        self.attention = Attention(config.dim, config.heads)
        self.channels = SwiGLU(config.dim, config.hidden)
        self.modulation = Modulation(condition, config.dim, 6) if condition else None

    def forward(
        self,
        x: Tensor,
        rope: Rope | None,
        *,
        condition: Tensor | None = None,
        causal: bool = False,
        cache: KeyValues | None = None,
    ) -> Tensor:
        """Mix tokens, then channels, of x [rows, length, dim], given condition [rows, width]; return the same shape."""
        if self.modulation is None:
            x = x + self.attention(rms_norm(x), rope, causal=causal, cache=cache)
            return x + self.channels(rms_norm(x))  # type: ignore[no-any-return]
        shift, scale, gate, shift2, scale2, gate2 = self.modulation(condition)
        x = x + gate * self.attention(modulate(rms_norm(x), shift, scale), rope, causal=causal, cache=cache)
        return x + gate2 * self.channels(modulate(rms_norm(x), shift2, scale2))  # type: ignore[no-any-return]


class Transformer(nn.Module):
    """Positions, blocks and the last norm, over states that are already embedded."""

    def __init__(self, config: TransformerConfig, length: int, *, causal: bool = False, condition: int = 0) -> None:
        super().__init__()
        self.causal = causal
        self.length = length
        self.positions: nn.Parameter | None = None
        if config.positions != "rope":
            self.positions = nn.Parameter(truncated_normal_(torch.empty(length, config.dim), 1 / math.sqrt(config.dim)))
        self.rope = None if config.positions == "learned" else Rope(config.dim // config.heads, length)
        self.blocks = nn.ModuleList(TransformerBlock(config, condition) for _ in range(config.layers))
        self.modulation = Modulation(condition, config.dim, 2) if condition else None

    def empty_cache(self) -> list[KeyValues]:
        """Return one cache per block, for `forward`."""
        return [KeyValues(self.length) for _ in self.blocks]

    def forward(self, x: Tensor, condition: Tensor | None = None, caches: list[KeyValues] | None = None) -> Tensor:
        """Apply the blocks to x [rows, new tokens, dim] of unit variance, given condition [rows, width]."""
        start = 0 if caches is None else caches[0].filled
        if self.positions is not None:
            positions = self.positions[start : start + x.shape[1]]
            x = math.sqrt(0.5) * (x + math.sqrt(x.shape[-1]) * positions)  # keeps unit variance
        for number, block in enumerate(self.blocks):
            cache = None if caches is None else caches[number]
            x = block(x, self.rope, condition=condition, causal=self.causal, cache=cache)
        x = rms_norm(x)
        return x if self.modulation is None else modulate(x, *self.modulation(condition))


def embedding(vocab_size: int, dim: int) -> nn.Parameter:
    """Return an embedding [vocab_size, dim] of standard deviation 1/sqrt(dim), to be multiplied by sqrt(dim)."""
    return nn.Parameter(truncated_normal_(torch.empty(vocab_size, dim), 1 / math.sqrt(dim)))


def time_code(time: Tensor) -> Tensor:
    """Map time [rows] in [0, 1] to cosines and sines [rows, FREQUENCIES], from fast to slow."""
    half = FREQUENCIES // 2
    rates = torch.exp(-math.log(10000.0) / half * torch.arange(half, device=time.device, dtype=torch.float32))
    angles = TIME_SCALE * time.float()[:, None] * rates
    return torch.cat((angles.cos(), angles.sin()), dim=-1)


class Denoiser(nn.Module):
    """The network of both diffusion models: predicts the clean output from the input, a noisy output and the time.

    Input and noisy output share their positions: their embeddings are added, which halves the length that a joined
    sequence would have. The head is zero at first: every token is equally likely.
    """

    def __init__(self, config: DenoiserConfig, *, vocab_size: int, states: int, length: int) -> None:
        """Build the network; `states` is the size of the noisy alphabet: the vocabulary, and MASK if there is one."""
        super().__init__()
        self.time: nn.Module | None = None
        if config.time_dim:
            width = config.time_dim
            self.time = nn.Sequential(nn.Linear(FREQUENCIES, width), nn.SiLU(), nn.Linear(width, width))
        positions = config.content_positions(length)
        self.head: nn.Module
        if config.image is not None:
            if config.image[0] * config.image[1] != length:
                raise GramError(f"An image of {config.image} does not have {length} pixels.")
            self.patches = PatchEncoder(config.dim, config.image, config.patch)
            self.head = PatchDecoder(config.dim, vocab_size, config.image, config.patch)
            nn.init.zeros_(self.head.out.weight)
        else:
            self.inputs, self.noisy = embedding(vocab_size, config.dim), embedding(states, config.dim)
            self.head = Linear(config.dim, vocab_size)
            nn.init.zeros_(self.head.weight)
        self.scale = math.sqrt(config.dim / 2)  # of a sum of two embeddings
        self.transformer = Transformer(config, positions, condition=config.time_dim)

    def forward(self, inputs: Tensor, noisy: Tensor, time: Tensor) -> Tensor:
        """Map inputs, noisy [rows, length] and time [rows] in [0, 1] to logits [rows, length, vocabulary]."""
        if isinstance(self.head, PatchDecoder):  # images are generated unconditionally: the input is blank
            x = self.patches(noisy)
        else:
            x = self.scale * (self.inputs[inputs] + self.noisy[noisy])
        condition = None if self.time is None else self.time(time_code(time))
        return self.head(self.transformer(x, condition))  # type: ignore[no-any-return]
