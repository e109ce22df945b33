"""Noise that belongs to (seed, puzzle, trajectory, step), whatever else is in the batch."""

import hashlib

import numpy as np
import torch
from torch import Tensor

from gram.tasks.base import Tokens


class KeyedNoise:
    """Standard-normal noise by key: neither the batch nor the order nor the device changes it."""

    def __init__(self, device: torch.device) -> None:
        self.device = device
        self.generator = torch.Generator()  # on the CPU, so that every device sees the same noise

    def draw(self, keys: list[tuple[bytes, int, str]], *shape: int) -> Tensor:
        """[len(keys), *shape]; a key is a `noise_key`, the number of the trajectory, and a label for the step."""
        noise = torch.empty(len(keys), *shape)
        for position, (key, trajectory, label) in enumerate(keys):
            name = b"%s|%d|%s" % (key, trajectory, label.encode())
            digest = hashlib.blake2b(name, digest_size=8).digest()
            self.generator.manual_seed(int.from_bytes(digest, "little", signed=True))
            torch.randn(*shape, generator=self.generator, out=noise[position])
        return noise.to(self.device)


def noise_key(seed: int, tokens: Tokens, puzzle_id: int | None = None) -> bytes:
    """What a puzzle's noise is keyed by: the seed, its tokens [length], and its own embedding where it has one."""
    name = b"" if puzzle_id is None else b"|%d" % puzzle_id
    digest = hashlib.blake2b(np.ascontiguousarray(tokens, dtype="<i8").tobytes() + name, digest_size=8).digest()
    return b"%d|%s" % (seed, digest)
