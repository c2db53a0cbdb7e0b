"""Quantities: named numbers a rule may use besides parameters and instance data.

A structural quantity is a sum of terms, each a function of a few names, so that a solver can tabulate it.
A simulated quantity needs every column; it is never lowered (the search enforces rules on it).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cosmic_opt.units import Unit

Values = NDArray[Any]
"""Values of one name over a batch: int64, or text for a category."""

IntArray = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class QuantityTerm:
    """One summand: `evaluate` maps arrays of equal length (one per name) to int64 of that length.

    `names` are column names ("tp", "topology[0]") or names of instance data; the caller passes exactly these.
    The result is in the base unit of the quantity and must be a pure function of its arguments.
    """

    names: tuple[str, ...]
    evaluate: Callable[[Mapping[str, Values]], IntArray]


@dataclass(frozen=True, slots=True)
class Quantity:
    """A structural quantity: the sum of its terms, in the base unit of `unit`."""

    name: str
    unit: Unit
    terms: tuple[QuantityTerm, ...]
    description: str


@dataclass(frozen=True, slots=True)
class SimulatedQuantity:
    """A quantity only a simulator can give (step_time, throughput); a rule on it is enforced by the search."""

    name: str
    unit: Unit
    description: str


def structural_names(quantities: Mapping[str, Quantity | SimulatedQuantity]) -> list[str]:
    """Return the names of the structural ones: what a front may have beside `step_time`."""
    return [name for name, quantity in quantities.items() if isinstance(quantity, Quantity)]
