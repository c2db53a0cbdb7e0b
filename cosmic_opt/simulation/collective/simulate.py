"""One collective on a network, under a network profile."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from cosmic_opt.errors import SpecError, nearest
from cosmic_opt.simulation.collective.astra_sim.case import AstraCase
from cosmic_opt.simulation.collective.astra_sim.run import BYTES_PER_GIB, AstraTiming, run_case
from cosmic_opt.simulation.collective.astra_sim.schedule import Phase
from cosmic_opt.simulation.collective.link import link_collective
from cosmic_opt.simulation.collective.result import CollectiveResult, PhaseTiming, bus_bandwidth
from cosmic_opt.simulation.collective.themis import themis_collective
from cosmic_opt.simulation.events.chunking import check_chunks, check_drift, check_payload
from cosmic_opt.simulation.events.collective import Group
from cosmic_opt.system.multidim import THEMIS, plan
from cosmic_opt.system.network import Network

PROFILES = ("link", "astra_sim", "astra_sim_aware")
TICKS_PER_NS = 1000


@dataclass(frozen=True, slots=True)
class AstraSimOptions:
    """What ASTRA-sim's system layer has and the profile `link` does not.

    `active_chunks` per dimension run at one time, each at full bandwidth. `memory_gb_per_s` (10^9 B/s) is what
    reductions go through, infinite when they are free. `involved_dims` restricts the collective to some
    dimensions; `groups` run it side by side, each as a flat ring.
    """

    active_chunks: int = 1
    endpoint_delay_ns: int = 10
    memory_gb_per_s: float = math.inf
    involved_dims: tuple[bool, ...] | None = None
    groups: tuple[tuple[int, ...], ...] = ()


def simulate_collective(
    network: Network,
    collective: str,
    algorithms: Sequence[str],
    size_bytes: int,
    *,
    multidim: str = "blueconnect",
    policy: str = "fifo",
    chunks: int = 1,
    extents: Sequence[int] | None = None,
    strides: Sequence[int] | None = None,
    profile: str = "link",
    astra_sim: AstraSimOptions | None = None,
) -> CollectiveResult:
    """Return how long `collective` takes, its phases and its bus bandwidth.

    Under `link`, `size_bytes` is the full buffer of any collective (what goes into an all-reduce, what comes out of
    an all-gather), and a group has extents[d] NPUs, strides[d] apart, in dimension d (default: all of them); all
    such groups run together. `themis` plays the chunks by events, served in the order of `policy`; the closed forms
    of the other ways hold under every order. Under `astra_sim`, `size_bytes` is its comm_size (for an all-gather the
    shard that goes in); `algorithms` may also be ASTRA-sim's own names (`direct4`, `oneRing`). `astra_sim_aware` takes
    the same and has one dimension, whose links messages wait for; what a chunk does there has no phase time of its own.

    Raises:
        SpecError: an unknown name, a number out of range, an option that the profile does not have, or (`link`) more
            chunks than bytes or so many that rounding to ticks adds up.
        InfeasibleError: an algorithm that does not exist for an extent, or an input on which ASTRA-sim fails.
        LimitError: (`themis`) more chunks than events play in seconds.
    """
    if profile not in PROFILES:
        raise SpecError(f"unknown network profile {profile!r}", hint=nearest(profile, PROFILES))
    check_payload(size_bytes, chunks)
    if profile == "link":
        if astra_sim is not None:
            raise SpecError("ASTRA-sim's options have no effect under the profile 'link'", hint="leave them out")
        group = _group(network, algorithms, extents, strides)
        return _link_result(group, collective, size_bytes, multidim, chunks, policy)
    if policy != "fifo":
        raise SpecError(f"the profile {profile!r} has its own service order", hint="leave the policy out")
    if extents is not None or strides is not None:
        raise SpecError(f"the profile {profile!r} has no extents", hint="use involved_dims or groups")
    options = astra_sim if astra_sim is not None else AstraSimOptions()
    case = _case(network, collective, algorithms, size_bytes, multidim, chunks, options)
    if profile == "astra_sim":
        return _astra_result(case, network.npus, run_case(case), profile)
    from cosmic_opt.simulation.collective.astra_sim.aware import run_aware_case  # compiled: loaded where it is used

    return _astra_result(case, network.npus, run_aware_case(case), profile)


def _link_result(
    group: Group, collective: str, size_bytes: int, multidim: str, chunks: int, policy: str
) -> CollectiveResult:
    if multidim == THEMIS:
        return themis_collective(group, collective, size_bytes, chunks, policy)
    check_chunks(size_bytes, chunks)
    result = link_collective(
        group.network, collective, group.algorithms, size_bytes, multidim, chunks, group.extents, group.strides
    )
    route = plan(collective, multidim, group.extents)
    check_drift(group.occupations((route,), size_bytes, chunks), chunks, result.time_ticks)
    return result


def _group(
    network: Network, algorithms: Sequence[str], extents: Sequence[int] | None, strides: Sequence[int] | None
) -> Group:
    whole = [dimension.npus for dimension in network.dimensions]
    sizes = tuple(whole if extents is None else extents)
    steps = tuple([1] * len(whole) if strides is None else strides)
    _check_length("extents", sizes, network)
    _check_length("strides", steps, network)
    _check_length("algorithms", algorithms, network)
    return Group(network, tuple(algorithms), sizes, steps)


def _check_length(name: str, values: Sequence[object], network: Network) -> None:
    if len(values) != len(network.dimensions):
        raise SpecError(
            f"{len(values)} {name} for {len(network.dimensions)} network dimensions",
            hint="give one per dimension, innermost first",
        )


def _case(
    network: Network,
    collective: str,
    algorithms: Sequence[str],
    size_bytes: int,
    multidim: str,
    chunks: int,
    options: AstraSimOptions,
) -> AstraCase:
    dimensions = network.dimensions
    return AstraCase(
        topologies=tuple(dimension.topology for dimension in dimensions),
        npus_per_dim=tuple(dimension.npus for dimension in dimensions),
        bandwidth_gib_per_s=tuple(dimension.bandwidth_bytes_per_s / BYTES_PER_GIB for dimension in dimensions),
        latency_ns=tuple(dimension.latency_ticks / TICKS_PER_NS for dimension in dimensions),
        algorithms=tuple(algorithms),
        collective=collective,
        size_bytes=size_bytes,
        chunks=chunks,
        active_chunks=options.active_chunks,
        multidim=multidim,
        endpoint_delay_ns=options.endpoint_delay_ns,
        memory_gb_per_s=options.memory_gb_per_s,
        involved_dims=options.involved_dims,
        groups=options.groups,
    )


def _astra_result(case: AstraCase, npus: int, timing: AstraTiming, profile: str) -> CollectiveResult:
    members = max((len(group) for group in case.groups), default=npus)
    if not case.groups:
        members = math.prod({phase.dim: phase.npus for phase in timing.phases}.values())
    full_bytes = case.size_bytes * (members if case.collective == "all_gather" else 1)
    time_ticks = timing.time_ns * TICKS_PER_NS
    return CollectiveResult(
        profile=profile,
        npus=members,
        chunks=timing.chunks,
        time_ticks=time_ticks,
        first_npu_time_ticks=timing.first_npu_time_ns * TICKS_PER_NS,
        phases=tuple(_astra_phase(phase) for phase in timing.phases),
        bus_bandwidth_bytes_per_s=bus_bandwidth(case.collective, members, full_bytes, time_ticks),
    )


def _astra_phase(phase: Phase) -> PhaseTiming:
    """Return the phase with its time when every NPU starts it at once."""
    starts = np.zeros(phase.members.shape[1], dtype=np.int64)
    return PhaseTiming(
        dim=phase.dim,
        collective=phase.collective,
        payload_bytes=phase.data_bytes,
        time_ticks=int(phase.finish(starts).max()) * TICKS_PER_NS,
    )
