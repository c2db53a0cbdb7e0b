"""Replay of whole traced workloads under the profiles `astra_sim` and `astra_sim_aware`."""

from __future__ import annotations

from cosmic_opt.simulation.replay.machine import RemoteMemory, ReplayMachine
from cosmic_opt.simulation.replay.run import NpuTimes, ReplayResult, replay
from cosmic_opt.simulation.replay.trace import WORKLOAD_READERS, Kind, Operation, TraceWorkload

__all__ = [
    "WORKLOAD_READERS",
    "Kind",
    "NpuTimes",
    "Operation",
    "RemoteMemory",
    "ReplayMachine",
    "ReplayResult",
    "TraceWorkload",
    "replay",
]
