"""Ctrl-C ends a search in good order: what it has found is still the answer."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from threading import Event
from types import FrameType

from cosmic_opt.search.budget import Budget


@dataclass(frozen=True)
class StoppableBudget(Budget):
    """A budget that an interrupt ends, so that the best found so far is still reported."""

    stopped: Event = field(default_factory=Event)

    def out_of_time(self) -> bool:
        """Tell whether the wall time is spent or the search was interrupted."""
        return self.stopped.is_set() or super().out_of_time()


@contextmanager
def stop_on_interrupt(stopped: Event) -> Iterator[None]:
    """Let the first Ctrl-C end the search in good order; a second one ends the program."""

    def stop(number: int, frame: FrameType | None) -> None:
        del number, frame
        stopped.set()
        signal.signal(signal.SIGINT, before)

    before = signal.getsignal(signal.SIGINT)
    signal.signal(signal.SIGINT, stop)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
