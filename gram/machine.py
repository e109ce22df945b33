"""The machine at hand: which device, and an allocator that does not give memory back at every step."""

import ctypes
import sys

import torch

from gram.errors import GramError

_M_TRIM_THRESHOLD, _M_TOP_PAD, _M_MMAP_MAX = -1, -2, -4  # glibc's mallopt parameters


def keep_freed_memory() -> bool:
    """Let glibc keep freed memory instead of returning it to the system; return whether it was possible.

    Every step frees and asks again for the same large tensors; with the default settings each of them is a fresh
    mapping whose pages the kernel must clear, which costs up to half of the time on a CPU.
    """
    if not sys.platform.startswith("linux"):
        return False
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is None:  # musl and others
        return False
    settings = {_M_MMAP_MAX: 0, _M_TRIM_THRESHOLD: 2**31 - 1, _M_TOP_PAD: 64 * 2**20}
    return all([mallopt(parameter, value) == 1 for parameter, value in settings.items()])


def choose_device(name: str) -> str:
    """Resolve `auto`, and refuse a device that this machine does not have."""
    available = ["cpu"]
    if torch.backends.mps.is_available():
        available.append("mps")
    if torch.cuda.is_available():
        available.append("cuda")
    if name == "auto":
        return available[-1]
    kind, colon, number = name.partition(":")
    known = kind in available and (not colon or (kind == "cuda" and number.isdecimal()))
    if not known or (number and int(number) >= torch.cuda.device_count()):
        raise GramError(f"Device '{name}' is not available here; choose from {', '.join(available)} or auto.")
    return name
