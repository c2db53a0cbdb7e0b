"""Compiled: one NPU's streams on its network dimensions, event by event, in whole picoseconds.

What happens at one time happens in this order: chunks leave their dimensions (innermost first), chunks whose latency
is over arrive (in the order in which they left), work ends and operations start (streams in order), and then every
free dimension takes waiting chunks. Nothing outside the arguments is read or written.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from cosmic_opt.simulation.analytical._jit import jit, jit_inline
from cosmic_opt.simulation.events.heap import pop, push
from cosmic_opt.simulation.events.program import Arrays, IntArray
from cosmic_opt.simulation.events.servers import (
    NEVER,
    Servers,
    admit,
    advance,
    enqueue,
    make_servers,
    next_waiting,
    plan_end,
    release,
)

LOG = 5
"""Columns of the log: operation, chunk, dimension, start, end of service."""


class Run(NamedTuple):
    """The state beside the servers, all int64.

    Attributes:
        position: [S], the next or running operation of each stream.
        end: [S], when the running work ends; NEVER for a call or nothing.
        pending: [S], chunks of the running call still under way; 0 if none runs.
        ready: [S], since when the next operation could start but for its lane, or -1.
        lane: [S], the stream that runs in each lane, or -1.
        chunk: [chunks, 2], next visit and end of each chunk's route.
        heap: [chunks, 3], arrivals: time, number, chunk.
        counter: [3], arrivals in the heap, next number, rows of the log.
    """

    position: IntArray
    end: IntArray
    pending: IntArray
    ready: IntArray
    lane: IntArray
    chunk: IntArray
    heap: IntArray
    counter: IntArray


@jit
def replay(
    arrays: Arrays,
    dimensions: int,
    policy: int,
    active: int,
    share: int,
    starts: IntArray,
    ends: IntArray,
    log: IntArray,
) -> IntArray:
    """Run a program from time 0; return the ticks during which each dimension was busy, [D].

    Args:
        arrays: The program.
        dimensions: D.
        policy: A position in `program.POLICIES`.
        active: Chunks that may share a dimension.
        share: The least common multiple of 1, ..., active.
        starts, ends: Written, [ops].
        log: Written as far as it goes, [rows, LOG], one row per visit.
    """
    streams, most = len(arrays.lane), 1
    for call in range(len(arrays.call)):
        most = max(most, arrays.call[call, 2])
    chunks = streams * most
    servers = make_servers(dimensions, active, chunks)
    run = Run(
        arrays.stream[:-1].copy(),
        np.full(streams, NEVER, dtype=np.int64),
        np.zeros(streams, dtype=np.int64),
        np.full(streams, -1, dtype=np.int64),
        np.full(streams, -1, dtype=np.int64),
        np.zeros((chunks, 2), dtype=np.int64),
        np.zeros((chunks, 3), dtype=np.int64),
        np.zeros(3, dtype=np.int64),
    )
    starts[:], ends[:] = -1, -1
    now = 0
    while now < NEVER:
        _leave(arrays, servers, run, now, share, log)
        moving = _arrive(arrays, servers, run, now, policy, ends) or now == 0
        while _finish(arrays, run, now, ends) or moving:
            moving = _start(arrays, servers, run, now, policy, starts, ends)
        _serve(arrays, servers, run, now, active, share)
        now = _next_time(servers, run)
    return servers.busy


@jit_inline
def _leave(arrays: Arrays, servers: Servers, run: Run, now: int, share: int, log: IntArray) -> None:
    """Chunks whose service ends now leave; each arrives at its next visit after its latency."""
    most = len(run.chunk) // len(run.lane)
    for dim in range(len(servers.free)):
        if servers.free[dim] != now:
            continue
        advance(servers, dim, now, share)
        slot = 0
        while slot < servers.serving[dim]:
            if servers.left[dim, slot] > 0:
                slot += 1
                continue
            chunk = servers.chunk[dim, slot]
            row = run.counter[2]
            if row < len(log):
                log[row, 0], log[row, 1] = run.position[chunk // most], chunk % most
                log[row, 2], log[row, 3], log[row, 4] = dim, servers.began[dim, slot], now
                run.counter[2] = row + 1
            _push(run, now + arrays.visit[run.chunk[chunk, 0], 2], chunk)
            run.chunk[chunk, 0] += 1
            release(servers, dim, slot)
        plan_end(servers, dim, share)


@jit_inline
def _arrive(arrays: Arrays, servers: Servers, run: Run, now: int, policy: int, ends: IntArray) -> bool:
    """Chunks whose latency is over wait for their next dimension, or are done; return whether an operation ended."""
    ended = False
    most = len(run.chunk) // len(run.lane)
    while run.counter[0] > 0 and run.heap[0, 0] == now:
        chunk = _pop(run)
        if run.chunk[chunk, 0] < run.chunk[chunk, 1]:
            _wait(arrays, servers, run, policy, chunk)
            continue
        stream = chunk // most
        run.pending[stream] -= 1
        if run.pending[stream] == 0:
            _end(arrays, run, stream, now, ends)
            ended = True
    return ended


@jit_inline
def _finish(arrays: Arrays, run: Run, now: int, ends: IntArray) -> bool:
    """End work that is done now; return whether there was any."""
    ended = False
    for stream in range(len(run.lane)):
        if run.end[stream] == now:
            run.end[stream] = NEVER
            _end(arrays, run, stream, now, ends)
            ended = True
    return ended


@jit_inline
def _start(arrays: Arrays, servers: Servers, run: Run, now: int, policy: int, starts: IntArray, ends: IntArray) -> bool:
    """Start what can start; return whether anything did."""
    for stream in range(len(run.lane)):
        if run.ready[stream] < 0 and _can_start(arrays, run, stream, ends):
            run.ready[stream] = now
    started = False
    for lane in range(len(run.lane)):
        if run.lane[lane] >= 0:
            continue
        best = -1
        for stream in range(len(run.lane)):
            if (
                arrays.lane[stream] == lane
                and run.ready[stream] >= 0
                and (best < 0 or run.ready[stream] < run.ready[best])
            ):
                best = stream
        if best >= 0:
            run.lane[lane], run.ready[best] = best, -1
            starts[run.position[best]] = now
            _begin(arrays, servers, run, best, now, policy)
            started = True
    return started


@jit_inline
def _can_start(arrays: Arrays, run: Run, stream: int, ends: IntArray) -> bool:
    """Tell whether the stream has a next operation that waits for nothing but its lane."""
    op = run.position[stream]
    if op >= arrays.stream[stream + 1] or run.lane[arrays.lane[stream]] == stream:
        return False
    wait = arrays.op[op, 2]
    return bool(wait < 0 or ends[wait] >= 0)


@jit_inline
def _begin(arrays: Arrays, servers: Servers, run: Run, stream: int, now: int, policy: int) -> None:
    """Start the next operation of a stream: work ends after its ticks, the chunks of a call wait for dimensions."""
    op = run.position[stream]
    call = arrays.op[op, 1]
    if call < 0:
        run.end[stream] = now + arrays.op[op, 0]
        return
    first, apart, chunks = arrays.call[call, 0], arrays.call[call, 1], arrays.call[call, 2]
    if arrays.route[first] == arrays.route[first + 1]:
        run.end[stream] = now
        return
    run.pending[stream] = chunks
    base = stream * (len(run.chunk) // len(run.lane))
    for index in range(chunks):
        route = first + apart * index
        run.chunk[base + index, 0] = arrays.route[route]
        run.chunk[base + index, 1] = arrays.route[route + 1]
        _wait(arrays, servers, run, policy, base + index)


@jit_inline
def _end(arrays: Arrays, run: Run, stream: int, now: int, ends: IntArray) -> None:
    ends[run.position[stream]] = now
    run.position[stream] += 1
    run.lane[arrays.lane[stream]] = -1


@jit_inline
def _wait(arrays: Arrays, servers: Servers, run: Run, policy: int, chunk: int) -> None:
    visit = run.chunk[chunk, 0]
    entry = (chunk, arrays.visit[visit, 1], arrays.visit[visit, 3], run.counter[1])
    enqueue(servers, policy, arrays.visit[visit, 0], entry)
    run.counter[1] += 1


@jit_inline
def _serve(arrays: Arrays, servers: Servers, run: Run, now: int, active: int, share: int) -> None:
    """Let every dimension with room take waiting chunks."""
    for dim in range(len(servers.free)):
        if servers.waiting[dim] == 0 or servers.serving[dim] >= active:
            continue
        advance(servers, dim, now, share)
        while servers.waiting[dim] > 0 and servers.serving[dim] < active:
            chunk = next_waiting(servers, dim)
            admit(servers, dim, now, chunk, arrays.visit[run.chunk[chunk, 0], 1] * share)
        plan_end(servers, dim, share)


@jit_inline
def _next_time(servers: Servers, run: Run) -> int:
    time = NEVER
    for dim in range(len(servers.free)):
        time = min(time, servers.free[dim])
    for stream in range(len(run.end)):
        time = min(time, run.end[stream])
    if run.counter[0] > 0:
        time = min(time, run.heap[0, 0])
    return time


@jit_inline
def _push(run: Run, time: int, chunk: int) -> None:
    """Add an arrival; those of one time come in the order in which they were added."""
    push(run.heap, run.counter[0], time, run.counter[1], chunk)
    run.counter[0], run.counter[1] = run.counter[0] + 1, run.counter[1] + 1


@jit_inline
def _pop(run: Run) -> int:
    """Remove the first arrival and return its chunk."""
    chunk = pop(run.heap, run.counter[0])
    run.counter[0] -= 1
    return chunk
