"""The ring: each NPU has one link to the next and one to the previous NPU."""

from __future__ import annotations

from fractions import Fraction

import numpy as np

from cosmic_opt.system.topology.base import TOPOLOGIES, IntArray, Link, Route


class Ring:
    """A bidirectional ring. Messages go the shortest way; at distance n/2 they go half each way.

    Each link has half the dimension's bandwidth. A ring of two NPUs is one pair of links with all of it.
    """

    switched = False

    def links_per_npu(self, npus: int) -> int:
        """Return 2, or 1 when the next and the previous NPU are the same."""
        return min(2, npus - 1)

    def link_share(self, npus: int) -> Fraction:
        """Return the half that each direction has."""
        return Fraction(1, 2) if npus > 2 else Fraction(1)

    def routes(self, npus: int, source: int, target: int) -> tuple[Route, ...]:
        """Return the shortest way, or both ways when they are equally long."""
        ahead = (target - source) % npus
        up = tuple[Link, ...](((source + i) % npus, (source + i + 1) % npus) for i in range(ahead))
        down = tuple[Link, ...](((source - i) % npus, (source - i - 1) % npus) for i in range(npus - ahead))
        if npus == 2 or 2 * ahead < npus:
            return (Route(up, Fraction(1)),)
        if 2 * ahead > npus:
            return (Route(down, Fraction(1)),)
        return Route(up, Fraction(1, 2)), Route(down, Fraction(1, 2))

    def hops(self, npus: int, sources: IntArray, targets: IntArray) -> int:
        """Return the longest of the shortest ways."""
        ahead = (targets - sources) % npus
        return int(np.minimum(ahead, npus - ahead).max(initial=0))

    def shift_load(self, npus: int, offsets: int) -> Fraction | None:
        """Return None: longer ways cross more links."""
        return None

    def busiest_link(self, npus: int, sources: IntArray, targets: IntArray) -> Fraction:
        """Count in half messages, so that ties stay whole numbers: up and down links apart."""
        ahead = (targets - sources) % npus
        if npus == 2:
            return Fraction(int(np.bincount(sources, minlength=1).max()))
        halves = np.where(2 * ahead == npus, 1, 2)
        up, down = 2 * ahead <= npus, 2 * ahead >= npus
        load_up = _arc_load(npus, sources[up], ahead[up], halves[up])
        load_down = _arc_load(npus, targets[down], npus - ahead[down], halves[down])
        return Fraction(max(load_up, load_down), 2)


def _arc_load(npus: int, starts: IntArray, lengths: IntArray, weights: IntArray) -> int:
    """Return the largest total weight on one link, where arc i covers `lengths[i]` links from `starts[i]` on.

    Float sums of `bincount` are exact here: weights are whole numbers far below 2^53.
    """
    edges = np.bincount(starts, weights=weights, minlength=2 * npus)
    edges = edges - np.bincount(starts + lengths, weights=weights, minlength=2 * npus)
    covered = np.cumsum(edges)
    return int((covered[:npus] + covered[npus:]).max(initial=0))


TOPOLOGIES.register("ring")(Ring())
