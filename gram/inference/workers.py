"""Work that is cut into parts beforehand, done side by side on a CPU: one thread of arithmetic for each part.

torch and the compiled kernels release Python's lock, so that threads really run in parallel. They need no copy of the
model and no start-up, unlike processes.
"""

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from threading import Event
from typing import TypeVar

import torch

from gram.machine import one_thread

Part = TypeVar("Part")
Done = TypeVar("Done")
Check = Callable[[], None]
"""Raises `Stopped` if the work is of no use any more; parts call it often."""


class Stopped(Exception):
    """Another part has failed, or the user has interrupted."""


def side_by_side(work: Callable[[Part, Check], Done], parts: Sequence[Part], device: torch.device) -> list[Done]:
    """Return [work(part, check) for part in parts]; the first exception of a part stops the others and is raised.

    On a CPU as many parts are worked on at a time as torch may use threads, in threads with one thread of arithmetic
    each, so that results do not depend on their number. On other devices there is one part after the other.
    """
    if device.type != "cpu":
        return [work(part, _never_stop) for part in parts]
    with one_thread() as threads:
        if threads == 1 or len(parts) == 1:
            return [work(part, _never_stop) for part in parts]
        return _in_threads(work, parts, min(threads, len(parts)))


def _in_threads(work: Callable[[Part, Check], Done], parts: Sequence[Part], threads: int) -> list[Done]:
    stop = Event()

    def check() -> None:
        if stop.is_set():
            raise Stopped

    def part_of_work(part: Part) -> Done:
        try:
            check()
            return work(part, check)
        except BaseException:
            stop.set()
            raise

    # The setting belongs to a thread: each worker makes it for itself.
    with ThreadPoolExecutor(threads, initializer=torch.set_num_threads, initargs=(1,)) as pool:
        waiting = [pool.submit(part_of_work, part) for part in parts]
        try:
            errors = [error for future in waiting if (error := future.exception()) is not None]
        except BaseException:  # the user's Ctrl-C, which the main thread alone receives
            stop.set()
            raise
    for error in errors:
        if not isinstance(error, Stopped):
            raise error
    return [future.result() for future in waiting]


def _never_stop() -> None:
    """Check nothing: nobody works beside."""
