"""When each NPU finishes a phase, given when each starts it: ring and halving-doubling.

An NPU sends, posts the matching receive, and goes on `delay` after both have happened; a received message that is
reduced costs three memory accesses more. Every function takes and returns one time per row of the edges.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from cosmic_opt.errors import LimitError
from cosmic_opt.simulation.collective.astra_sim.edges import Edges, IntArray

LATEST_NS = 2**60

MEMORY_ACCESSES = 3
"""A reduction writes once and reads twice; each access is floored to a nanosecond."""


@dataclass(frozen=True, slots=True)
class Costs:
    """The endpoint delay of a step and the memory that a reduction goes through (10^9 B/s is one byte per ns)."""

    delay_ns: int
    memory_bytes_per_ns: float

    def reduction_ns(self, size_bytes: int) -> int:
        """Return the time of one reduction of a received message."""
        return MEMORY_ACCESSES * int(size_bytes / self.memory_bytes_per_ns)


def ring_finish(collective: str, edges: Edges, data_bytes: int, costs: Costs, starts: IntArray) -> IntArray:
    """Return when each NPU finishes a ring collective of `data_bytes` input.

    n - 1 steps (all-reduce twice as many, all-to-all n(n-1)/2) of an n-th of the input, or all of it in an
    all-gather; the first n - 1 receives of all-reduce and reduce-scatter are reduced.
    """
    count = edges.members
    size = data_bytes if collective == "all_gather" else data_bytes // count
    steps = {"all_reduce": 2 * (count - 1), "all_to_all": count * (count - 1) // 2}.get(collective, count - 1)
    reduced = count - 1 if collective in ("all_reduce", "reduce_scatter") else 0
    message = edges.ahead_ns(1, size)
    reduction = costs.reduction_ns(size)
    if (steps + 1) * (int(message.max()) + costs.delay_ns + reduction) >= LATEST_NS:
        raise LimitError(f"{steps} steps take more than {LATEST_NS} ns", hint="use a higher bandwidth")
    if edges.rows == 1:
        return starts + steps * (message + costs.delay_ns) + costs.delay_ns + reduced * reduction
    sent = starts + costs.delay_ns
    for step in range(steps):
        arrived = np.roll(sent + message, 1)
        sent = np.maximum(arrived, sent) + costs.delay_ns + (reduction if step < reduced else 0)
    return sent


def halving_doubling_finish(collective: str, edges: Edges, data_bytes: int, costs: Costs, starts: IntArray) -> IntArray:
    """Return when each NPU finishes a halving-doubling collective.

    A reduction is charged on the size of the message sent next, and not after the last receive of the halving.
    """
    count = edges.members
    levels = count.bit_length() - 1
    reduced = levels - 1 if collective in ("all_reduce", "reduce_scatter") else 0
    messages = halving_doubling_messages(collective, count, data_bytes)
    ranks = np.arange(edges.rows)
    sent = starts + costs.delay_ns
    for step, (offset, size) in enumerate(messages):
        forward = (ranks // offset) % 2 == 0
        partners = (ranks + np.where(forward, offset, -offset)) % edges.rows
        arrived = (sent + np.where(forward, edges.ahead_ns(offset, size), edges.ahead_ns(-offset, size)))[partners]
        reduction = costs.reduction_ns(messages[step + 1][1]) if step < reduced else 0
        sent = np.maximum(arrived, sent) + costs.delay_ns + reduction
    return sent


def halving_doubling_messages(collective: str, count: int, data_bytes: int) -> list[tuple[int, int]]:
    """Return (offset, bytes) of each send. Sizes are halved and doubled in whole bytes, rounding down.

    An all-reduce halves once more than it sends, and doubles from there, so that what was rounded off stays off: its
    way up is not quite the mirror of its way down (HalvingDoubling.cc, process_max_count).
    """
    levels = count.bit_length() - 1
    if collective == "all_gather":
        return [(count >> (level + 1), data_bytes << level) for level in range(levels)]
    down = [(1 << level, data_bytes >> (level + 1)) for level in range(levels)]
    if collective == "reduce_scatter":
        return down
    smallest = data_bytes >> (levels + 1)
    up = [(count >> (level + 1), smallest << (level + 1)) for level in range(levels)]
    return down + up
