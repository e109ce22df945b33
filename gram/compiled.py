"""Functions that numba compiles on first use and keeps compiled on disk, where there is a folder for that."""

from collections.abc import Callable
from typing import Any, TypeVar

import numba

Function = TypeVar("Function", bound=Callable[..., Any])


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
