"""Reduction in the switch (SHARP: Graham 2016; FRED: arXiv 2406.19580): NPUs send once, and receive the result once."""

from __future__ import annotations

from fractions import Fraction

from cosmic_opt.system.collectives.base import ALGORITHMS, Step, ThroughSwitch
from cosmic_opt.system.collectives.direct import Direct


class InNetwork(Direct):
    """One step through a switch that adds what NPUs send and copies what many want.

    All-reduce: every NPU sends its whole buffer up and receives the whole sum. Reduce-scatter: it sends the parts of
    the others and receives one, the sum of its own. All-gather: it sends its part once and receives the others'. The
    busiest link of the last two, up or down, carries n - 1 parts of n, as under `direct`.
    """

    name = "in_network"
    in_switch = True

    def all_reduce_steps(self, npus: int) -> tuple[Step, ...]:
        """Return the one step."""
        return (Step(ThroughSwitch(), Fraction(1)),)


ALGORITHMS.register(InNetwork.name)(InNetwork())
