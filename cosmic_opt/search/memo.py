"""What earlier searches proved about regions, for later searches in which the same regions occur.

A region's bounds, and the value that nothing in it goes below, are functions of what the compiled search is given: the
simulator's tables, the options, the region's prepared row, mask, limits and amount. A digest of that is the key, so
whatever changed between two problems (a datum, a rule, an objective), a region is recognised exactly where the
change does not reach it.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from cosmic_opt.search import kernel
from cosmic_opt.simulation.analytical.tables import PhaseTables

DIGEST_BYTES = 16


class Proved(NamedTuple):
    """Lower bounds on every member of a region: its ticks, its amount, and its value (at least their product)."""

    ticks: int
    amount: int
    value: int


@dataclass
class RegionMemo:
    """Grows with every search it is given to."""

    proved: dict[bytes, Proved] = field(default_factory=dict)

    def recall(self, keys: Sequence[bytes]) -> list[Proved | None]:
        """Return what is known of each region."""
        return [self.proved.get(key) for key in keys]

    def learn(self, keys: Sequence[bytes], found: Sequence[Proved]) -> None:
        """Keep what a search proved; of two values of one region the higher."""
        for key, new in zip(keys, found, strict=True):
            old = self.proved.get(key)
            if old is None or old.value < new.value:
                self.proved[key] = new


def shared_digest(tables: PhaseTables, options: kernel.Options, limit_ticks: int) -> bytes:
    """Return a digest of what all regions of a problem have in common."""
    digest = hashlib.blake2b(str(limit_ticks).encode(), digest_size=DIGEST_BYTES)
    for part in (*tables, *options):
        array = np.asarray(part)
        digest.update(f"{array.dtype}{array.shape}".encode())
        digest.update(np.ascontiguousarray(array).tobytes())
    return digest.digest()


def region_digests(shared: bytes, regions: kernel.Regions) -> list[bytes]:
    """Return the key of each region: a digest of all that the compiled search is given for it."""
    count = len(regions.amount)
    masks = np.frombuffer(
        b"".join(hashlib.blake2b(mask.tobytes(), digest_size=DIGEST_BYTES).digest() for mask in regions.masks),
        dtype=np.int64,
    ).reshape(len(regions.masks), -1)
    parts: list[NDArray[np.int64]] = [
        regions.whole,
        np.ascontiguousarray(regions.payload).reshape(count, -1).view(np.int64),
        regions.links.reshape(count, -1),
        masks[regions.mask_of],
        regions.low,
        regions.high,
        regions.amount.reshape(count, 1),
    ]
    rows = np.ascontiguousarray(np.hstack(parts))
    return [hashlib.blake2b(row, digest_size=DIGEST_BYTES, key=shared).digest() for row in rows]
