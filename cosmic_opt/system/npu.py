"""One NPU: peak rate, memory bandwidth and capacity, and the roofline between them."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

from cosmic_opt.errors import SpecError
from cosmic_opt.units import TICKS_PER_SECOND


@dataclass(frozen=True, slots=True)
class Npu:
    """An accelerator as the simulators see it.

    Raises:
        SpecError: a rate or a capacity is not a positive whole number.
    """

    name: str
    peak_flop_per_s: int
    memory_bytes_per_s: int
    memory_capacity_bytes: int

    def __post_init__(self) -> None:
        for field in ("peak_flop_per_s", "memory_bytes_per_s", "memory_capacity_bytes"):
            value = getattr(self, field)
            if type(value) is not int or value < 1:
                raise SpecError(f"{field} of NPU {self.name!r} is {value!r}", hint="write a positive whole number")

    def roofline_ticks(self, flops: int, bytes_moved: int) -> int:
        """Return max(flops / peak, bytes / memory bandwidth), rounded once to the nearest tick.

        Source: Williams, Waterman and Patterson 2009 (the roofline model).
        """
        compute_s = Fraction(flops, self.peak_flop_per_s)
        memory_s = Fraction(bytes_moved, self.memory_bytes_per_s)
        return round(max(compute_s, memory_s) * TICKS_PER_SECOND)
