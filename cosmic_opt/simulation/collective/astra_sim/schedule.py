"""List scheduling of chunks: per NPU and dimension a first-in first-out queue with k servers.

A phase of a chunk holds a server for its whole duration, and nothing slows it down. A chunk's phase ends on each
NPU of its group at a time that depends on when each of them started it.
"""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from cosmic_opt.errors import LimitError
from cosmic_opt.simulation.collective.astra_sim.algorithms import LATEST_NS
from cosmic_opt.simulation.collective.astra_sim.edges import IntArray

Finish = Callable[[IntArray], IntArray]
"""Maps the start times of a group's rows, in order, to their finish times."""


@dataclass(frozen=True, slots=True)
class Phase:
    """One phase of a chunk on the queue of dimension `dim`, among `npus` NPUs.

    `members` has shape (groups, rows per group); each row of the schedule is in one group.
    """

    dim: int
    collective: str
    npus: int
    data_bytes: int
    members: IntArray
    finish: Finish


class Schedule:
    """Runs chunks through their phases; `run` may be called once."""

    def __init__(self, plans: tuple[tuple[Phase, ...], tuple[Phase, ...]], chunks: int, servers: int) -> None:
        self.plans = plans
        self.chunks = chunks
        self.rows = plans[0][0].members.size
        self.free = [dict.fromkeys({phase.dim for phase in plans[0]}, servers) for _ in range(self.rows)]
        self.queues = [{dim: deque[tuple[int, int]]() for dim in free} for free in self.free]
        self.started = dict[tuple[int, int, int], dict[int, int]]()
        self.durations = dict[tuple[int, int, bytes], tuple[int, ...]]()
        self.groups: list[list[list[int]]] = [phase.members.tolist() for phase in plans[0]]
        self.group_of = [_group_of(phase.members) for phase in plans[0]]
        self.events: list[tuple[int, int, int, int, int]] = []
        self.serial = 0

    def run(self, starts: IntArray | None = None) -> IntArray:
        """Return when each row has finished all its chunks, which it starts at time 0 or at its entry of `starts`."""
        finished = np.zeros(self.rows, dtype=np.int64)
        begins = [0] * self.rows if starts is None else starts.tolist()
        for chunk in range(self.chunks):
            for row in range(self.rows):
                self._enter(row, chunk, 0)
                self._serve(row, self.plans[0][0].dim, begins[row])
        while self.events:
            now, _, row, chunk, step = heapq.heappop(self.events)
            dim = self._phase(chunk, step).dim
            self.free[row][dim] += 1
            last = step + 1 == len(self.plans[chunk % 2])
            if not last:
                self._enter(row, chunk, step + 1)
            self._serve(row, dim, now)
            if last:
                finished[row] = now
            else:
                self._serve(row, self._phase(chunk, step + 1).dim, now)
        return finished

    def _phase(self, chunk: int, step: int) -> Phase:
        return self.plans[chunk % 2][step]

    def _enter(self, row: int, chunk: int, step: int) -> None:
        self.queues[row][self._phase(chunk, step).dim].append((chunk, step))

    def _serve(self, row: int, dim: int, now: int) -> None:
        while self.free[row][dim] and self.queues[row][dim]:
            chunk, step = self.queues[row][dim].popleft()
            self.free[row][dim] -= 1
            self._start(row, chunk, step, now)

    def _start(self, row: int, chunk: int, step: int, now: int) -> None:
        """Note the start; when the last row of the group starts, every row's finish is known."""
        group = self.group_of[step][row]
        starts = self.started.setdefault((chunk, step, group), {})
        starts[row] = now
        members = self.groups[step][group]
        if len(starts) < len(members):
            return
        del self.started[chunk, step, group]
        times = np.array([starts[member] for member in members], dtype=np.int64)
        for member, finish in zip(members, self._finishes(chunk, step, times), strict=True):
            heapq.heappush(self.events, (finish, self.serial, member, chunk, step))
            self.serial += 1

    def _finishes(self, chunk: int, step: int, starts: IntArray) -> list[int]:
        """Finish times only depend on differences between starts, so equal patterns are worked out once."""
        origin = int(starts.min())
        key = (chunk % 2, step, (starts - origin).tobytes())
        if key not in self.durations:
            self.durations[key] = tuple(self._phase(chunk, step).finish(starts - origin).tolist())
        if origin + max(self.durations[key]) >= LATEST_NS:
            raise LimitError(f"the collective takes more than {LATEST_NS} ns", hint="use a higher bandwidth")
        return [origin + duration for duration in self.durations[key]]


def _group_of(members: IntArray) -> list[int]:
    """Return the group of each row."""
    groups = np.empty(members.size, dtype=np.int64)
    groups[members] = np.arange(len(members))[:, None]
    return groups.tolist()
