"""Objectives: a simulated time, possibly multiplied by a structural amount. Values are exact integers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from cosmic_opt.catalog.job_kinds import ENERGY, INFERENCE, PER_NPU, THROUGHPUT
from cosmic_opt.catalog.system_quantities import SYSTEM_POWER
from cosmic_opt.errors import LimitError, SpecError, nearest
from cosmic_opt.psa.parameter_set import DesignBatch, ParameterSet
from cosmic_opt.psa.quantity import Quantity
from cosmic_opt.psa.term import SAFE
from cosmic_opt.units import MICROJOULES, TICKS_PER_SECOND, Unit
from cosmic_opt.workloads.requests import TOKENS

IntArray = NDArray[np.int64]


@dataclass(frozen=True)
class Objective:
    """Minimise `step_ticks · amount`, where the amount is 1 or a sum of terms of one quantity.

    A rate is maximised by minimising the time of so many `samples`: of a training
    step, which has a given batch, or of a thousand output tokens of a server. An energy
    is minimised by minimising the time in which it is drawn: `watts`, for every one of its `samples_unit`.
    """

    name: str
    amount: Quantity | None = None
    samples: int | None = None
    samples_unit: str = "sequences/s"
    watts: Fraction | None = None

    def amounts(self, batch: DesignBatch) -> IntArray:
        """Return the amount of each design, in base units."""
        if self.amount is None:
            return np.ones(len(batch), dtype=np.int64)
        return quantity_values(self.amount, batch)

    def values(self, step_ticks: IntArray, amounts: IntArray) -> NDArray[np.object_]:
        """Return the exact value of each design (a Python integer): ticks times base units."""
        return np.asarray(step_ticks.astype(object) * amounts.astype(object))

    def show(self, value: int) -> float:
        """Return a value in seconds, times GB/s or dollars; a rate in samples per second (and NPU), energy in J."""
        if self.samples is not None:
            return self.samples * TICKS_PER_SECOND / value
        if self.watts is not None:
            return float(value * self.watts / TICKS_PER_SECOND)
        scale = {Unit.BYTES_PER_S: 10**9}.get(self.amount.unit, 1) if self.amount is not None else 1
        return value / TICKS_PER_SECOND / scale

    @property
    def unit(self) -> str:
        """The unit of `show`."""
        if self.samples is not None or self.watts is not None:
            return self.samples_unit
        if self.amount is None:
            return "s"
        return {Unit.BYTES_PER_S: "s GB/s", Unit.DOLLARS: "s $"}.get(self.amount.unit, "s")


def objective_of(name: str, parameter_set: ParameterSet) -> Objective:
    """Return the objective called `name` over the quantities of a parameter set.

    Raises:
        SpecError: the quantity it multiplies does not exist here (a system without prices has no cost).
    """
    if name == ENERGY.name:
        unit = "J/token" if is_inference(parameter_set) else "J"
        return Objective(name, samples_unit=unit, watts=watts_of(parameter_set))
    if is_inference(parameter_set):
        return _serving(name, parameter_set)
    if name == "step_time":
        return Objective(name)
    if name == THROUGHPUT:
        return Objective(name, samples=int(parameter_set.data["global_batch"]))
    _, _, factor = name.partition(" * ")
    amount = parameter_set.quantities.get(factor)
    if not isinstance(amount, Quantity):
        raise SpecError(f"the objective {name!r} needs {factor!r}", hint=nearest(factor, parameter_set.quantities))
    return Objective(name, amount)


def is_inference(parameter_set: ParameterSet) -> bool:
    """Tell whether the problem is one of serving a model."""
    return parameter_set.quantities.keys() >= INFERENCE.simulated.keys()


def samples_of(parameter_set: ParameterSet) -> int:
    """Return what a scored time is of: sequences of a training step, or output tokens of a server."""
    return TOKENS if is_inference(parameter_set) else int(parameter_set.data["global_batch"])


def watts_of(parameter_set: ParameterSet) -> Fraction:
    """Return what the boards draw while a time passes whose energy is asked for: a step's, or that of one token's.

    The time of a served model is that of `samples_of` tokens, so its watts are those of one in as many.

    Raises:
        SpecError: the power of the device is not known.
    """
    power = parameter_set.quantities.get(SYSTEM_POWER)
    if not isinstance(power, Quantity):
        raise SpecError("the power of the device is not known", hint="give `power: 700 W` in its file")
    given = {name: np.array([parameter_set.data[name]]) for term in power.terms for name in term.names}
    watts = sum(int(term.evaluate({name: given[name] for name in term.names})[0]) for term in power.terms)
    return Fraction(watts, samples_of(parameter_set) if is_inference(parameter_set) else 1)


def energy_of(ticks: int, parameter_set: ParameterSet) -> Fraction:
    """Return the microjoules that the boards draw in a time of so many ticks."""
    return ticks * watts_of(parameter_set) * MICROJOULES / TICKS_PER_SECOND


def _serving(name: str, parameter_set: ParameterSet) -> Objective:
    samples = samples_of(parameter_set)
    if name == THROUGHPUT:
        return Objective(name, samples=samples, samples_unit="tokens/s")
    if name == PER_NPU:
        return Objective(name, samples=samples, samples_unit="tokens/s per NPU")
    if name not in INFERENCE.simulated:
        raise SpecError(f"unknown objective {name!r}", hint=nearest(name, INFERENCE.objectives))
    return Objective(name)


def quantity_values(quantity: Quantity, batch: DesignBatch) -> IntArray:
    """Return a structural quantity for each design, in base units.

    Raises:
        LimitError: an amount passes 2^62.
    """
    total = np.zeros(len(batch), dtype=np.int64)
    for term in quantity.terms:
        add_amounts(total, term.evaluate(arguments_of(term.names, batch)), quantity.name)
    return total


def add_amounts(total: IntArray, part: IntArray, name: str) -> None:
    """Add to amounts of what is called `name`, int64 of the same shape, in place.

    Raises:
        LimitError: a sum may pass 2^62.
    """
    refuse_beyond(sum(int(np.abs(each).max(initial=0)) for each in (total, part)), name)
    total += part


def refuse_beyond(amount: int, name: str) -> None:
    """Raise LimitError for an amount of 2^62 or more."""
    if amount >= SAFE:
        hint = "fix what makes it so large (--fix), or give smaller numbers"
        raise LimitError(f"{name!r} passes 2^62, too large to add up", hint=hint)


def arguments_of(names: tuple[str, ...], batch: DesignBatch) -> Mapping[str, NDArray[np.generic]]:
    """Return the values of columns and data called `names`, one per design."""
    positions, data = batch.parameter_set.positions, batch.parameter_set.data
    return {name: batch.values(name) if name in positions else np.full(len(batch), data[name]) for name in names}
