"""Functions that numba compiles on first use and caches on disk if possible."""

import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

import numba

Function = TypeVar("Function", bound=Callable[..., Any])
Item = TypeVar("Item")
Result = TypeVar("Result")


def compile_cached(**options: Any) -> Callable[[Function], Function]:
    """Return a decorator that compiles without Python's global lock; options are those of `numba.njit`.

    A read-only installation without a writable home, as in a container, has no folder for the cache. Functions
    are then compiled once per process.
    """

    def decorate(function: Function) -> Function:
        try:
            compiled: Function = numba.njit(cache=True, nogil=True, **options)(function)
        except RuntimeError:  # "cannot cache function: no locator available"
            compiled = numba.njit(nogil=True, **options)(function)
        return compiled

    return decorate


def on_all_cores(function: Callable[[Item], Result], items: list[Item]) -> list[Result]:
    """Apply a function of mostly compiled code to each item, in threads; the results keep the order."""
    if len(items) <= 1:
        return [function(item) for item in items]
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        return list(pool.map(function, items))
