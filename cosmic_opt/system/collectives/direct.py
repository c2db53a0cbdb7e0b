"""The direct algorithm: everyone sends to everyone, once."""

from __future__ import annotations

from fractions import Fraction

from cosmic_opt.system.collectives.base import ALGORITHMS, Algorithm, Shifts, Step


class Direct(Algorithm):
    """One step in which every rank sends an n-th of the payload to each of its n - 1 peers."""

    name = "direct"

    def reduce_scatter_steps(self, npus: int) -> tuple[Step, ...]:
        """Return one step: to each peer the part that it reduces."""
        return (Step(Shifts(tuple(range(1, npus))), Fraction(1, npus)),)

    def all_gather_steps(self, npus: int) -> tuple[Step, ...]:
        """Return one step: the own part to each peer."""
        return self.reduce_scatter_steps(npus)


ALGORITHMS.register(Direct.name)(Direct())
