"""What every topology block answers: its links, its routes, and the load of messages sent at one time.

A dimension's bandwidth is that of one NPU, one direction, over all its links in the dimension; every directed
link of a block has the same share of it.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from cosmic_opt._registry import Registry

IntArray = NDArray[np.int64]

Link = tuple[int | str, int | str]
"""A directed link, from and to: an end is the index of an NPU in its block, or the name of a switch."""


@dataclass(frozen=True, slots=True)
class Route:
    """One way a message takes: the directed links in order, and the share of the message that takes it."""

    links: tuple[Link, ...]
    share: Fraction


class Block(Protocol):
    """A topology block of `npus` NPUs, numbered from 0. Messages travel between NPUs of one block."""

    @property
    def switched(self) -> bool:
        """Say whether messages pass a switch, which has a price of its own."""

    def links_per_npu(self, npus: int) -> int:
        """Return how many directed links leave each NPU; a block of one NPU has none."""

    def link_share(self, npus: int) -> Fraction:
        """Return one directed link's share of the dimension's bandwidth; 1 for a block of one NPU."""

    def routes(self, npus: int, source: int, target: int) -> tuple[Route, ...]:
        """Return the ways from `source` to another NPU `target`; their shares add up to 1."""

    def hops(self, npus: int, sources: IntArray, targets: IntArray) -> int:
        """Return the most latencies any of the messages `sources[i] -> targets[i]` is charged."""

    def shift_load(self, npus: int, offsets: int) -> Fraction | None:
        """Return what `busiest_link` gives when every member of every group sends one message to `offsets` peers.

        The peers are those at different distances in the group. None where the answer depends on the distances.
        """

    def busiest_link(self, npus: int, sources: IntArray, targets: IntArray) -> Fraction:
        """Return the messages that cross the busiest directed link when all are sent at one time.

        A message whose routes share it counts with the share that crosses the link.
        """


TOPOLOGIES: Registry[Block] = Registry("topology")
