"""What earlier searches proved about regions, for later searches in which the same regions occur.

The value that nothing in a region goes below is a function of what the compiled search is given: the simulator's
tables, the options, the region's prepared row, mask, limits and amount. A digest of that is the key, so whatever
changed between two problems (a datum, a rule, an objective), a region is recognised exactly where the change does not
reach it.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from cosmic_opt.search import kernel
from cosmic_opt.simulation.analytical.tables import PhaseTables

DIGEST_BYTES = 16


@dataclass
class RegionMemo:
    """Exact lower bounds on the value of every member of a region; grows with every search it is given to."""

    least: dict[bytes, int] = field(default_factory=dict)

    def recall(self, keys: Sequence[bytes]) -> list[int]:
        """Return what is known of each region, 0 where nothing is."""
        return [self.least.get(key, 0) for key in keys]

    def learn(self, keys: Sequence[bytes], values: Sequence[int]) -> None:
        """Keep what a search proved; of two bounds of one region the higher."""
        for key, value in zip(keys, values, strict=True):
            self.least[key] = max(value, self.least.get(key, 0))


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
