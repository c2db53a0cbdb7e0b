"""Ctrl-C during a solve: the solver is stopped, then the interrupt goes on."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

T = TypeVar("T")


def interruptible(solve: Callable[[], T], stop: Callable[[], object]) -> T:
    """Return `solve()`, run in a thread, since Python sees Ctrl-C only while its main thread is not inside a solver.

    On Ctrl-C `stop()` must make `solve` return soon; KeyboardInterrupt is raised when it has.
    """
    with ThreadPoolExecutor(max_workers=1) as pool:
        answer = pool.submit(solve)
        try:
            return answer.result()
        except KeyboardInterrupt:
            stop()
            raise
