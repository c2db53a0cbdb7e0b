"""Compiled: network dimensions as servers. A dimension serves up to `active` chunks at a time; they share it equally.

Of a chunk's work, `share` parts make a tick, and share is a multiple of every number of chunks that can share: what
each gets in a whole tick is a whole number, and only the end of a chunk is rounded, up to the next tick.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from cosmic_opt.simulation.analytical._jit import jit, jit_inline
from cosmic_opt.simulation.events.program import IntArray

NEVER = 2**62
FIFO, LIFO, SMALLEST_FIRST = 0, 1, 2


class Servers(NamedTuple):
    """The state of D dimensions, all int64.

    Attributes:
        chunk, left, began: [D, active], chunks in service, their work left in parts of a tick, and their start.
        serving, since, free: [D], how many are in service, from when on, and when the first of them is done.
        busy: [D], ticks with a chunk in service so far.
        queue: [D, chunks, 3], waiting chunks with two keys, a binary heap: the least is next.
        waiting: [D].
    """

    chunk: IntArray
    left: IntArray
    began: IntArray
    serving: IntArray
    since: IntArray
    free: IntArray
    busy: IntArray
    queue: IntArray
    waiting: IntArray


@jit
def make_servers(dimensions: int, active: int, chunks: int) -> Servers:
    """Return idle servers for at most `chunks` chunks at a time."""
    return Servers(
        np.zeros((dimensions, active), dtype=np.int64),
        np.zeros((dimensions, active), dtype=np.int64),
        np.zeros((dimensions, active), dtype=np.int64),
        np.zeros(dimensions, dtype=np.int64),
        np.zeros(dimensions, dtype=np.int64),
        np.full(dimensions, NEVER, dtype=np.int64),
        np.zeros(dimensions, dtype=np.int64),
        np.zeros((dimensions, chunks, 3), dtype=np.int64),
        np.zeros(dimensions, dtype=np.int64),
    )


@jit_inline
def enqueue(servers: Servers, policy: int, dim: int, entry: tuple[int, int, int, int]) -> None:
    """Let a chunk wait; `entry` is (chunk, ticks of the visit, its planned place, number of the arrival)."""
    chunk, ticks, planned, serial = entry
    first, second = 0, serial
    if policy == LIFO:
        second = -serial
    elif policy == SMALLEST_FIRST:
        first, second = ticks, chunk
    elif policy != FIFO:
        first = planned
    queue, place = servers.queue[dim], servers.waiting[dim]
    servers.waiting[dim] = place + 1
    while place > 0:
        above = (place - 1) >> 1
        if queue[above, 1] < first or (queue[above, 1] == first and queue[above, 2] < second):
            break
        queue[place, 0], queue[place, 1], queue[place, 2] = queue[above, 0], queue[above, 1], queue[above, 2]
        place = above
    queue[place, 0], queue[place, 1], queue[place, 2] = chunk, first, second


@jit_inline
def next_waiting(servers: Servers, dim: int) -> int:
    """Remove and return the waiting chunk with the least keys, which no two chunks share."""
    queue, size = servers.queue[dim], servers.waiting[dim] - 1
    chunk = int(queue[0, 0])
    moved, first, second = queue[size, 0], queue[size, 1], queue[size, 2]
    servers.waiting[dim] = size
    place = 0
    while 2 * place + 1 < size:
        below = 2 * place + 1
        if below + 1 < size and (
            queue[below + 1, 1] < queue[below, 1]
            or (queue[below + 1, 1] == queue[below, 1] and queue[below + 1, 2] < queue[below, 2])
        ):
            below += 1
        if first < queue[below, 1] or (first == queue[below, 1] and second < queue[below, 2]):
            break
        queue[place, 0], queue[place, 1], queue[place, 2] = queue[below, 0], queue[below, 1], queue[below, 2]
        place = below
    queue[place, 0], queue[place, 1], queue[place, 2] = moved, first, second
    return chunk


@jit_inline
def advance(servers: Servers, dim: int, now: int, share: int) -> None:
    """Give each chunk in service its part of the time since the last change."""
    count = servers.serving[dim]
    if count > 0:
        elapsed = now - servers.since[dim]
        servers.busy[dim] += elapsed
        for slot in range(count):
            servers.left[dim, slot] -= elapsed * (share // count)
    servers.since[dim] = now


@jit_inline
def plan_end(servers: Servers, dim: int, share: int) -> None:
    """Set when the first chunk in service will be done."""
    count = servers.serving[dim]
    if count == 0:
        servers.free[dim] = NEVER
        return
    least = servers.left[dim, 0]
    for slot in range(1, count):
        least = min(least, servers.left[dim, slot])
    part = share // count
    servers.free[dim] = servers.since[dim] + (max(least, 0) + part - 1) // part


@jit_inline
def admit(servers: Servers, dim: int, now: int, chunk: int, work: int) -> None:
    """Take a chunk into service, after `advance`."""
    slot = servers.serving[dim]
    servers.chunk[dim, slot], servers.left[dim, slot], servers.began[dim, slot] = chunk, work, now
    servers.serving[dim] = slot + 1


@jit_inline
def release(servers: Servers, dim: int, slot: int) -> None:
    """Take a chunk out of service; the others keep their order."""
    for place in range(slot, servers.serving[dim] - 1):
        servers.chunk[dim, place] = servers.chunk[dim, place + 1]
        servers.left[dim, place] = servers.left[dim, place + 1]
        servers.began[dim, place] = servers.began[dim, place + 1]
    servers.serving[dim] -= 1
