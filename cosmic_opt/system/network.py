"""A network: a tuple of dimensions, innermost first; each is a topology block repeated over the others."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from math import prod

from cosmic_opt.errors import SpecError
from cosmic_opt.system.topology import TOPOLOGIES
from cosmic_opt.units import TICKS_PER_SECOND


@dataclass(frozen=True, slots=True)
class Dimension:
    """One dimension. Bandwidth is per NPU, one direction, over all its links here; latency is per hop.

    `in_network_reduction` says that its switch adds and copies messages.

    Raises:
        SpecError: an unknown topology block, a block without a switch that is to reduce, or a number that is not whole
            or out of range.
    """

    topology: str
    npus: int
    bandwidth_bytes_per_s: int
    latency_ticks: int
    in_network_reduction: bool = False

    def __post_init__(self) -> None:
        if self.in_network_reduction and not TOPOLOGIES.get(self.topology).switched:
            raise SpecError(f"a {self.topology} has no switch that could reduce", hint="only the block switch reduces")
        TOPOLOGIES.get(self.topology)
        for field, least in (("npus", 1), ("bandwidth_bytes_per_s", 1), ("latency_ticks", 0)):
            value = getattr(self, field)
            if type(value) is not int or value < least:
                raise SpecError(
                    f"{field} of a network dimension is {value!r}",
                    hint=f"write a whole number of at least {least}",
                )

    def serialisation_ticks(self, load_bytes: Fraction | int) -> int:
        """Return how long the whole bandwidth needs for `load_bytes`, rounded once to the nearest tick."""
        return round(Fraction(load_bytes) * TICKS_PER_SECOND / self.bandwidth_bytes_per_s)


@dataclass(frozen=True, slots=True)
class Network:
    """Dimensions, innermost first; an NPU has one coordinate in each.

    Raises:
        SpecError: no dimension.
    """

    dimensions: tuple[Dimension, ...]

    def __post_init__(self) -> None:
        if not self.dimensions:
            raise SpecError("a network needs a dimension", hint="give one block, for example a switch")

    @property
    def npus(self) -> int:
        """Return the number of NPUs: the product over the dimensions."""
        return prod(dimension.npus for dimension in self.dimensions)
