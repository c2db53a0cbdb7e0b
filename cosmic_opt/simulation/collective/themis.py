"""Profile `link` under Themis: chunks in orders of their own, played by events."""

from __future__ import annotations

from fractions import Fraction
from math import prod

from cosmic_opt.simulation.collective.link import phase_timing
from cosmic_opt.simulation.collective.result import CollectiveResult, PhaseTiming, bus_bandwidth
from cosmic_opt.simulation.events.collective import Group, schedule_collective
from cosmic_opt.system.multidim import THEMIS, PlanPhase


def themis_collective(group: Group, collective: str, size_bytes: int, chunks: int, policy: str) -> CollectiveResult:
    """Return the time of `chunks` equal chunks and the phases of the first one; `size_bytes` is the full buffer."""
    done = schedule_collective(group, collective, size_bytes, scheduler=THEMIS, chunks=chunks, policy=policy)
    npus, chunk_bytes = prod(group.extents), Fraction(size_bytes, chunks)
    return CollectiveResult(
        profile="link",
        npus=npus,
        chunks=chunks,
        time_ticks=done.time_ticks,
        first_npu_time_ticks=done.time_ticks,
        phases=tuple(_timing(group, phase, chunk_bytes) for phase in done.routes[0]),
        bus_bandwidth_bytes_per_s=bus_bandwidth(collective, npus, size_bytes, done.time_ticks),
    )


def _timing(group: Group, phase: PlanPhase, chunk_bytes: Fraction) -> PhaseTiming:
    dim = phase.dim
    where = group.network.dimensions[dim], group.algorithms[dim], group.extents[dim], group.strides[dim]
    return phase_timing(phase, *where, chunk_bytes)
