"""What a replay runs: per NPU a list of operations with dependencies, and the communicator groups."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from cosmic_opt._registry import Registry


class Kind(StrEnum):
    """What an operation does. A `SKIPPED` one only passes its dependencies on."""

    COMPUTE = "compute"
    COLLECTIVE = "collective"
    SEND = "send"
    RECEIVE = "receive"
    MEMORY = "memory"
    SKIPPED = "skipped"


COLLECTIVE_NAMES = ("all_reduce", "all_gather", "all_to_all", "reduce_scatter", "broadcast")


@dataclass(frozen=True, slots=True)
class Operation:
    """One node of an execution trace.

    `dependencies` are identifiers of the same NPU's operations. `size_bytes` is the tensor's size of computation
    and memory access, and comm_size of communication. `peer` is the other NPU of a send or receive. `group` names
    a communicator group, "" all NPUs. `duration_us` is the recorded time, used without a roofline and by CPU
    operations and broadcasts.
    """

    id: int
    kind: Kind
    name: str = ""
    dependencies: tuple[int, ...] = ()
    duration_us: int = 0
    on_cpu: bool = False
    flops: int = 0
    size_bytes: int = 0
    collective: str = ""
    group: str = ""
    involved_dims: tuple[bool, ...] | None = None
    peer: int = 0
    tag: int = 0


@dataclass(frozen=True, slots=True)
class TraceWorkload:
    """One list of operations per NPU, and the members of each communicator group, in order."""

    ranks: tuple[tuple[Operation, ...], ...]
    groups: Mapping[str, tuple[int, ...]]

    @property
    def operations(self) -> int:
        """Return the number of operations of all NPUs."""
        return sum(len(rank) for rank in self.ranks)


WORKLOAD_READERS: Registry[Callable[[Path], TraceWorkload]] = Registry("trace format")
"""Readers of trace workloads by format; `interop` enters them."""
