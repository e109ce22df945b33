"""The multiplies of the networks, by whichever library is fastest on this machine.

torch.mm goes through MKL, which uses AVX-512 on CPUs of Intel only. Convolutions go through oneDNN, which uses it
everywhere, and a multiply is a convolution whose images have pixels of their own.
"""

from functools import cache

import torch
import torch.nn.functional as F
from torch import Tensor

from gram.machine import convolutions_are_faster

CONVOLUTION_NUMBERS, CONVOLUTION_WIDTH = 2**16, 32
"""Numbers, and inputs and outputs, from which on a multiply may be a convolution: it prepares for every new shape."""
FEWEST_IMAGES = 16
"""torch computes convolutions of fewer images by MKL."""


def multiply(x: Tensor, weight: Tensor) -> Tensor:
    """Multiply x [..., inputs] by weight [outputs, inputs] transposed: [..., outputs]."""
    images = images_of(x.numel() // x.shape[-1]) if convolution_pays(x, weight) else 0
    if not images:
        return F.linear(x, weight)
    # A convolution of 1 x 1 pixels whose channels are innermost is this very multiply, with nothing to be moved.
    pixels = x.view(images, -1, 1, x.shape[-1]).permute(0, 3, 1, 2)
    y = F.conv2d(pixels, weight[:, :, None, None]).permute(0, 2, 3, 1)
    return y.reshape(*x.shape[:-1], len(weight))


def multiply_tokens(weight: Tensor, x: Tensor) -> Tensor:
    """Multiply weight [outputs, tokens] by every one of x [batch, tokens, dim]: [batch, outputs, dim]."""
    if len(x) >= FEWEST_IMAGES and convolution_pays(x, weight):
        return F.conv1d(x, weight[:, :, None])
    # Weights from the left spare both transposes; one batched multiply per map is the fastest form on a CPU.
    return torch.bmm(weight.expand(len(x), -1, -1), x)


def convolution_pays(x: Tensor, weight: Tensor) -> bool:
    """Return whether a convolution is the faster multiply on this CPU, its preparation included."""
    if torch.compiler.is_compiling() or not convolutions_are_faster():
        return False
    fits = x.is_cpu and x.dtype == weight.dtype == torch.float32 and x.is_contiguous()
    return fits and x.numel() >= CONVOLUTION_NUMBERS and min(weight.shape) >= CONVOLUTION_WIDTH


@cache
def images_of(rows: int) -> int:
    """Return into how many images of equal size to cut rows of pixels; 0 if it is not possible."""
    few = range(FEWEST_IMAGES, 8 * FEWEST_IMAGES)
    return next((count for count in few if rows % count == 0), 0)
