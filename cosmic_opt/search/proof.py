"""What a search leaves as evidence: regions in blocks with their bounds, and the regions that were solved."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple


class Block(NamedTuple):
    """Regions side by side in the product of structural choices.

    Attributes:
        start: Number of the first.
        regions: How many.
        designs: Feasible designs in them.
        least: The least bound of those that were not solved and may obey the step limit; None when there is none.
    """

    start: int
    regions: int
    designs: int
    least: int | None


class Simulated(NamedTuple):
    """What was scored by events: every design whose analytical value, a lower bound, is at most `limit`.

    Attributes:
        limit: An exact value of the objective.
        designs: How many designs those are.
    """

    limit: int
    designs: int


@dataclass(frozen=True)
class Proof:
    """Evidence for a bound: nothing outside the solved regions can be below the least bound of any block.

    Attributes:
        against: Ticks and amount of the incumbent when regions were bounded; one that is worse even without
            communication got that weaker bound.
        blocks: Every region, in order.
        solved: Numbers of the regions in which the best design was found exactly, ascending.
        nodes: Boxes of options that solving them took.
        simulated: Where events score: which designs of the regions were scored one by one.
    """

    against: tuple[int, int] | None
    blocks: tuple[Block, ...]
    solved: tuple[int, ...]
    nodes: int
    simulated: Simulated | None = None

    @property
    def designs(self) -> int:
        """The feasible designs of all blocks."""
        return sum(block.designs for block in self.blocks)

    @property
    def least(self) -> int | None:
        """The least bound of any region that was not solved."""
        return min((block.least for block in self.blocks if block.least is not None), default=None)
