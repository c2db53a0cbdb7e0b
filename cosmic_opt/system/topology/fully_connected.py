"""The fully connected block: one link from every NPU to every other."""

from __future__ import annotations

from fractions import Fraction

import numpy as np

from cosmic_opt.system.topology.base import TOPOLOGIES, IntArray, Route


class FullyConnected:
    """Each NPU has n - 1 links that share its bandwidth equally; every message crosses one link."""

    switched = False

    def links_per_npu(self, npus: int) -> int:
        """Return one link per peer."""
        return npus - 1

    def link_share(self, npus: int) -> Fraction:
        """Return an equal share per peer."""
        return Fraction(1, max(1, npus - 1))

    def routes(self, npus: int, source: int, target: int) -> tuple[Route, ...]:
        """Return the direct link."""
        return (Route(((source, target),), Fraction(1)),)

    def hops(self, npus: int, sources: IntArray, targets: IntArray) -> int:
        """Return 1: peers are neighbours."""
        return int(sources.size > 0)

    def shift_load(self, npus: int, offsets: int) -> Fraction | None:
        """Return 1: every message has a link of its own."""
        return Fraction(min(1, offsets))

    def busiest_link(self, npus: int, sources: IntArray, targets: IntArray) -> Fraction:
        """Return how often the most frequent pair occurs."""
        return Fraction(int(np.bincount(sources * npus + targets, minlength=1).max()))


TOPOLOGIES.register("fully_connected")(FullyConnected())
