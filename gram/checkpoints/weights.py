"""The file of a model's weights: its header, read before anything is allocated, and the digest of its content."""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from math import prod
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import load_file, save_file
from torch import Tensor

from gram.config.dependent import flat
from gram.errors import GramError
from gram.files import write_whole

METADATA = "gram"
"""The one key of the metadata, with JSON below it: safetensors writes several keys in a random order."""
SMALL = 2**20
"""A size up to which a setting needs no weights to prove it: a number of steps, for example."""


@dataclass(frozen=True)
class Header:
    """The header of a safetensors file."""

    path: Path
    shapes: dict[str, tuple[int, ...]]
    kind: str | None
    """which kind of model it is of; None where the file does not say"""
    sha256: str | None

    def check_sizes(self, source: Path, settings: Mapping[str, Any]) -> None:
        """Raise `GramError` for settings that are too large for the weights, before a model is built from them."""
        largest = max(SMALL, sum(prod(shape) for shape in self.shapes.values()))
        for name, value in flat(settings):
            # Each layer has tensors of its own; a million of them would take minutes to build, even without memory.
            most = len(self.shapes) if name.rpartition(".")[2] == "layers" else largest
            for size in value if isinstance(value, (list, tuple)) else (value,):
                if isinstance(size, int) and size > most:
                    raise GramError(f"{source}: {name} is {size}, which does not fit the weights in {self.path}.")


def check_same_shapes(what: str, found: Mapping[str, Any], expected: Mapping[str, Any]) -> None:
    """Raise `GramError`, which says that `what` does not fit, if the shapes of tensors differ from those expected."""
    for name in sorted(found.keys() | expected.keys()):
        if found.get(name) != expected.get(name):
            has, needs = found.get(name, "none (missing)"), expected.get(name, "none (not in this model)")
            raise GramError(f"{what}: tensor '{name}' has shape {has}, expected {needs}.")


def read_header(path: Path) -> Header:
    """Read the names and shapes of the tensors, and the metadata."""
    try:
        with safe_open(path, "pt") as file:
            shapes = {name: tuple(file.get_slice(name).get_shape()) for name in file.keys()}  # noqa: SIM118
            metadata = file.metadata() or {}
        content = json.loads(metadata.get(METADATA, "{}"))
        return Header(path, shapes, content.get("kind", metadata.get("kind")), content.get("sha256"))
    except (SafetensorError, OSError, ValueError, AttributeError) as error:
        raise _damaged(path, error) from error


def read_tensors(path: Path) -> dict[str, Tensor]:
    """Read all tensors; raise `GramError` if they do not match their checksum."""
    wanted = read_header(path).sha256
    try:
        tensors = load_file(path)
    except (SafetensorError, OSError) as error:
        raise _damaged(path, error) from error
    if wanted is not None and digest_of(tensors) != wanted:
        raise GramError(f"{path} is damaged: its tensors do not match their checksum.")
    return tensors


def _damaged(path: Path, error: Exception) -> GramError:
    return GramError(f"{path} is truncated or not a safetensors file: {error}.")


def write_tensors(path: Path, tensors: dict[str, Tensor], *, kind: str) -> None:
    """Write all tensors atomically, with the kind of their model and their checksum."""
    metadata = {METADATA: json.dumps({"kind": kind, "sha256": digest_of(tensors)})}
    write_whole(path, lambda target: save_file(tensors, target, metadata=metadata))


def digest_of(tensors: dict[str, Tensor], *more: str) -> str:
    """Return the SHA-256 over names, types, shapes and bytes, in the order of the names, and over more texts."""
    digest = hashlib.sha256()
    for name in sorted(tensors):
        tensor = tensors[name]
        digest.update(f"{name} {tensor.dtype} {tuple(tensor.shape)}".encode())
        plain = tensor.detach().cpu().clone(memory_format=torch.contiguous_format)
        digest.update(plain.flatten().view(torch.uint8).numpy().tobytes())
    for text in more:
        digest.update(f"{len(text)} {text}".encode())
    return digest.hexdigest()
