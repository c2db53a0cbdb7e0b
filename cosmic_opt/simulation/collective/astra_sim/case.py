"""One run of ASTRA-sim: a network, a system configuration and one collective, and what makes it fail."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass

from cosmic_opt.errors import InfeasibleError, SpecError, nearest
from cosmic_opt.system.collectives import COLLECTIVES
from cosmic_opt.system.multidim import MULTIDIM
from cosmic_opt.system.topology import TOPOLOGIES

KINDS = {
    "ring": "ring",
    "direct": "direct",
    "halvingDoubling": "halving_doubling",
    "halving_doubling": "halving_doubling",
    "doubleBinaryTree": "double_binary_tree",
    "double_binary_tree": "double_binary_tree",
    "oneRing": "ring",
    "oneDirect": "direct",
    "oneHalvingDoubling": "halving_doubling",
}
DEFAULT_INVOLVED_DIMS = 4
"""Without involved_dim the workload reader fills in four flags, so a fifth dimension takes no part."""


@dataclass(frozen=True, slots=True)
class Implementation:
    """One entry of an implementation list: the algorithm, its window (None: all peers), flat over all NPUs."""

    kind: str
    window: int | None
    flat: bool


def parse_implementation(name: str) -> Implementation:
    """Return the meaning of `ring`, `direct`, `direct4`, `halvingDoubling`, `oneRing`, ...

    Raises:
        SpecError: no such implementation, or not a text.
    """
    if not isinstance(name, str):
        raise SpecError(f"{name!r} is not a collective implementation", hint=f"known: {', '.join(KINDS)}")
    match = re.fullmatch(r"(direct|oneDirect)([1-9]\d*)", name)
    base, window = (match.group(1), int(match.group(2))) if match else (name, None)
    if base not in KINDS:
        raise SpecError(f"unknown collective implementation {name!r}", hint=nearest(name, KINDS))
    return Implementation(KINDS[base], window, base.startswith("one"))


@dataclass(frozen=True, slots=True)
class AstraCase:
    """The inputs, in ASTRA-sim's units.

    `size_bytes` is comm_size: the full buffer per NPU, for an all-gather the input shard. `bandwidth_gib_per_s`
    counts 2^30 B/s, `memory_gb_per_s` 10^9 B/s (infinite: reductions are free). `algorithms` has one
    implementation per dimension, or one `one...` for a flat collective. `groups` are communicator groups that run
    the collective at one time.

    Raises:
        SpecError: a value that means nothing.
    """

    topologies: tuple[str, ...]
    npus_per_dim: tuple[int, ...]
    bandwidth_gib_per_s: tuple[float, ...]
    latency_ns: tuple[float, ...]
    algorithms: tuple[str, ...]
    collective: str
    size_bytes: int
    chunks: int = 1
    active_chunks: int = 1
    multidim: str = "blueconnect"
    endpoint_delay_ns: int = 10
    memory_gb_per_s: float = math.inf
    involved_dims: tuple[bool, ...] | None = None
    groups: tuple[tuple[int, ...], ...] = ()

    def __post_init__(self) -> None:
        self._check_network()
        for name in self.algorithms:
            parse_implementation(name)
        for field, value, names in (
            ("collective", self.collective, COLLECTIVES),
            ("multidim", self.multidim, MULTIDIM),
        ):
            if value not in names:
                raise SpecError(f"unknown {field} {value!r}", hint=nearest(str(value), names))
        limits = (("size_bytes", 0), ("chunks", 0), ("active_chunks", 1), ("endpoint_delay_ns", 0))
        for field, least in limits:
            value = getattr(self, field)
            if type(value) is not int or not least <= value < 2**62:
                raise SpecError(f"{field} is {value!r}", hint=f"write a whole number of at least {least}")
        if self.memory_gb_per_s != math.inf and not (_is_number(self.memory_gb_per_s) and self.memory_gb_per_s >= 0):
            raise SpecError(f"memory_gb_per_s is {self.memory_gb_per_s!r}", hint="write a number of at least 0")
        if any(type(flag) is not bool for flag in self.involved_dims or ()):
            raise SpecError(f"involved_dims is {self.involved_dims!r}", hint="write true or false per dimension")
        self._check_groups()

    def _check_network(self) -> None:
        lists = (self.topologies, self.npus_per_dim, self.bandwidth_gib_per_s, self.latency_ns)
        if not self.topologies or len({len(values) for values in lists}) > 1:
            raise SpecError("the network lists differ in length", hint="give every list one entry per dimension")
        for topology in self.topologies:
            TOPOLOGIES.get(topology)
        for npus in self.npus_per_dim:
            if type(npus) is not int or npus < 1:
                raise SpecError(f"{npus!r} NPUs in a dimension", hint="write a whole number of at least 1")
        for bandwidth in self.bandwidth_gib_per_s:
            if not _is_number(bandwidth) or bandwidth <= 0:
                raise SpecError(f"a bandwidth is {bandwidth!r}", hint="write a positive number of 2^30 B/s")
        for latency in self.latency_ns:
            if not _is_number(latency) or latency < 0:
                raise SpecError(f"a latency is {latency!r}", hint="write a number of ns of at least 0")

    def _check_groups(self) -> None:
        total = math.prod(self.npus_per_dim)
        members = [npu for group in self.groups for npu in group]
        if any(type(npu) is not int or not 0 <= npu < total for npu in members):
            raise SpecError("a communicator group names an NPU outside the network", hint=f"0 to {total - 1}")
        if len(set(members)) < len(members):
            raise SpecError("an NPU is named twice in the communicator groups", hint="name each NPU once")

    def refuse_failures(self) -> None:
        """Raise when ASTRA-sim does not bring this input to an end on every NPU.

        Raises:
            InfeasibleError: names the reason.
        """
        reason = self._failure()
        if reason is not None:
            raise InfeasibleError(
                f"ASTRA-sim gives no time: {reason}", hint="change the input, or use the profile 'link'"
            )

    def _failure(self) -> str | None:
        if min(self.npus_per_dim) < 2:
            return "a dimension of one NPU makes it exit"
        if self.endpoint_delay_ns == 0:
            return "an endpoint delay of 0 fails an assertion at time 0"
        if self.chunks == 0:
            return "preferred-dataset-splits of 0 divides by zero"
        if self.memory_gb_per_s == 0:
            return "a local memory bandwidth of 0 divides by zero"
        if self.collective == "all_gather" and self.size_bytes < self.chunks:
            return "an all-gather smaller than the number of splits loops for ever"
        if any(len(group) == 1 for group in self.groups):
            return "a communicator group of one NPU never completes"
        return self._dimension_failure()

    def _dimension_failure(self) -> str | None:
        implementations = [parse_implementation(name) for name in self.algorithms]
        if not implementations:
            return "the implementation list is empty"
        if len(implementations) > len(self.npus_per_dim):
            return "the implementation list is longer than the dimensions"
        if any(entry.flat for entry in implementations) and len(implementations) > 1:
            return "a flat implementation stands alone in its list"
        if len(implementations) < len(self.npus_per_dim) and implementations[-1].kind == "double_binary_tree":
            return "doubleBinaryTree at the end of a list that is too short leaves NPUs out of its trees and crashes"
        if self.involved_dims is not None and not any(self.involved_dims):
            return "no dimension is involved, so the collective never completes"
        return None


def group_failure(implementation: Implementation, collective: str, npus: int) -> str | None:
    """Return why a phase of `collective` over `npus` does not end on every NPU; None when it does."""
    if implementation.kind not in ("halving_doubling", "double_binary_tree"):
        return None
    if implementation.kind == "halving_doubling" and collective == "all_to_all":
        return "halvingDoubling has no all-to-all and exits"
    if npus & (npus - 1) == 0:
        return None
    if implementation.kind == "double_binary_tree":
        return "doubleBinaryTree on a number of NPUs that is not a power of two crashes"
    if collective != "all_gather":
        return "halvingDoubling on a number of NPUs that is not a power of two leaves NPUs unfinished"
    return None


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
