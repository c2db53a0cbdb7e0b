"""Runs one case: the machine as a whole, or each communicator group on its own."""

from __future__ import annotations

from dataclasses import dataclass

from cosmic_opt.errors import LimitError
from cosmic_opt.simulation.collective.astra_sim.case import AstraCase
from cosmic_opt.simulation.collective.astra_sim.edges import Fabric
from cosmic_opt.simulation.collective.astra_sim.plan import cut, group_plan, machine_plan
from cosmic_opt.simulation.collective.astra_sim.schedule import Phase, Schedule

BYTES_PER_GIB = 2**30
NS_PER_S = 10**9
MOST_NPUS = 2**17
MOST_CHUNKS = 2**16
MOST_EVENTS = 2**20


@dataclass(frozen=True, slots=True)
class AstraTiming:
    """When the last and the first NPU finish, the chunks run, and the phases that one chunk goes through."""

    time_ns: int
    first_npu_time_ns: int
    chunks: int
    phases: tuple[Phase, ...]


def run_case(case: AstraCase) -> AstraTiming:
    """Return what ASTRA-sim's congestion-unaware backend reports for `case`.

    Raises:
        InfeasibleError: ASTRA-sim does not end on this input; the message says why.
        LimitError: the machine, the number of chunks or the time is too large.
    """
    case.refuse_failures()
    fabric = fabric_of(case)
    if fabric.npus > MOST_NPUS or cut(case).count > MOST_CHUNKS:
        raise LimitError(
            f"{cut(case).count} chunks on {fabric.npus} NPUs are too many to simulate",
            hint=f"at most {MOST_CHUNKS} chunks and {MOST_NPUS} NPUs",
        )
    chunks = cut(case).count
    smaller = [group for group in case.groups if len(group) < fabric.npus]
    plans = _distinct_group_plans(case, fabric, smaller) if smaller else [machine_plan(case, fabric)]
    events = sum(chunks * len(plan[0]) * plan[0][0].members.size for plan in plans)
    if events > MOST_EVENTS:
        raise LimitError(f"the collective has {events} events", hint=f"at most {MOST_EVENTS}: use fewer chunks")
    finishes = [Schedule(plan, chunks, case.active_chunks).run() for plan in plans]
    return AstraTiming(
        time_ns=max(int(times.max()) for times in finishes),
        first_npu_time_ns=min(int(times.min()) for times in finishes),
        chunks=chunks,
        phases=plans[0][0],
    )


def fabric_of(case: AstraCase) -> Fabric:
    """Return the network of a case."""
    return Fabric(case.topologies, case.npus_per_dim, bytes_per_ns(case), case.latency_ns)


def bytes_per_ns(case: AstraCase) -> tuple[float, ...]:
    """Return the bandwidth of each dimension."""
    return tuple(value * BYTES_PER_GIB / NS_PER_S for value in case.bandwidth_gib_per_s)


def _distinct_group_plans(
    case: AstraCase, fabric: Fabric, groups: list[tuple[int, ...]]
) -> list[tuple[tuple[Phase, ...], tuple[Phase, ...]]]:
    """Return one plan per group that differs in its edges; groups do not slow each other down."""
    plans = dict[bytes, tuple[tuple[Phase, ...], tuple[Phase, ...]]]()
    for group in groups:
        edges = fabric.edges(group)
        if edges.circulant:
            edges = edges.folded()
        key = edges.latency_ns.tobytes() + edges.bytes_per_ns.tobytes()
        if key not in plans:
            plans[key] = group_plan(case, edges)
    return list(plans.values())
