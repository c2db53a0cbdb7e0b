"""Budgets: how long, and how many evaluations. The clock is read here only."""

from __future__ import annotations

import time
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Budget:
    """Seconds of wall time and a number of evaluations; None is no limit. The clock starts when it is made."""

    seconds: float | None = None
    evaluations: int | None = None
    started: float = field(default_factory=time.perf_counter)

    def elapsed(self) -> float:
        """Return the seconds since the start."""
        return time.perf_counter() - self.started

    def out_of_time(self) -> bool:
        """Tell whether the wall time is spent."""
        return self.seconds is not None and self.elapsed() >= self.seconds
