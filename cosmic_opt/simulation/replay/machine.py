"""The machine that a replay runs on: network, system layer, roofline and remote memory, in ASTRA-sim's units."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from math import prod

from cosmic_opt.errors import InfeasibleError, SpecError, nearest
from cosmic_opt.simulation.collective.astra_sim.case import AstraCase

PROFILES = ("astra_sim", "astra_sim_aware")
MEMORY_TYPES = ("NO_MEMORY_EXPANSION", "PER_NPU_MEMORY_EXPANSION", "PER_NODE_MEMORY_EXPANSION", "MEMORY_POOL")
MOST_NS = 2**60


@dataclass(frozen=True, slots=True)
class RemoteMemory:
    """ASTRA-sim's remote memory: `kind` is its memory-type, the bandwidth counts bytes per ns (10^9 B/s)."""

    kind: str = "NO_MEMORY_EXPANSION"
    latency_ns: int = 0
    bytes_per_ns: float = 1.0

    def __post_init__(self) -> None:
        if self.kind not in MEMORY_TYPES:
            raise SpecError(f"unknown memory type {self.kind!r}", hint=nearest(str(self.kind), MEMORY_TYPES))
        if type(self.latency_ns) is not int or not 0 <= self.latency_ns < MOST_NS:
            raise SpecError(f"the remote memory's latency is {self.latency_ns!r}", hint="write whole ns")
        if not _positive(self.bytes_per_ns):
            raise SpecError(f"the remote memory's bandwidth is {self.bytes_per_ns!r}", hint="write 10^9 B/s, above 0")

    def access_ns(self, size_bytes: int) -> int:
        """Return latency + floor(size / bandwidth).

        Raises:
            InfeasibleError: ASTRA-sim has no such memory, or crashes on it.
        """
        if self.kind == "NO_MEMORY_EXPANSION":
            raise InfeasibleError(
                "ASTRA-sim gives no time: the workload uses remote memory and there is none",
                hint="give a remote memory of type PER_NPU_MEMORY_EXPANSION or MEMORY_POOL",
            )
        if self.kind == "PER_NODE_MEMORY_EXPANSION":
            raise InfeasibleError(
                "ASTRA-sim gives no time: its PER_NODE_MEMORY_EXPANSION crashes on the first access",
                hint="use PER_NPU_MEMORY_EXPANSION or MEMORY_POOL",
            )
        return self.latency_ns + int(size_bytes / self.bytes_per_ns)


@dataclass(frozen=True, slots=True)
class ReplayMachine:
    """One network and system configuration. Bandwidths count 2^30 B/s, the local memory's 10^9 B/s.

    `algorithms` gives the implementation list of each collective; `peak_tflops` turns the roofline on (None:
    recorded durations are replayed). `profile` says whether messages wait for links.

    Raises:
        SpecError: a value that means nothing.
    """

    topologies: tuple[str, ...]
    npus_per_dim: tuple[int, ...]
    bandwidth_gib_per_s: tuple[float, ...]
    latency_ns: tuple[float, ...]
    algorithms: Mapping[str, tuple[str, ...]]
    chunks: int = 1
    active_chunks: int = 1
    multidim: str = "blueconnect"
    endpoint_delay_ns: int = 10
    memory_gb_per_s: float = math.inf
    peak_tflops: float | None = None
    remote_memory: RemoteMemory = field(default_factory=RemoteMemory)
    profile: str = "astra_sim"

    def __post_init__(self) -> None:
        if self.profile not in PROFILES:
            raise SpecError(f"unknown network profile {self.profile!r}", hint=nearest(str(self.profile), PROFILES))
        if self.profile == "astra_sim_aware" and len(self.npus_per_dim) > 1:
            raise SpecError(
                "the profile 'astra_sim_aware' has one dimension", hint="use the profile 'astra_sim' for several"
            )
        if not self.algorithms:
            raise SpecError("no collective has an algorithm", hint="give at least the all-reduce implementation")
        for collective in self.algorithms:
            self.case(collective, 0)
        if self.peak_tflops is not None and not _positive(self.peak_tflops):
            raise SpecError(f"peak_tflops is {self.peak_tflops!r}", hint="write 10^12 FLOP/s, above 0")

    @property
    def npus(self) -> int:
        """Return the number of NPUs."""
        return prod(self.npus_per_dim)

    def case(
        self, collective: str, size_bytes: int, involved_dims: tuple[bool, ...] | None = None, *, grouped: bool = False
    ) -> AstraCase:
        """Return one collective of all NPUs; `grouped` says that a communicator group names them.

        Raises:
            SpecError: the collective has no algorithm here.
        """
        if collective not in self.algorithms:
            raise SpecError(f"no implementation of {collective} is given", hint=f"add the list of {collective}")
        return AstraCase(
            topologies=self.topologies,
            npus_per_dim=self.npus_per_dim,
            bandwidth_gib_per_s=self.bandwidth_gib_per_s,
            latency_ns=self.latency_ns,
            algorithms=self.algorithms[collective],
            collective=collective,
            size_bytes=size_bytes,
            chunks=self.chunks,
            active_chunks=self.active_chunks,
            multidim=self.multidim,
            endpoint_delay_ns=self.endpoint_delay_ns,
            memory_gb_per_s=self.memory_gb_per_s,
            involved_dims=involved_dims,
            groups=(tuple(range(self.npus)),) if grouped else (),
        )

    def compute_ns(self, flops: int, size_bytes: int) -> int:
        """Return the roofline's time: floor(flops / min(peak, memory bandwidth · flops / bytes)).

        The floating-point operations are ASTRA-sim's, in its order.

        Raises:
            InfeasibleError: ASTRA-sim's result is not a time.
        """
        assert self.peak_tflops is not None
        intensity = flops / size_bytes
        performance = min(self.memory_gb_per_s * 1e9 * intensity, self.peak_tflops * 1e12)
        if flops == 0 or performance == 0:
            raise InfeasibleError(
                "ASTRA-sim gives no time: a computation of 0 FLOP has no time on its roofline",
                hint="give every computation its FLOP",
            )
        return int(flops / performance * 1e9)


def _positive(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and 0 < value < math.inf
