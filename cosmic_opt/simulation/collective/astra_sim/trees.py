"""The double binary tree: an all-reduce of the whole chunk on one of two complementary trees."""

from __future__ import annotations

import numpy as np

from cosmic_opt.simulation.collective.astra_sim.algorithms import Costs
from cosmic_opt.simulation.collective.astra_sim.edges import Edges, IntArray
from cosmic_opt.system.collectives.double_binary_tree import parent


def tree_finish(edges: Edges, data_bytes: int, costs: Costs, starts: IntArray, root_is_first: bool) -> IntArray:
    """Return when each NPU finishes an all-reduce on the tree whose root is the first, or the last, member.

    Up: a leaf sends `delay` after its start; an inner node and the root reduce each child's message. Down: inner
    nodes forward after `delay` and a memory pass, and are done; a leaf is done `delay` after it received; the
    root is done with the way up.
    """
    count = edges.members
    rank_of = np.arange(count) if root_is_first else np.arange(count)[::-1]
    work = costs.delay_ns + costs.reduction_ns(data_bytes)
    ready = (starts[rank_of] + costs.delay_ns).tolist()
    began = starts[rank_of].tolist()
    message = _edge_times(edges, data_bytes, rank_of)
    levels = count.bit_length() - 1
    for rank in _by_level(count, range(1, levels)):
        ready[rank] = began[rank]
    for rank in _by_level(count, range(levels)):
        above = parent(rank, count)
        reduced = max(ready[rank] + message[rank], began[above]) + work
        ready[above] = max(ready[above], reduced) if above else reduced
    done = [0] * count
    done[0] = ready[0]
    for rank in reversed(_by_level(count, range(levels))):
        received = done[parent(rank, count)] + message[rank]
        done[rank] = received + (costs.delay_ns if rank & 1 else work)
    result = np.empty(count, dtype=np.int64)
    result[rank_of] = done
    return result


def _by_level(count: int, levels: range) -> list[int]:
    """Return the ranks of the first tree but the root, leaves first: by lowest set bit."""
    return [rank for level in levels for rank in range(1 << level, count, 2 << level)]


def _edge_times(edges: Edges, data_bytes: int, rank_of: IntArray) -> list[int]:
    """Return the time of a message between each rank and its parent; both directions take the same."""
    count = edges.members
    parents = np.array([0] + [parent(rank, count) for rank in range(1, count)])
    offsets = (rank_of[parents] - rank_of) % count
    times: list[int] = edges.message_ns(rank_of, offsets, data_bytes).tolist()
    return times
