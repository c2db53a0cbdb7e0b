"""The ring algorithm (Patarasuk and Yuan 2009), both ways round at once."""

from __future__ import annotations

from fractions import Fraction

from cosmic_opt.system.collectives.base import ALGORITHMS, Algorithm, Shifts, Step


class Ring(Algorithm):
    """Two counter-rotating rings, half the payload each: n - 1 steps to the neighbours.

    In step t of the ring that goes up, rank r passes on the piece that started t ranks below. With two NPUs
    both rings use the links to the one peer.
    """

    name = "ring"

    def reduce_scatter_steps(self, npus: int) -> tuple[Step, ...]:
        """Return n - 1 steps, each of a 2n-th up and a 2n-th down."""
        return (Step(Shifts((1, -1)), Fraction(1, 2 * npus), repeat=npus - 1),)

    def all_gather_steps(self, npus: int) -> tuple[Step, ...]:
        """Return the same n - 1 steps; now the pieces are copied instead of added."""
        return self.reduce_scatter_steps(npus)


ALGORITHMS.register(Ring.name)(Ring())
