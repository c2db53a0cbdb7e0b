"""Objectives: step time, possibly multiplied by a structural amount. Values are exact integers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from cosmic_opt.errors import SpecError, nearest
from cosmic_opt.psa.parameter_set import DesignBatch, ParameterSet
from cosmic_opt.psa.quantity import Quantity
from cosmic_opt.units import TICKS_PER_SECOND, Unit

IntArray = NDArray[np.int64]


@dataclass(frozen=True)
class Objective:
    """Minimise `step_ticks · amount`, where the amount is 1 or a sum of terms of one quantity.

    `throughput` is maximised by minimising the step, since the batch is given; `samples` is then the batch.
    """

    name: str
    amount: Quantity | None = None
    samples: int | None = None

    def amounts(self, batch: DesignBatch) -> IntArray:
        """Return the amount of each design, in base units."""
        if self.amount is None:
            return np.ones(len(batch), dtype=np.int64)
        return quantity_values(self.amount, batch)

    def values(self, step_ticks: IntArray, amounts: IntArray) -> NDArray[np.object_]:
        """Return the exact value of each design (a Python integer): ticks times base units."""
        return np.asarray(step_ticks.astype(object) * amounts.astype(object))

    def show(self, value: int) -> float:
        """Return a value in seconds, times GB/s or dollars; throughput in sequences per second."""
        if self.samples is not None:
            return self.samples * TICKS_PER_SECOND / value
        scale = {Unit.BYTES_PER_S: 10**9}.get(self.amount.unit, 1) if self.amount is not None else 1
        return value / TICKS_PER_SECOND / scale

    @property
    def unit(self) -> str:
        """The unit of `show`."""
        if self.samples is not None:
            return "sequences/s"
        if self.amount is None:
            return "s"
        return {Unit.BYTES_PER_S: "s GB/s", Unit.DOLLARS: "s $"}.get(self.amount.unit, "s")


def objective_of(name: str, parameter_set: ParameterSet) -> Objective:
    """Return the objective called `name` over the quantities of a parameter set.

    Raises:
        SpecError: the quantity it multiplies does not exist here (a system without prices has no cost).
    """
    if name == "step_time":
        return Objective(name)
    if name == "throughput":
        return Objective(name, samples=int(parameter_set.data["global_batch"]))
    _, _, factor = name.partition(" * ")
    amount = parameter_set.quantities.get(factor)
    if not isinstance(amount, Quantity):
        raise SpecError(f"the objective {name!r} needs {factor!r}", hint=nearest(factor, parameter_set.quantities))
    return Objective(name, amount)


def quantity_values(quantity: Quantity, batch: DesignBatch) -> IntArray:
    """Return a structural quantity for each design, in base units."""
    total = np.zeros(len(batch), dtype=np.int64)
    for term in quantity.terms:
        total += np.asarray(term.evaluate(arguments_of(term.names, batch)), dtype=np.int64)
    return total


def arguments_of(names: tuple[str, ...], batch: DesignBatch) -> Mapping[str, NDArray[np.generic]]:
    """Return the values of columns and data called `names`, one per design."""
    positions, data = batch.parameter_set.positions, batch.parameter_set.data
    return {name: batch.values(name) if name in positions else np.full(len(batch), data[name]) for name in names}
