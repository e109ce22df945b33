"""The device, its precision, and the memory allocator."""

import ctypes
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path

import torch
from torch import nn

from gram.errors import GramError

ONE_THREAD = 10_000_000
"""Rows x parameters up to which one CPU thread is fastest: several would mostly wait for each other."""
CPU_INFO = Path("/proc/cpuinfo")
"""Where Linux names the CPU."""
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


@cache
def multiplies_bfloat16() -> bool:
    """Return whether this CPU multiplies bfloat16 matrices.

    Some CPUs announce instructions for it that the system forbids, which ends the process: a child process tries them.
    """
    trial = "import torch; a = torch.ones(64, 64, dtype=torch.bfloat16); a @ a"
    return subprocess.run([sys.executable, "-c", trial], capture_output=True, check=False).returncode == 0


@cache
def convolutions_are_faster() -> bool:
    """Whether convolutions (oneDNN) multiply float32 matrices faster than torch.mm (MKL) on this CPU.

    Both use all of an Intel CPU. On others, MKL leaves AVX-512 alone, and oneDNN is more than twice as fast.
    """
    if torch.backends.cpu.get_cpu_capability() != "AVX512" or not torch.backends.mkldnn.is_available():  # type: ignore[no-untyped-call]
        return False
    return CPU_INFO.exists() and "GenuineIntel" not in CPU_INFO.read_text()


def free_memory(device: torch.device) -> int | None:
    """Return the free bytes of a GPU; None for a CPU, whose memory does not limit a batch."""
    if device.type == "cuda":
        return int(torch.cuda.mem_get_info(device)[0])
    if device.type == "mps":
        return int(torch.mps.recommended_max_memory() - torch.mps.current_allocated_memory())
    return None


def check_precision(precision: str, device: str) -> None:
    """Raise `GramError` for a precision that this machine does not support."""
    if precision == "bf16-mixed" and device == "cpu" and not multiplies_bfloat16():
        raise GramError("This CPU cannot multiply in bfloat16: set train.precision to 32-true.")


def choose_device(name: str) -> str:
    """Resolve `auto`; raise `GramError` for a device that is not available."""
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
        raise GramError(f"Device '{name}' is not available; choose from {', '.join(available)} or auto.")
    return name


class _Inside:
    """How many calls hold torch at one thread, and what it goes back to."""

    lock = threading.Lock()
    calls = 0
    before = 1


@contextmanager
def one_thread() -> Iterator[int]:
    """Let torch use one CPU thread, and yield how many it may use otherwise; several calls may overlap in threads."""
    with _Inside.lock:
        if not _Inside.calls:
            _Inside.before = torch.get_num_threads()
        _Inside.calls += 1
        before = _Inside.before
    torch.set_num_threads(1)
    try:
        yield before
    finally:
        with _Inside.lock:
            _Inside.calls -= 1
        torch.set_num_threads(before)


@contextmanager
def threads_for(model: nn.Module, rows: int) -> Iterator[None]:
    """Let torch use one CPU thread while `rows` rows of a model are computed, if that is too little work for more."""
    weights = list(model.parameters())
    small = rows * sum(weight.numel() for weight in weights) <= ONE_THREAD
    if not small or any(weight.device.type != "cpu" for weight in weights):
        yield
        return
    with one_thread():
        yield
