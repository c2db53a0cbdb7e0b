"""Runs a program and says when each operation ran and how busy each dimension was."""

from __future__ import annotations

from dataclasses import dataclass
from math import lcm

import numpy as np

from cosmic_opt.errors import SpecError
from cosmic_opt.simulation.events.program import MAX_ACTIVE, IntArray, Program, policy_code


@dataclass(frozen=True, slots=True)
class Replay:
    """What happened, in ticks from the start of the program.

    Attributes:
        starts, ends: int64 [ops].
        busy_ticks: int64 [D], during which each dimension served a chunk.
        visits: int64 [visits, 5], in order of their ends: operation, chunk, dimension, start, end of service. Empty
            unless asked for.
    """

    starts: IntArray
    ends: IntArray
    busy_ticks: IntArray
    visits: IntArray

    @property
    def ticks(self) -> int:
        """Return when the last operation ended."""
        return int(self.ends.max(initial=0))


def run_program(program: Program, *, policy: str = "fifo", active: int = 1, visits: bool = False) -> Replay:
    """Replay `program` from time 0.

    Args:
        program: What runs.
        policy: Which waiting chunk a dimension serves next, of `program.POLICIES`.
        active: Chunks that share a dimension at a time.
        visits: Whether to record every visit of a chunk to a dimension.

    Raises:
        SpecError: an unknown service order, or `active` out of range.
        LimitError: the work adds up to more than 13 days.
    """
    from cosmic_opt.simulation.events.kernel import LOG, replay  # compiled: loaded where it is used

    if type(active) is not int or not 1 <= active <= MAX_ACTIVE:
        raise SpecError(f"{active!r} active chunks per dimension", hint=f"1 to {MAX_ACTIVE}")
    share = lcm(*range(1, active + 1))
    arrays = program.arrays(share)
    rows = sum(program.calls[op.call].visits for op in program.ops if op.call >= 0) if visits else 0
    starts, ends = np.empty((2, len(arrays.op)), dtype=np.int64)
    log = np.empty((rows, LOG), dtype=np.int64)
    busy = replay(arrays, program.dimensions, policy_code(policy), active, share, starts, ends, log)
    assert ends.min(initial=0) >= 0, "every operation ends"
    return Replay(starts, ends, busy, log)
