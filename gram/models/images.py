"""Images as tokens: the encoder maps square patches to positions, and the decoder maps them back to pixels."""

import math

import torch.nn.functional as F
from torch import Tensor, nn

from gram.models.layers import Linear

BLACK, WHITE = 1, 2


class PatchEncoder(nn.Module):
    """Two blocks of convolution, SiLU and group norm at full resolution, then one position per patch."""

    def __init__(self, dim: int, shape: tuple[int, int], patch: int = 2) -> None:
        super().__init__()
        self.shape, self.patch = shape, patch
        channels = dim // 2
        groups = math.gcd(32, channels)
        self.blocks = nn.Sequential(
            *(
                nn.Sequential(nn.Conv2d(inside, channels, 5, padding=2), nn.SiLU(), nn.GroupNorm(groups, channels))
                for inside in (1, channels)
            )
        )
        self.out = Linear(patch * patch * channels, dim)

    def forward(self, tokens: Tensor) -> Tensor:
        """Embed tokens [batch, height * width] as [batch, patches, dim]; black is -1, white +1, anything else 0."""
        pixels = (tokens == WHITE).float() - (tokens == BLACK).float()
        features = self.blocks(pixels.view(-1, 1, *self.shape))
        return self.out(F.pixel_unshuffle(features, self.patch).flatten(2).transpose(1, 2))  # type: ignore[no-any-return]


class PatchDecoder(nn.Module):
    """Logits of the pixels of every patch, put back into their places."""

    def __init__(self, dim: int, vocab_size: int, shape: tuple[int, int], patch: int = 2) -> None:
        super().__init__()
        self.patch = patch
        self.patches = (shape[0] // patch, shape[1] // patch)
        self.out = Linear(dim, vocab_size * patch * patch)

    def forward(self, h: Tensor) -> Tensor:
        """Decode h [batch, patches, dim] to logits [batch, height * width, vocabulary]."""
        logits = self.out(h).transpose(1, 2).unflatten(2, self.patches)
        return F.pixel_shuffle(logits, self.patch).flatten(2).transpose(1, 2)
