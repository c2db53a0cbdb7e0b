"""What one NPU runs, as the kernel reads it: streams of operations, and the routes of their chunks over dimensions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from cosmic_opt.errors import LimitError, SpecError, nearest
from cosmic_opt.simulation.events.chunking import check_played

IntArray = NDArray[np.int64]

POLICIES = ("fifo", "lifo", "smallest_first")
"""Which waiting chunk a dimension serves next: the first that came, the last that came, or the one it is done with
soonest (of equal ones the one of the first stream, then of the least number)."""

PLANNED = "planned"
"""The service order that `Visit.place` gives: of the waiting chunks the one with the least place."""

MAX_ACTIVE = 8
"""Chunks that may share one dimension; a tick is then divided in lcm(1, ..., active) parts."""

MAX_TICKS = 2**60
"""A program whose work adds up to more (13 days) is refused: nothing in the kernel can then wrap."""


class Visit(NamedTuple):
    """A chunk on a dimension: `ticks` occupy it, `latency_ticks` then delay this chunk alone.

    `place` orders the visits to a dimension where their order is planned; it has no other effect.
    """

    dim: int
    ticks: int
    latency_ticks: int
    place: int = 0


Route = tuple[Visit, ...]


@dataclass(frozen=True, slots=True)
class Call:
    """One collective or message: chunk i takes routes[i], or all take the only one."""

    routes: tuple[Route, ...]
    chunks: int

    @property
    def visits(self) -> int:
        """Return how often its chunks visit a dimension, in all."""
        shared = len(self.routes) == 1
        return sum(len(route) for route in self.routes) * (self.chunks if shared else 1)


@dataclass(frozen=True, slots=True)
class Op:
    """An operation of a stream: `ticks` of work, or a call of that position; it may wait for another operation.

    `wait` is a position in the program's list of operations, -1 for none. A call without visits takes no time.
    """

    name: str
    ticks: int = 0
    call: int = -1
    wait: int = -1


@dataclass(frozen=True, slots=True)
class Stream:
    """Operations in order, each after the one before. Streams of one lane run one operation at a time."""

    name: str
    lane: int
    ops: tuple[Op, ...]


class Arrays(NamedTuple):
    """A program in arrays, all int64.

    Attributes:
        visit: [visits, 4], dimension, ticks, latency ticks, place.
        route: [routes + 1], where each route starts in `visit`.
        call: [calls, 3], first route, 1 if chunks take routes of their own, chunks.
        op: [ops, 3], ticks, call, operation waited for.
        stream: [streams + 1], where each stream starts in `op`.
        lane: [streams].
    """

    visit: IntArray
    route: IntArray
    call: IntArray
    op: IntArray
    stream: IntArray
    lane: IntArray


@dataclass(frozen=True, slots=True)
class Program:
    """Streams that share `dimensions` network dimensions."""

    dimensions: int
    calls: tuple[Call, ...]
    streams: tuple[Stream, ...]

    @property
    def ops(self) -> tuple[Op, ...]:
        """Return the operations of all streams; `Op.wait` is a position here."""
        return tuple(op for stream in self.streams for op in stream.ops)

    def arrays(self, parts: int = 1, ranks: int = 1) -> Arrays:
        """Return the program as a kernel reads it, which divides a tick in `parts`.

        Args:
            parts: Of a tick.
            ranks: How many the streams belong to, as many to each, in turn.

        Raises:
            LimitError: the work of a rank adds up to more than MAX_TICKS parts, or a call has too many chunks
                (`check_played`).
        """
        check_played(max((call.chunks for call in self.calls), default=1))
        routes = [route for call in self.calls for route in call.routes]
        firsts = np.cumsum([0, *(len(call.routes) for call in self.calls)])
        self._check_work(parts, ranks)
        return Arrays(
            visit=_rows([visit for route in routes for visit in route], 4),
            route=_starts(routes),
            call=_rows(
                [(first, len(call.routes) > 1, call.chunks) for first, call in zip(firsts, self.calls, strict=False)], 3
            ),
            op=_rows([(op.ticks, op.call, op.wait) for op in self.ops], 3),
            stream=_starts([stream.ops for stream in self.streams]),
            lane=np.array([stream.lane for stream in self.streams], dtype=np.int64),
        )

    def _check_work(self, parts: int, ranks: int) -> None:
        works = [_work(call) for call in self.calls]
        own = [sum(op.ticks if op.call < 0 else works[op.call] for op in stream.ops) for stream in self.streams]
        each = len(own) // ranks
        for rank in range(ranks):
            if parts * sum(own[rank * each : (rank + 1) * each]) > MAX_TICKS:
                whose = f" of rank {rank}" if ranks > 1 else ""
                hint = "check bandwidths, sizes and peak"
                raise LimitError(f"the work{whose} adds up to more than 13 days", hint=hint)


def policy_code(name: str) -> int:
    """Return the kernel's code of a service order.

    Raises:
        SpecError: unknown.
    """
    names = (*POLICIES, PLANNED)
    if not isinstance(name, str) or name not in names:
        raise SpecError(f"unknown service order {name!r:.60}", hint=nearest(str(name), POLICIES))
    return names.index(name)


def _work(call: Call) -> int:
    times = call.chunks if len(call.routes) == 1 else 1
    return times * sum(visit.ticks + visit.latency_ticks for route in call.routes for visit in route)


def _rows(rows: Sequence[Sequence[int]], width: int) -> IntArray:
    return np.array(rows, dtype=np.int64).reshape(-1, width)


def _starts(groups: Sequence[Sequence[object]]) -> IntArray:
    return np.cumsum([0, *(len(group) for group in groups)], dtype=np.int64)
