"""Compiled: gangs, the ranks that run one phase of one chunk together, and the order in which they are served.

A gang gathers until all its members have brought the chunk. Then it is served as soon as the ports of all members on
its dimension are free at once, the least keys first. One that finds a port taken is parked there, and looked at again
when that port is free: nothing holds a port while it waits.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from cosmic_opt.simulation.analytical._jit import jit, jit_inline
from cosmic_opt.simulation.events.program import IntArray
from cosmic_opt.simulation.events.servers import FIFO, LIFO, SMALLEST_FIRST

MEET, CHUNK, AHEAD, SLICE, COME, HEAD, NEXT, LESS, MORE, SOURCE, KEY = range(11)
"""Columns of a gang: the collective, the chunk, visits still ahead of it and the slice, which say who meets; members
that came and the last of them; the next gang of its bucket, or free one; its children in a heap; the port whose heap
it left. From KEY on stand four keys; while it gathers, the first two are the latest serial and stream of a member."""
COLUMNS = KEY + 4
VISIT, END, LINK, NTH, STREAM, RANK, PLACE = range(7)
"""Columns of a chunk of a rank: its next visit and the end of its route, the next member of the gang that it is in, and
which chunk of which stream of which rank at which place it is."""
FREE, ROOT = 0, 1
"""Registers: the first unused gang, and the root of the heap of gangs to be looked at now."""


class Gangs(NamedTuple):
    """All gangs, all int64; -1 is none.

    Attributes:
        gang: [gangs, COLUMNS].
        bucket: [a power of two], gangs that gather, by a hash of who meets.
        item: [chunks of all ranks, 8], see VISIT; a row is as long as a line of a processor's cache.
        busy: [ports], 1 while a port serves.
        parked: [ports], the root of the heap of gangs that found this port taken.
        register: [2].
    """

    gang: IntArray
    bucket: IntArray
    item: IntArray
    busy: IntArray
    parked: IntArray
    register: IntArray


@jit
def make_gangs(gangs: int, chunks: int, ports: int) -> Gangs:
    """Return idle ports and room for `gangs` gangs at a time, at least one."""
    buckets = 1
    while buckets < gangs:
        buckets *= 2
    gang = np.full((gangs, COLUMNS), -1, dtype=np.int64)
    for place in range(gangs - 1):
        gang[place, NEXT] = place + 1
    return Gangs(
        gang,
        np.full(buckets, -1, dtype=np.int64),
        np.zeros((chunks, 8), dtype=np.int64),
        np.zeros(ports, dtype=np.int64),
        np.full(ports, -1, dtype=np.int64),
        np.array([0, -1], dtype=np.int64),
    )


@jit_inline
def bring(gangs: Gangs, who: tuple[int, int, int, int], members: int, item: int, serial: int, stream: int) -> int:
    """Let a chunk of a rank join its gang; return the gang if that completes it, else -1.

    Args:
        gangs: The state.
        who: Meet, chunk, visits ahead and slice.
        members: Of the gang.
        item: The chunk among those of all ranks.
        serial: How many chunks this rank has brought before.
        stream: Of the rank that the chunk belongs to.
    """
    meet, chunk, ahead, part = who
    gang = gangs.gang
    spot = (meet * 1_000_003 + part * 8_191 + chunk * 131 + ahead) & (len(gangs.bucket) - 1)
    found, before = -1, -1
    if members > 1:
        found = gangs.bucket[spot]
        while found >= 0 and not (
            gang[found, MEET] == meet
            and gang[found, SLICE] == part
            and gang[found, CHUNK] == chunk
            and gang[found, AHEAD] == ahead
        ):
            before, found = found, gang[found, NEXT]
    if found < 0:
        found, before = gangs.register[FREE], -1
        gangs.register[FREE] = gang[found, NEXT]
        gang[found, MEET], gang[found, CHUNK], gang[found, AHEAD], gang[found, SLICE] = meet, chunk, ahead, part
        gang[found, COME], gang[found, HEAD] = 0, -1
        gang[found, KEY], gang[found, KEY + 1] = 0, 0
        if members > 1:
            gang[found, NEXT] = gangs.bucket[spot]
            gangs.bucket[spot] = found
    gangs.item[item, LINK] = gang[found, HEAD]
    gang[found, HEAD] = item
    gang[found, COME] += 1
    gang[found, KEY] = max(gang[found, KEY], serial)
    gang[found, KEY + 1] = max(gang[found, KEY + 1], stream)
    if gang[found, COME] < members:
        return -1
    if members > 1:
        if before < 0:
            gangs.bucket[spot] = gang[found, NEXT]
        else:
            gang[before, NEXT] = gang[found, NEXT]
    return int(found)


@jit_inline
def complete(gangs: Gangs, found: int, policy: int, now: int, ticks: int, planned: int, most: int) -> None:
    """Give a gang that is complete its keys, and let it be looked at: the tie rules of `servers.enqueue`.

    Which of two came first is the time, then the serial of the member that has most: equal ranks bring their chunks
    in one order, and serials do not depend on how ranks are numbered.
    """
    gang = gangs.gang
    serial, stream = gang[found, KEY], gang[found, KEY + 1]
    first, second, third = now, serial, 0
    if policy == LIFO:
        first, second = -now, -serial
    elif policy == SMALLEST_FIRST:
        first, second, third = ticks, stream, gang[found, CHUNK]
    elif policy != FIFO:
        first, second, third = planned, now, serial
    gang[found, KEY], gang[found, KEY + 1], gang[found, KEY + 2] = first, second, third
    gang[found, KEY + 3] = gang[found, MEET] * most + gang[found, CHUNK]
    gang[found, SOURCE] = -1
    _look(gangs, found)


@jit_inline
def offer(gangs: Gangs, port: int) -> None:
    """Let the first gang parked at a port be looked at, if the port is free."""
    best = gangs.parked[port]
    if best < 0 or gangs.busy[port]:
        return
    gangs.parked[port] = meld(gangs.gang, gangs.gang[best, LESS], gangs.gang[best, MORE])
    gangs.gang[best, SOURCE] = port
    _look(gangs, best)


@jit_inline
def next_gang(gangs: Gangs) -> int:
    """Remove and return the gang with the least keys of those to be looked at, -1 if there is none."""
    best = gangs.register[ROOT]
    if best >= 0:
        gangs.register[ROOT] = meld(gangs.gang, gangs.gang[best, LESS], gangs.gang[best, MORE])
    return int(best)


@jit_inline
def park(gangs: Gangs, found: int, port: int) -> None:
    """Let a gang wait for a port that is taken."""
    gangs.gang[found, LESS], gangs.gang[found, MORE] = -1, -1
    gangs.parked[port] = meld(gangs.gang, gangs.parked[port], found)


@jit_inline
def dissolve(gangs: Gangs, found: int) -> int:
    """Free a gang and return its last member; its LINK leads to the others."""
    gangs.gang[found, NEXT] = gangs.register[FREE]
    gangs.register[FREE] = found
    return int(gangs.gang[found, HEAD])


@jit_inline
def _look(gangs: Gangs, found: int) -> None:
    gangs.gang[found, LESS], gangs.gang[found, MORE] = -1, -1
    gangs.register[ROOT] = meld(gangs.gang, gangs.register[ROOT], found)


@jit_inline
def meld(gang: IntArray, one: int, other: int) -> int:
    """Return the root of one heap made of two, either of which may be empty."""
    return max(one, other) if one < 0 or other < 0 else _meld(gang, one, other)


@jit
def _meld(gang: IntArray, one: int, other: int) -> int:
    """Meld two skew heaps (Sleator and Tarjan 1986): down the right, children swapped on the way."""
    if _before(gang, other, one):
        one, other = other, one
    root = one
    while other >= 0:
        rest = gang[one, MORE]
        gang[one, MORE] = gang[one, LESS]
        if rest >= 0 and _before(gang, rest, other):
            rest, other = other, rest
        gang[one, LESS] = other
        one, other = other, rest
    return int(root)


@jit_inline
def _before(gang: IntArray, one: int, other: int) -> bool:
    for key in range(KEY, COLUMNS):
        if gang[one, key] != gang[other, key]:
            return bool(gang[one, key] < gang[other, key])
    return False
