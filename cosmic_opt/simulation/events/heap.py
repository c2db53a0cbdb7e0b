"""Compiled: a binary heap in an array; a row is (time, key, item), and the least (time, key) is the first."""

from __future__ import annotations

from cosmic_opt.simulation.analytical._jit import jit_inline
from cosmic_opt.simulation.events.program import IntArray


@jit_inline
def push(heap: IntArray, size: int, time: int, key: int, item: int) -> None:
    """Add a row to a heap of `size` rows."""
    place = size
    while place > 0:
        above = (place - 1) >> 1
        if heap[above, 0] < time or (heap[above, 0] == time and heap[above, 1] < key):
            break
        heap[place, 0], heap[place, 1], heap[place, 2] = heap[above, 0], heap[above, 1], heap[above, 2]
        place = above
    heap[place, 0], heap[place, 1], heap[place, 2] = time, key, item


@jit_inline
def pop(heap: IntArray, size: int) -> int:
    """Remove the first row of a heap of `size` rows and return its item."""
    item, last = int(heap[0, 2]), size - 1
    time, key, moved = heap[last, 0], heap[last, 1], heap[last, 2]
    place = 0
    while 2 * place + 1 < last:
        below = 2 * place + 1
        if below + 1 < last and (
            heap[below + 1, 0] < heap[below, 0]
            or (heap[below + 1, 0] == heap[below, 0] and heap[below + 1, 1] < heap[below, 1])
        ):
            below += 1
        if time < heap[below, 0] or (time == heap[below, 0] and key < heap[below, 1]):
            break
        heap[place, 0], heap[place, 1], heap[place, 2] = heap[below, 0], heap[below, 1], heap[below, 2]
        place = below
    heap[place, 0], heap[place, 1], heap[place, 2] = time, key, moved
    return item
