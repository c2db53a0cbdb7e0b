"""The time of one collective."""

from __future__ import annotations

from collections.abc import Mapping

from cosmic_opt.reporting.numbers import table
from cosmic_opt.simulation.collective import CollectiveResult, PhaseTiming
from cosmic_opt.units import TICKS_PER_SECOND, Unit, show

TICKS_PER_NS = TICKS_PER_SECOND // 10**9


def collective_keys(result: CollectiveResult, asked: Mapping[str, object]) -> dict[str, object]:
    """Return the object of `collective --json`: times in s and ns, then what was asked."""
    return {
        "time_s": result.time_ticks / TICKS_PER_SECOND,
        "time_ns": _ns(result.time_ticks),
        "first_npu_time_ns": _ns(result.first_npu_time_ticks),
        "phases": [_phase_keys(phase) for phase in result.phases],
        "bus_bandwidth_bytes_per_s": result.bus_bandwidth_bytes_per_s,
        "npus": result.npus,
        **asked,
        "chunks": result.chunks,
    }


def _ns(ticks: int) -> int | float:
    return ticks // TICKS_PER_NS if ticks % TICKS_PER_NS == 0 else ticks / TICKS_PER_NS


def _phase_keys(phase: PhaseTiming) -> dict[str, object]:
    parts = (phase.latency_ticks, phase.serialisation_ticks)
    latency, serialisation = (None if ticks is None else _ns(ticks) for ticks in parts)
    return {
        "dim": phase.dim,
        "collective": phase.collective,
        "payload_bytes": phase.payload_bytes,
        "time_ns": _ns(phase.time_ticks),
        "hops": phase.hops,
        "latency_ns": latency,
        "serialisation_ns": serialisation,
    }


def collective_text(result: CollectiveResult, asked: Mapping[str, object]) -> str:
    """Return the time, the bus bandwidth, and the phases of one chunk."""
    link = result.profile == "link"
    rows = []
    for phase in result.phases:
        row = [
            str(phase.dim),
            phase.collective,
            show(phase.payload_bytes, Unit.BYTES),
            show(phase.time_ticks, Unit.TIME),
        ]
        if link:
            row += [f"{phase.hops}", show(phase.latency_ticks or 0, Unit.TIME)]
            row.append(show(phase.serialisation_ticks or 0, Unit.TIME))
        rows.append(row)
    header = ["dim", "phase", "payload", "time", "hops", "latency", "serialisation"]
    lines = [
        f"{asked['collective']} of {show(int(str(asked['size_bytes'])), Unit.BYTES)} over {result.npus} NPUs: "
        f"{show(result.time_ticks, Unit.TIME)}",
        f"bus bandwidth {show(result.bus_bandwidth_bytes_per_s, Unit.BYTES_PER_S)}; "
        f"{result.chunks} chunks, {asked['multidim']}, profile {result.profile}",
    ]
    if result.first_npu_time_ticks != result.time_ticks:
        lines.append(f"the first NPU finishes at {show(result.first_npu_time_ticks, Unit.TIME)}")
    if not rows:
        return "\n".join([*lines, "no phase: a group of one NPU sends nothing"])
    phases = table(header if link else header[:4], rows, right=(0, 2, 3, 4, 5, 6))
    return "\n".join([*lines, "", "one chunk, phase by phase", phases])
