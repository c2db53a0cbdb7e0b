"""Times of the collectives of a layer table on a network, from the chunk scheduler."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache

from cosmic_opt.simulation.events.collective import SCHEDULERS, Group, schedule_collective
from cosmic_opt.simulation.replay.training_loop import CollectiveTicks, Scope
from cosmic_opt.system.multidim import THEMIS
from cosmic_opt.system.network import Network
from cosmic_opt.workloads.placement import nested_placement, placement_strides


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
        done = schedule_collective(groups[scope], collective, size_bytes, scheduler=lead, chunks=chunks, policy=policy)
        return done.time_ticks

    return ticks
