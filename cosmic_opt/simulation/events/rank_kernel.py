"""Compiled: every rank with its own streams and ports, chunk by chunk, in whole picoseconds.

Ranks play roles: all ranks of a role run the same streams, at different places. A stream runs one operation at a time,
whatever the others do. Time goes as in `kernel`: gangs leave their dimension (innermost first), gangs whose latency is
over arrive (in the order in which they left), work ends and operations start, and then free ports take gangs. So ranks
that are equal do what the one that stands for them does.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from cosmic_opt.simulation.analytical._jit import jit, jit_inline
from cosmic_opt.simulation.events.gangs import (
    END,
    HEAD,
    LINK,
    NTH,
    PLACE,
    RANK,
    SOURCE,
    STREAM,
    VISIT,
    Gangs,
    bring,
    complete,
    dissolve,
    make_gangs,
    next_gang,
    offer,
    park,
)
from cosmic_opt.simulation.events.heap import pop, push
from cosmic_opt.simulation.events.program import Arrays, IntArray
from cosmic_opt.simulation.events.servers import NEVER

HEAP, NUMBER, TOUCHED, FREED, BROUGHT, LOOKED, EVENTS = range(7)
"""Counters: entries of the heap, entries so far, ranks to look at, ports that fell free, chunks that come to their next
phase, gangs looked at; and events: operations that ended, and phases of chunks of ranks that were served."""
DONE, PAUSED, LATE = range(3)
"""How `play_ranks` returns: nothing moves any more, it may be called again, time is over."""
NUMBERS = 2**44


class Cast(NamedTuple):
    """Who plays what: rank = role * places + place. All arrays int64.

    Attributes:
        places: Ranks of a role.
        streams: Of a rank.
        dimensions: Of a rank: port = rank * dimensions + dimension.
        most: Chunks of a call at most.
        gangs: Gangs that can be at a time.
        ticks: [variants, ops], work of an operation.
        variant: [ranks], the row of `ticks` that a rank takes.
        meet: [ops], which collective a call is; the same for all members.
        row: [visits], the row of `slices`, -1 where a rank is alone.
        slices: [rows, places], the slice of a group that a rank runs a phase with.
        members: [slices].
        owner: [ops], the stream of an operation.
        waiter, first: [waits] and [ops + 1], the operations that wait for each.
        account: [ops, 2], the column of `Record.waits` for the time before an operation, and in it; or -1.
    """

    places: int
    streams: int
    dimensions: int
    most: int
    gangs: int
    ticks: IntArray
    variant: IntArray
    meet: IntArray
    row: IntArray
    slices: IntArray
    members: IntArray
    owner: IntArray
    waiter: IntArray
    first: IntArray
    account: IntArray


class Record(NamedTuple):
    """What a run writes, all int64.

    Attributes:
        starts, ends: [places, ops], or [0, 0].
        waits: [ranks, columns], the accounts.
        busy: [ports], ticks during which each serves.
        position: [streams of all ranks], the operation that each stopped at, or one after its last.
        clock: [streams of all ranks], when its last operation ended.
        counter: [7].
    """

    starts: IntArray
    ends: IntArray
    waits: IntArray
    busy: IntArray
    position: IntArray
    clock: IntArray
    counter: IntArray


class Play(NamedTuple):
    """The state beside gangs, all int64.

    Attributes:
        end, pending: As in `kernel.Run`, for the streams of all ranks.
        serial: [ranks], chunks brought so far.
        touched: [ranks, 2], ranks to look at, and whether a rank is among them.
        freed: [ports], those that fell free.
        brought: [chunks of all ranks], those that come to their next phase, in order.
        heap: [events, 3], time, class and number, stream or gang.
    """

    end: IntArray
    pending: IntArray
    serial: IntArray
    touched: IntArray
    freed: IntArray
    brought: IntArray
    heap: IntArray


@jit
def begin_ranks(arrays: Arrays, cast: Cast, record: Record) -> tuple[Play, Gangs]:
    """Return the state of all ranks at time 0, each before the first operation of its streams."""
    ranks, dims = len(cast.variant), cast.dimensions
    streams, ports = ranks * cast.streams, ranks * dims
    gangs = make_gangs(cast.gangs, streams * cast.most, ports)
    play = Play(
        np.full(streams, NEVER, dtype=np.int64),
        np.zeros(streams, dtype=np.int64),
        np.zeros(ranks, dtype=np.int64),
        np.zeros((ranks, 2), dtype=np.int64),
        np.zeros(ports, dtype=np.int64),
        np.zeros(streams * cast.most, dtype=np.int64),
        np.zeros((cast.gangs + streams, 3), dtype=np.int64),
    )
    for stream in range(streams):
        role = stream // cast.streams // cast.places
        record.position[stream] = arrays.stream[role * cast.streams + stream % cast.streams]
    for item in range(streams * cast.most):
        stream = item // cast.most
        rank = stream // cast.streams
        gangs.item[item, NTH], gangs.item[item, STREAM] = item % cast.most, stream
        gangs.item[item, RANK], gangs.item[item, PLACE] = rank, rank % cast.places
    for rank in range(ranks):
        _touch(play, record.counter, rank)
    return play, gangs


@jit
def play_ranks(
    arrays: Arrays, cast: Cast, play: Play, gangs: Gangs, policy: int, limit: int, most: int, record: Record
) -> int:
    """Play all ranks until nothing moves, for `limit` ticks, or for about `most` events; go on where that ended."""
    dims, counter = cast.dimensions, record.counter
    now = play.heap[0, 0] if counter[HEAP] > 0 else counter[HEAP]  # 0 as a literal would have a type of its own
    stop = counter[EVENTS] + counter[LOOKED] + most
    while now <= limit:
        while counter[HEAP] > 0 and play.heap[0, 0] == now:
            kind = play.heap[0, 1] // NUMBERS
            item = _pop(play.heap, counter)
            if kind < dims:
                _leave(arrays, cast, play, gangs, counter, now, item)
            elif kind == dims:
                _arrive(cast, play, gangs, counter, now, item)
            else:
                _touch(play, counter, item // cast.streams)
        while counter[TOUCHED] > 0:
            _move(arrays, cast, play, gangs, record, now)
        _bring(arrays, cast, play, gangs, record, policy, now)
        _serve(arrays, cast, play, gangs, record, now)
        if counter[HEAP] == 0:
            return DONE
        if counter[EVENTS] + counter[LOOKED] >= stop:
            return PAUSED
        now = play.heap[0, 0]
    return LATE


@jit_inline
def _leave(arrays: Arrays, cast: Cast, play: Play, gangs: Gangs, counter: IntArray, now: int, gang: int) -> None:
    """Free the ports of a gang, which arrives after its latency."""
    item = gangs.gang[gang, HEAD]
    visit = gangs.item[item, VISIT]
    while item >= 0:
        port = gangs.item[item, RANK] * cast.dimensions + arrays.visit[visit, 0]
        gangs.busy[port] = 0
        play.freed[counter[FREED]] = port
        counter[FREED] += 1
        item = gangs.item[item, LINK]
    _push(play.heap, counter, now + arrays.visit[visit, 2], cast.dimensions, gang)


@jit_inline
def _arrive(cast: Cast, play: Play, gangs: Gangs, counter: IntArray, now: int, gang: int) -> None:
    """Let every member go on to its next phase, or let its operation end after the last chunk."""
    item = dissolve(gangs, gang)
    while item >= 0:
        gangs.item[item, VISIT] += 1
        if gangs.item[item, VISIT] < gangs.item[item, END]:
            play.brought[counter[BROUGHT]] = item
            counter[BROUGHT] += 1
        else:
            stream = gangs.item[item, STREAM]
            play.pending[stream] -= 1
            if play.pending[stream] == 0:
                play.end[stream] = now
                _touch(play, counter, gangs.item[item, RANK])
        item = gangs.item[item, LINK]


@jit_inline
def _bring(arrays: Arrays, cast: Cast, play: Play, gangs: Gangs, record: Record, policy: int, now: int) -> None:
    """Bring chunks to their next phase."""
    for place in range(record.counter[BROUGHT]):
        item = play.brought[place]
        visit, stream, rank = gangs.item[item, VISIT], gangs.item[item, STREAM], gangs.item[item, RANK]
        play.serial[rank] += 1
        part, members = -1, 1
        if cast.row[visit] >= 0:
            part = cast.slices[cast.row[visit], gangs.item[item, PLACE]]
            members = cast.members[part]
        who = cast.meet[record.position[stream]], gangs.item[item, NTH], gangs.item[item, END] - visit, part
        gang = bring(gangs, who, members, item, play.serial[rank], stream - rank * cast.streams)
        if gang >= 0:
            complete(gangs, gang, policy, now, arrays.visit[visit, 1], arrays.visit[visit, 3], cast.most)
    record.counter[BROUGHT] = 0


@jit_inline
def _move(arrays: Arrays, cast: Cast, play: Play, gangs: Gangs, record: Record, now: int) -> None:
    """End the work of the touched ranks that is done, start what can start; keep those whose start took no time."""
    counter, kept = record.counter, 0
    for place in range(counter[TOUCHED]):
        first = play.touched[place, 0] * cast.streams
        for stream in range(first, first + cast.streams):
            if play.end[stream] == now:
                play.end[stream] = NEVER
                _end(arrays, cast, play, record, now, stream)
    for place in range(counter[TOUCHED]):
        rank = play.touched[place, 0]
        play.touched[rank, 1] = 0
        if _start(arrays, cast, play, gangs, record, now, rank):
            play.touched[kept, 0], play.touched[rank, 1] = rank, 1
            kept += 1
    counter[TOUCHED] = kept


@jit_inline
def _start(arrays: Arrays, cast: Cast, play: Play, gangs: Gangs, record: Record, now: int, rank: int) -> bool:
    """Start what a rank can; return whether anything of it ends at once."""
    first, done = rank * cast.streams, False
    for stream in range(first, first + cast.streams):
        idle = play.end[stream] == NEVER and play.pending[stream] == 0
        if idle and _can_start(arrays, cast, record, stream, rank):
            _begin(arrays, cast, play, gangs, record, now, stream)
            done = done or play.end[stream] == now
    return done


@jit_inline
def _can_start(arrays: Arrays, cast: Cast, record: Record, stream: int, rank: int) -> bool:
    """Tell whether an idle stream has a next operation that waits for nothing."""
    op = record.position[stream]
    if op >= arrays.stream[rank // cast.places * cast.streams + stream % cast.streams + 1]:
        return False
    wait = arrays.op[op, 2]
    if wait < 0:
        return True
    other = cast.owner[wait]
    other_rank = other // cast.streams * cast.places + rank % cast.places
    return bool(record.position[other_rank * cast.streams + other % cast.streams] > wait)


@jit_inline
def _begin(arrays: Arrays, cast: Cast, play: Play, gangs: Gangs, record: Record, now: int, stream: int) -> None:
    """Start the next operation of a stream: work ends after its ticks, the chunks of a call look for their gangs."""
    op, rank = record.position[stream], stream // cast.streams
    _book(cast, record, rank, stream, cast.account[op, 0], now)
    if record.starts.shape[0] > 0:
        record.starts[rank % cast.places, op] = now
    call = arrays.op[op, 1]
    first = arrays.call[call, 0] if call >= 0 else 0
    if call < 0 or arrays.route[first] == arrays.route[first + 1]:
        play.end[stream] = now + (cast.ticks[cast.variant[rank], op] if call < 0 else 0)
        if play.end[stream] > now:
            _push(play.heap, record.counter, play.end[stream], cast.dimensions + 1, stream)
        return
    play.pending[stream] = arrays.call[call, 2]
    for index in range(arrays.call[call, 2]):
        route, item = first + arrays.call[call, 1] * index, stream * cast.most + index
        gangs.item[item, VISIT], gangs.item[item, END] = arrays.route[route], arrays.route[route + 1]
        play.brought[record.counter[BROUGHT]] = item
        record.counter[BROUGHT] += 1


@jit_inline
def _end(arrays: Arrays, cast: Cast, play: Play, record: Record, now: int, stream: int) -> None:
    """End the running operation of a stream; who may wait for it is looked at."""
    op, rank = record.position[stream], stream // cast.streams
    _book(cast, record, rank, stream, cast.account[op, 1], now)
    if record.ends.shape[0] > 0:
        record.ends[rank % cast.places, op] = now
    record.position[stream] += 1
    record.counter[EVENTS] += 1
    _touch(play, record.counter, rank)
    for place in range(cast.first[op], cast.first[op + 1]):
        role = cast.owner[cast.waiter[place]] // cast.streams
        _touch(play, record.counter, role * cast.places + rank % cast.places)


@jit_inline
def _book(cast: Cast, record: Record, rank: int, stream: int, column: int, now: int) -> None:
    if column >= 0:
        record.waits[rank, column] += now - record.clock[stream]
    record.clock[stream] = now


@jit_inline
def _serve(arrays: Arrays, cast: Cast, play: Play, gangs: Gangs, record: Record, now: int) -> None:
    """Let free ports take gangs, the least keys first."""
    counter, again, place = record.counter, -1, 0
    while True:
        port, again = again, -1
        if port < 0 and place < counter[FREED]:
            port = play.freed[place]
            place += 1
        if port >= 0:
            offer(gangs, port)
            continue
        gang = next_gang(gangs)
        if gang < 0:
            counter[FREED] = 0
            return
        counter[LOOKED] += 1
        again = gangs.gang[gang, SOURCE]
        item = gangs.gang[gang, HEAD]
        dim, ticks = arrays.visit[gangs.item[item, VISIT], 0], arrays.visit[gangs.item[item, VISIT], 1]
        taken = -1
        while item >= 0 and taken < 0:
            port = gangs.item[item, RANK] * cast.dimensions + dim
            taken = port if gangs.busy[port] else -1
            item = gangs.item[item, LINK]
        if taken >= 0:
            park(gangs, gang, taken)
            continue
        item = gangs.gang[gang, HEAD]
        while item >= 0:
            port = gangs.item[item, RANK] * cast.dimensions + dim
            gangs.busy[port] = 1
            record.busy[port] += ticks
            counter[EVENTS] += 1
            item = gangs.item[item, LINK]
        _push(play.heap, counter, now + ticks, dim, gang)


@jit_inline
def _touch(play: Play, counter: IntArray, rank: int) -> None:
    if play.touched[rank, 1] == 0:
        play.touched[counter[TOUCHED], 0], play.touched[rank, 1] = rank, 1
        counter[TOUCHED] += 1


@jit
def _push(heap: IntArray, counter: IntArray, time: int, kind: int, item: int) -> None:
    """Add an event; those of one time come by class, then in the order in which they were added."""
    push(heap, counter[HEAP], time, kind * NUMBERS + counter[NUMBER], item)
    counter[HEAP], counter[NUMBER] = counter[HEAP] + 1, counter[NUMBER] + 1


@jit
def _pop(heap: IntArray, counter: IntArray) -> int:
    """Remove the first event and return its stream or gang."""
    item = pop(heap, counter[HEAP])
    counter[HEAP] -= 1
    return item
