"""Noise that depends only on a key, such as (seed, puzzle, trajectory, step), and not on the rest of the batch.

The generator is counter-based: number i of a row is a hash of (the row's key, i), so that all rows are drawn in one
call on the model's device, in any order, by any process. The hash is SplitMix64 (Steele et al., 2014); pairs of its
outputs become normal numbers by the Box-Muller transform.
"""

import hashlib
import math
from collections.abc import Callable

import numpy as np
import torch
from torch import Tensor

from gram.tasks.base import Tokens

Noise = Callable[[int], Tensor | None]
"""Returns the standard-normal noise [batch, tokens, dim] of transition t of a supervision step, or None."""

# The constants of SplitMix64, as signed 64-bit numbers: torch has no unsigned arithmetic, and wrapping is the same.
GOLDEN = 0x9E3779B97F4A7C15 - 2**64
MIX_1, MIX_2 = 0xBF58476D1CE4E5B9 - 2**64, 0x94D049BB133111EB - 2**64

EXAMPLES = -1
"""Label of the noise of examples."""


def _shifted(x: Tensor, bits: int) -> Tensor:
    """Shift right without the sign."""
    return (x >> bits).bitwise_and_((1 << (64 - bits)) - 1)


def _mix_(x: Tensor) -> Tensor:
    """Scramble 64-bit integers of any shape, one to one, in place: fresh memory would cost more than the arithmetic."""
    x.bitwise_xor_(_shifted(x, 30)).mul_(MIX_1)
    x.bitwise_xor_(_shifted(x, 27)).mul_(MIX_2)
    return x.bitwise_xor_(_shifted(x, 31))


def derive(key: Tensor, *parts: Tensor | int) -> Tensor:
    """Return the key [rows] of a part of what `key` [rows] stands for, such as a step of a trajectory."""
    for part in parts:
        # Mixed before and after, so that (1, 2), (2, 1) and (1, 1) lead to different keys.
        key = _mix_(_mix_(key + GOLDEN) ^ torch.as_tensor(part, device=key.device))
    return key


def _bits(key: Tensor, count: int) -> Tensor:
    """Return random 64-bit integers [rows, count] of the keys [rows]."""
    return _mix_(key[:, None] + GOLDEN * torch.arange(1, count + 1, device=key.device))


def uniform(key: Tensor, *shape: int) -> Tensor:
    """Return uniform numbers in [0, 1) of the keys [rows], on their device: [rows, *shape]."""
    return _fraction(_bits(key, math.prod(shape))).reshape(len(key), *shape)


def example_keys(number: Tensor, seed: int) -> Tensor:
    """Return the keys [rows] of the examples with these numbers [rows] in a run or a data set.

    They are multiples of the golden ratio, so that `spread` of successive ones fills [0, 1) evenly. What is drawn for
    an example is drawn from keys that are derived from its own.
    """
    return derive(torch.full_like(number, seed), EXAMPLES) + GOLDEN * number


def spread(key: Tensor) -> Tensor:
    """Return a uniform number in [0, 1) for each of the keys [rows] of examples; successive ones differ as they can."""
    return _fraction(key)


def _fraction(bits: Tensor) -> Tensor:
    """Turn the leading bits of 64-bit integers into float32 numbers in [0, 1)."""
    return _shifted(bits, 40).float() * 2.0**-24


def normal(key: Tensor, *shape: int) -> Tensor:
    """Return standard-normal float32 numbers [rows, *shape] of the keys [rows], on their device."""
    count = math.prod(shape)
    bits = _bits(key, (count + 1) // 2)
    # 24 bits each, which float32 holds exactly; the first is never 0, whose logarithm would be infinite.
    radius = (_shifted(bits, 40).add_(1)).float().mul_(2.0**-24).log_().mul_(-2).sqrt_()
    angle = bits.bitwise_right_shift_(16).bitwise_and_(0xFFFFFF).float().mul_(math.tau * 2.0**-24)
    numbers = torch.cat((angle.cos().mul_(radius), angle.sin_().mul_(radius)), dim=1)
    return numbers[:, :count].reshape(len(key), *shape)


def temperature_at(first: Tensor | float, final: Tensor | float, step: Tensor, depth: Tensor) -> Tensor:
    """Return the temperature [rows] of step 0, 1, ... of `depth`, which moves linearly from `first` to `final`."""
    return first + (final - first) * step / (depth - 1).clamp_min(1)


def step_size(horizon: int, depth: Tensor) -> Tensor:
    """Return the size [rows] of the steps of trajectories of `depth` [rows] steps that are worth `horizon` full ones.

    The noise of a step of size s is to be scaled by s ** -0.5: there are 1 / s times as many, each of which counts for
    s, and their variance adds up to the same, as in the discretization of a stochastic differential equation.
    """
    return (horizon / depth).clamp_max(1)


def scaled(noise: Noise, temperature: Tensor) -> Noise:
    """Return the noise at each row's temperature [rows]."""

    def draw(transition: int) -> Tensor | None:
        drawn = noise(transition)
        return None if drawn is None else drawn * temperature[:, None, None]

    return draw


def puzzle_key(tokens: Tokens, puzzle_id: int | None = None) -> int:
    """Return the noise key of a puzzle: its tokens [length], and its puzzle id if it has an embedding."""
    name = b"" if puzzle_id is None else b"|%d" % puzzle_id
    content = np.ascontiguousarray(tokens, dtype="<i8").tobytes() + name
    return int.from_bytes(hashlib.blake2b(content, digest_size=8).digest(), "little", signed=True)
