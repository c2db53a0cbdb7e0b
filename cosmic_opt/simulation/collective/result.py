"""What a simulation of one collective returns, whatever the network profile."""

from __future__ import annotations

from dataclasses import dataclass

from cosmic_opt.units import TICKS_PER_SECOND


@dataclass(frozen=True, slots=True)
class PhaseTiming:
    """One phase of one chunk.

    `payload_bytes` is the phase's full buffer under `link` (exact bytes rounded to whole ones) and its input under
    `astra_sim`. `time_ticks` is its time alone; `hops`, `latency_ticks` and `serialisation_ticks` are the parts
    under `link`, None under `astra_sim`, which rounds every message as a whole.
    """

    dim: int
    collective: str
    payload_bytes: int
    time_ticks: int
    hops: int | None = None
    latency_ticks: int | None = None
    serialisation_ticks: int | None = None


@dataclass(frozen=True, slots=True)
class CollectiveResult:
    """When the last and the first NPU finish, and the phases one chunk goes through.

    `bus_bandwidth_bytes_per_s` is the NCCL measure: the bytes that every NPU must send at least, over the time.
    It never exceeds the dimension's bandwidth under `link`, unless a switch reduces (`in_network`). A group of one NPU
    has none.
    """

    profile: str
    npus: int
    chunks: int
    time_ticks: int
    first_npu_time_ticks: int
    phases: tuple[PhaseTiming, ...]
    bus_bandwidth_bytes_per_s: float


def bus_bandwidth(collective: str, npus: int, full_bytes: int, time_ticks: int) -> float:
    """Return the bus bandwidth in bytes/s: (n-1)/n of the full buffer over the time, twice that in an all-reduce.

    Source: NCCL tests, PERFORMANCE.md.
    """
    if time_ticks == 0:
        return 0.0
    passes = 2 if collective == "all_reduce" else 1
    return passes * (npus - 1) * full_bytes * TICKS_PER_SECOND / (npus * time_ticks)
