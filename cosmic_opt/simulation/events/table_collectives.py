"""Times of the collectives of a layer table on a network, from the chunk scheduler."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from math import prod

from cosmic_opt.simulation.events.collective import SCHEDULERS, Group, schedule_collective
from cosmic_opt.simulation.replay.training_loop import CollectiveTicks, Scope
from cosmic_opt.system.multidim import THEMIS
from cosmic_opt.system.network import Network
from cosmic_opt.workloads.placement import nested_placement, placement_strides


def buffer_bytes(collective: str, size_bytes: int, members: int) -> int:
    """Return the whole buffer of a table's collective among so many NPUs.

    A table gives the shard that goes into an all-gather and the buffer of every other collective (ASTRA-sim 1.0,
    `Layer`, final_data_size).
    """
    return size_bytes * members if collective == "all_gather" else size_bytes


def table_collectives(
    network: Network,
    algorithms: Sequence[str],
    *,
    model_npus: int = 1,
    scheduler: str = SCHEDULERS[0],
    chunks: int = 64,
    policy: str = "fifo",
) -> CollectiveTicks:
    """Return the time of a collective of a table on `network`, where groups of `model_npus` fill it from the inside.

    An all-to-all has one order of dimensions only, so that `themis` leads it as `blueconnect` does.

    Raises:
        InfeasibleError: groups of `model_npus` do not divide the network.
    """
    sizes = [dimension.npus for dimension in network.dimensions]
    extents = nested_placement((model_npus, network.npus // model_npus), sizes)
    strides = placement_strides(extents)
    groups = {Scope.ALL: Group.whole(network, algorithms)}
    for scope, extent, stride in zip((Scope.MODEL, Scope.DATA), extents, strides, strict=True):
        groups[scope] = Group(network, tuple(algorithms), extent, stride)

    @cache
    def ticks(collective: str, size_bytes: int, scope: Scope) -> int:
        lead = "blueconnect" if (scheduler, collective) == (THEMIS, "all_to_all") else scheduler
        group = groups[scope]
        whole = buffer_bytes(collective, size_bytes, prod(group.extents))
        done = schedule_collective(group, collective, whole, scheduler=lead, chunks=chunks, policy=policy)
        return done.time_ticks

    return ticks
