"""Profile `link`: the analytical closed form of a chunked collective on links that are shared honestly."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from math import prod

from cosmic_opt.simulation.collective.result import CollectiveResult, PhaseTiming, bus_bandwidth
from cosmic_opt.system.multidim import PlanPhase, plan
from cosmic_opt.system.network import Dimension, Network
from cosmic_opt.system.phase import dimension_cost


def link_collective(
    network: Network,
    collective: str,
    algorithms: Sequence[str],
    size_bytes: int,
    multidim: str,
    chunks: int,
    extents: Sequence[int],
    strides: Sequence[int],
) -> CollectiveResult:
    """Return the time of `chunks` equal chunks; `size_bytes` is the full buffer.

    Each phase's serialisation and latency are rounded once to the nearest tick.
    """
    chunk_bytes = Fraction(size_bytes, chunks)
    phases = tuple(
        phase_timing(
            part, network.dimensions[part.dim], algorithms[part.dim], extents[part.dim], strides[part.dim], chunk_bytes
        )
        for part in plan(collective, multidim, extents)
    )
    time_ticks = chunked_time_ticks(phases, chunks)
    npus = prod(extents)
    return CollectiveResult(
        profile="link",
        npus=npus,
        chunks=chunks,
        time_ticks=time_ticks,
        first_npu_time_ticks=time_ticks,
        phases=phases,
        bus_bandwidth_bytes_per_s=bus_bandwidth(collective, npus, size_bytes, time_ticks),
    )


def chunked_time_ticks(phases: Sequence[PhaseTiming], chunks: int) -> int:
    """Return max(path, max over dimensions of head + chunks · work + tail).

    A phase occupies its dimension for its serialisation; its latency delays the chunk alone. `path` is one chunk's
    own time, `work` all its serialisation on a dimension, `head` and `tail` its time before the first and after
    the last. No order of service is faster, and one chunk takes exactly this.
    """
    times = [phase.time_ticks for phase in phases]
    longest = sum(times)
    for dim in {phase.dim for phase in phases}:
        visits = [i for i, phase in enumerate(phases) if phase.dim == dim]
        work = sum(phases[i].serialisation_ticks or 0 for i in visits)
        head = sum(times[: visits[0]])
        tail = (phases[visits[-1]].latency_ticks or 0) + sum(times[visits[-1] + 1 :])
        longest = max(longest, head + chunks * work + tail)
    return longest


def phase_timing(
    part: PlanPhase, dimension: Dimension, algorithm: str, extent: int, stride: int, chunk_bytes: Fraction
) -> PhaseTiming:
    """Return one phase of one chunk of a group of `extent` NPUs, `stride` apart, in a dimension."""
    cost = dimension_cost(dimension, algorithm, part.collective, extent, stride)
    latency_ticks = cost.hops * dimension.latency_ticks
    serialisation_ticks = dimension.serialisation_ticks(cost.load * part.share * chunk_bytes)
    return PhaseTiming(
        dim=part.dim,
        collective=part.collective,
        payload_bytes=round(part.share * chunk_bytes),
        time_ticks=latency_ticks + serialisation_ticks,
        hops=cost.hops,
        latency_ticks=latency_ticks,
        serialisation_ticks=serialisation_ticks,
    )
