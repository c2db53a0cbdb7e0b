"""The arrays of a link-level simulation, and its event queue: a heap ordered by time and order of insertion."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from cosmic_opt.simulation.analytical._jit import jit

IntArray = NDArray[np.int64]

HEAP, SERIAL, FREE_MESSAGES, OUTPUTS, OUTPUT_TIME = range(5)
"""Places in `State.meta`."""
RING, FULLY_CONNECTED, SWITCH = range(3)

TIME, ORDER, EVENT, SUBJECT = range(4)
"""Columns of the heap."""
HOP, PREPARED, RECEIVED, TREE_UP, TREE_REDUCED, TREE_FORWARD, TREE_DONE = range(7)
"""Events; the subject of a hop is a message, of all others a stream."""

NODE, STEP, HOPS, SIZE, TARGET, TURN = range(6)
"""Columns of a message: where it is, how it goes on, and the stream and turn that it is for.

A message of the workload itself has `TARGET` -1 and its token in `TURN`; a tree's messages have the turn UP or DOWN.
"""
UP, DOWN = -1, -2

INSTANCE, POSITION, CHUNK, STARTED, INSERTED, SENT, WAITING, FREE, ARRIVED, PENDING, EARLY = range(11)
"""Columns of a stream: one chunk of a collective on one NPU. `PENDING` and `EARLY` count a tree's children."""

ROWS, MEMBERS, CHUNKS, SERVERS, PROGRAM, STREAMS, FLAGS, FIRST_TREE = range(8)
"""Columns of an instance: one collective; never more servers than chunks."""

NPU, NEXT, LEFT = range(3)
"""Columns of a row: one NPU of an instance, its next chunk, and how many are not finished."""

KIND, WINDOW, SENDS, PERIOD, GATE, OFFSETS, SIZES, WORK = range(8)
"""Columns of a program; the last three are places in the pool. A tree's work: the delay, then delay + reduction."""
SHIFT, EXCHANGE, TREE = range(3)
"""Kinds of program: the peer is a number of places ahead, or the exclusive or; or a double binary tree."""


class State(NamedTuple):
    """Everything that a simulation holds. `network` is topology and NPUs, `rates` bytes per ns and latency in ns."""

    meta: IntArray
    heap: IntArray
    messages: IntArray
    free: IntArray
    streams: IntArray
    arrived: NDArray[np.uint8]
    instances: IntArray
    rows: IntArray
    programs: IntArray
    pool: IntArray
    links: IntArray
    outputs: IntArray
    network: IntArray
    rates: NDArray[np.float64]


@jit
def push(state: State, time: int, event: int, subject: int) -> None:
    """Schedule an event behind all earlier ones of its time."""
    heap, place = state.heap, state.meta[HEAP]
    order = state.meta[SERIAL]
    state.meta[HEAP] = place + 1
    state.meta[SERIAL] = order + 1
    while place > 0:
        above = (place - 1) >> 1
        if heap[above, TIME] <= time:
            break
        for column in range(4):
            heap[place, column] = heap[above, column]
        place = above
    heap[place, TIME] = time
    heap[place, ORDER] = order
    heap[place, EVENT] = event
    heap[place, SUBJECT] = subject


@jit
def drop_first(state: State) -> None:
    """Remove the first event."""
    heap = state.heap
    count = state.meta[HEAP] - 1
    state.meta[HEAP] = count
    time, order = heap[count, TIME], heap[count, ORDER]
    event, subject = heap[count, EVENT], heap[count, SUBJECT]
    place = 0
    while True:
        below = 2 * place + 1
        if below >= count:
            break
        if below + 1 < count and _before(heap, below + 1, below):
            below += 1
        if heap[below, TIME] > time or (heap[below, TIME] == time and heap[below, ORDER] > order):
            break
        for column in range(4):
            heap[place, column] = heap[below, column]
        place = below
    heap[place, TIME] = time
    heap[place, ORDER] = order
    heap[place, EVENT] = event
    heap[place, SUBJECT] = subject


@jit
def _before(heap: IntArray, first: int, second: int) -> bool:
    if heap[first, TIME] != heap[second, TIME]:
        return bool(heap[first, TIME] < heap[second, TIME])
    return bool(heap[first, ORDER] < heap[second, ORDER])


@jit
def report(state: State, time: int, work: int, row: int, token: int) -> None:
    """Put out that a row of a collective, or a message of the workload, is complete by an event `work` long."""
    count = state.meta[OUTPUTS]
    state.outputs[count, 0] = time
    state.outputs[count, 1] = row
    state.outputs[count, 2] = token
    state.outputs[count, 3] = time - work
    state.meta[OUTPUTS] = count + 1
    state.meta[OUTPUT_TIME] = time
