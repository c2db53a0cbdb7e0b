"""Message times between the NPUs of one logical ring, as the unaware backend charges them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

import numpy as np
from numpy.typing import NDArray

from cosmic_opt.errors import LimitError

IntArray = NDArray[np.int64]
FloatArray = NDArray[np.float64]

SWITCH_HOPS = 2
LONGEST_NS = 2**53
MOST_PAIRS = 2**24
"""Limits of the simulation: exact float nanoseconds, and pairs of NPUs kept apart."""


@dataclass(frozen=True, slots=True)
class Fabric:
    """The physical dimensions, innermost first. NPU number = a0 + n0 · a1 + n0 · n1 · a2 ..."""

    topologies: tuple[str, ...]
    npus_per_dim: tuple[int, ...]
    bytes_per_ns: tuple[float, ...]
    latency_ns: tuple[float, ...]

    @property
    def npus(self) -> int:
        """Return the number of NPUs."""
        return prod(self.npus_per_dim)

    def edges(self, members: Sequence[int], rows: int | None = None) -> Edges:
        """Return the edges from the first `rows` members (default: all) to every member, in listed order.

        Only the lowest dimension in which two NPUs differ is charged. Hops: a ring takes the shortest way, a
        fully connected block one, a switch two.
        """
        count = len(members)
        if count * (count if rows is None else rows) > MOST_PAIRS:
            raise LimitError(f"a group of {count} NPUs is too large to simulate", hint="at most 4096 NPUs")
        ids = np.array(members, dtype=np.int64)
        sources = ids[: count if rows is None else rows, None]
        positions = np.arange(len(sources))[:, None] + np.arange(count)
        targets = ids[positions % count]
        dims = np.zeros(targets.shape, dtype=np.int64)
        hops = np.zeros(targets.shape, dtype=np.int64)
        stride = self.npus
        for dim in reversed(range(len(self.npus_per_dim))):
            extent = self.npus_per_dim[dim]
            stride //= extent
            distance = (targets // stride - sources // stride) % extent
            differs = distance > 0
            dims[differs] = dim
            hops[differs] = self._hops(dim, distance[differs])
        latency = np.array(self.latency_ns)[dims] * hops
        return Edges(latency, np.array(self.bytes_per_ns)[dims])

    def _hops(self, dim: int, distance: IntArray) -> IntArray | int:
        if self.topologies[dim] == "ring":
            return np.minimum(distance, self.npus_per_dim[dim] - distance)
        return SWITCH_HOPS if self.topologies[dim] == "switch" else 1


@dataclass(frozen=True, slots=True)
class Edges:
    """Edges of a logical ring of n members: arrays of shape (rows, n), entry [i, j] from i to i + j.

    With one row the ring is folded: every member sees the same edges, so one stands for all, and the NPU
    `offset` ahead is the row itself.
    """

    latency_ns: FloatArray
    bytes_per_ns: FloatArray

    @property
    def rows(self) -> int:
        """Return how many members are kept apart."""
        return len(self.latency_ns)

    @property
    def members(self) -> int:
        """Return the size of the ring."""
        return len(self.latency_ns[0])

    @property
    def circulant(self) -> bool:
        """Say whether every row is the same, so that the ring can be folded."""
        return bool((self.latency_ns == self.latency_ns[0]).all() and (self.bytes_per_ns == self.bytes_per_ns[0]).all())

    def folded(self) -> Edges:
        """Return the first row alone."""
        return Edges(self.latency_ns[:1], self.bytes_per_ns[:1])

    def unfolded(self) -> Edges:
        """Return one row per member."""
        if self.rows == self.members:
            return self
        shape = (self.members, self.members)
        return Edges(np.broadcast_to(self.latency_ns, shape), np.broadcast_to(self.bytes_per_ns, shape))

    def ahead_ns(self, offset: int, size_bytes: int) -> IntArray:
        """Return, per row, the time of a message to the member `offset` ahead."""
        return self.message_ns(slice(None), offset % self.members, size_bytes)

    def message_ns(self, rows: slice | IntArray, offsets: int | IntArray, size_bytes: int) -> IntArray:
        """Return floor(hops · latency + size / bandwidth) of messages from `rows` to the members `offsets` ahead."""
        times = self.latency_ns[rows, offsets] + size_bytes / self.bytes_per_ns[rows, offsets]
        if times.max() >= LONGEST_NS:
            raise LimitError(
                f"a message of {size_bytes} B takes more than {LONGEST_NS} ns", hint="use a higher bandwidth"
            )
        return np.floor(times).astype(np.int64)
