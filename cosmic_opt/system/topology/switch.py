"""The switch: one up-link and one down-link per NPU, any permutation at full rate inside."""

from __future__ import annotations

from fractions import Fraction

import numpy as np

from cosmic_opt.system.topology.base import TOPOLOGIES, IntArray, Route


class Switch:
    """A non-blocking switch. Each NPU's up-link and down-link have the dimension's whole bandwidth.

    End to end counts as one hop: the dimension's latency is that from NPU to NPU.
    """

    switched = True

    def links_per_npu(self, npus: int) -> int:
        """Return the one up-link."""
        return min(1, npus - 1)

    def link_share(self, npus: int) -> Fraction:
        """Return the whole bandwidth."""
        return Fraction(1)

    def routes(self, npus: int, source: int, target: int) -> tuple[Route, ...]:
        """Return the way up and down again."""
        return (Route(((source, "switch"), ("switch", target)), Fraction(1)),)

    def hops(self, npus: int, sources: IntArray, targets: IntArray) -> int:
        """Return 1, end to end."""
        return int(sources.size > 0)

    def shift_load(self, npus: int, offsets: int) -> Fraction | None:
        """Return the messages that each NPU sends, and as many that it receives."""
        return Fraction(offsets)

    def busiest_link(self, npus: int, sources: IntArray, targets: IntArray) -> Fraction:
        """Return the most messages that one NPU sends or receives."""
        sent = np.bincount(sources, minlength=1).max()
        received = np.bincount(targets, minlength=1).max()
        return Fraction(int(max(sent, received)))


TOPOLOGIES.register("switch")(Switch())
