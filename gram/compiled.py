"""Functions that numba compiles on first use and keeps compiled on disk, where there is a folder for that."""

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

    A read-only installation without a writable home, as in a container, has no place for compiled code. There a
    function is compiled once per process.
    """

    def decorate(function: Function) -> Function:
        try:
            compiled: Function = numba.njit(cache=True, nogil=True, **options)(function)
        except RuntimeError:  # "cannot cache function: no locator available"
            compiled = numba.njit(nogil=True, **options)(function)
        return compiled

    return decorate


def on_all_cores(function: Callable[[Item], Result], items: list[Item]) -> list[Result]:
    """Apply a function that mostly runs compiled code to each item, in threads; results in the order of the items."""
    if len(items) <= 1:
        return [function(item) for item in items]
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        return list(pool.map(function, items))
