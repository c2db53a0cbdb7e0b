"""Recursive halving and doubling (Thakur, Rabenseifner and Gropp 2005)."""

from __future__ import annotations

from fractions import Fraction

from cosmic_opt.system.collectives.base import ALGORITHMS, Algorithm, Exchange, Step


class HalvingDoubling(Algorithm):
    """Pairs r XOR 1, 2, 4, ... exchange half of what they still hold; the nearest peer gets the most.

    Exists for powers of two.
    """

    name = "halving_doubling"
    power_of_two_only = True

    def reduce_scatter_steps(self, npus: int) -> tuple[Step, ...]:
        """Return log2(n) steps of 1/2, 1/4, ... of the payload."""
        levels = range(npus.bit_length() - 1)
        return tuple(Step(Exchange(1 << level), Fraction(1, 2 << level)) for level in levels)

    def all_gather_steps(self, npus: int) -> tuple[Step, ...]:
        """Return the same steps backwards: pairs exchange all that they hold."""
        return self.reduce_scatter_steps(npus)[::-1]


ALGORITHMS.register(HalvingDoubling.name)(HalvingDoubling())
