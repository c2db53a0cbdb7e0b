"""Metrics beside designs: columns that `simulate` would give, for a whole batch at once."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cosmic_opt.catalog.bind import BoundInstance
from cosmic_opt.catalog.job_kinds import ENERGY
from cosmic_opt.catalog.served import Serving
from cosmic_opt.catalog.system_quantities import COSTS_OF_NETWORKS, SYSTEM_POWER
from cosmic_opt.errors import SpecError, Where, nearest
from cosmic_opt.psa.parameter_set import DesignBatch
from cosmic_opt.psa.quantity import Quantity
from cosmic_opt.search.objective import quantity_values, watts_of
from cosmic_opt.search.score import Simulator, kernel_columns, simulator_of
from cosmic_opt.simulation.analytical.layout import HIDDEN, NO_TIME, TERMS
from cosmic_opt.simulation.analytical.metrics import Metrics
from cosmic_opt.simulation.analytical.simulator import Evaluation
from cosmic_opt.simulation.calibrated.serving_simulator import LATENCIES, RATES, ServingSimulator
from cosmic_opt.units import TICKS_PER_SECOND, Unit
from cosmic_opt.workloads.requests import TOKENS

SUFFIXES = {Unit.BYTES: "_bytes", Unit.BYTES_PER_S: "_bytes_per_s", Unit.TIME: "_s", Unit.POWER: "_w"}
SIMULATED: dict[str, Callable[[Metrics], NDArray[Any]]] = {
    "step_time_s": lambda rates: rates.step_time_s,
    "throughput_sequences_per_s": lambda rates: rates.sequences_per_s,
    "throughput_tokens_per_s": lambda rates: rates.tokens_per_s,
    "model_flop_per_s_per_npu": lambda rates: rates.model_flop_per_s,
    "model_flop_fraction": lambda rates: rates.model_flop_fraction,
}
MICRO_BATCHES, STEP_ENERGY, TOKEN_ENERGY = "micro_batches", "energy_j", "energy_per_token_j"
SERVED = {**LATENCIES, **RATES, "requests_per_s": "requests_per_s", "users": "users"}
"""Metrics of a server in the answer of `simulate`, and what rules call them."""


def _named(parts: Sequence[str]) -> tuple[str, ...]:
    """Return parts of a step as `breakdown` and `hidden` name them."""
    return tuple(f"{re.sub('[^a-z]+', '_', name).strip('_')}_s" for name in parts)


PARTS = _named((*TERMS, *HIDDEN))
"""Parts of the analytical simulator's step."""

ALIASES = {
    "step_time": "step_time_s",
    "throughput": "throughput_sequences_per_s",
    "memory_per_npu": "memory_bytes",
    "memory_per_npu_cosmic": "memory_cosmic_bytes",
    **{name.removesuffix("_s"): name for name in PARTS},
}
"""What rules call a metric, and what `simulate` does."""


@dataclass(frozen=True)
class MetricColumn:
    """One metric of every design of a batch; where it is not `known` (a design that cannot run) it is null."""

    name: str
    values: NDArray[Any]
    known: NDArray[np.bool_]

    def take(self, rows: slice) -> MetricColumn:
        """Return the column of the chosen designs."""
        return MetricColumn(self.name, self.values[rows], self.known[rows])

    def plain(self) -> list[float | int | None]:
        """Return Python numbers, None for null."""
        values: list[float | int | None] = self.values.tolist()
        if self.known.all():
            return values
        return [value if known else None for value, known in zip(values, self.known.tolist(), strict=True)]


@dataclass(frozen=True)
class Measures:
    """The metrics to give with each design of a problem, by their names in the answer of `simulate`."""

    instance: BoundInstance
    names: tuple[str, ...]

    @staticmethod
    def of(instance: BoundInstance, wanted: Sequence[str]) -> Measures:
        """Return the metrics called `wanted`, as rules or as `simulate` name them.

        Raises:
            SpecError: an unknown name, or one twice.
        """
        quantities = _quantities(instance)
        known = {*simulated_of(instance), *quantities}
        short = {quantity.name: name for name, quantity in quantities.items()}
        short |= {metric: name for name, metric in SERVED.items()} if _served(instance) else ALIASES
        short[ENERGY.name] = TOKEN_ENERGY if _served(instance) else STEP_ENERGY
        short |= {name.removesuffix("_s"): name for name in parts_of(instance)}
        names: list[str] = []
        for name in wanted:
            full = short.get(name, name)
            if full not in known:
                hint = nearest(name, {*known, *short})
                raise SpecError(f"unknown metric {name!r}", where=Where("--with"), hint=hint)
            if full in names:
                raise SpecError(f"{name!r} is asked for twice", where=Where("--with"), hint="name it once")
            names.append(full)
        return Measures(instance, tuple(names))

    @property
    def simulated(self) -> bool:
        """Whether some metric needs the simulator."""
        return not simulated_of(self.instance).isdisjoint(self.names)

    @cached_property
    def simulator(self) -> Simulator:
        """The simulator of the problem."""
        return simulator_of(self.instance)

    def evaluate(self, batch: DesignBatch) -> Evaluation:
        """Return the simulated scores of a batch; a design that cannot run has the step NO_TIME."""
        return self.simulator.evaluate(kernel_columns(batch), strict=False)

    def columns(self, batch: DesignBatch, evaluation: Evaluation | None) -> tuple[MetricColumn, ...]:
        """Return every metric of a batch; `evaluation` is needed where one is simulated."""
        quantities = _quantities(self.instance)
        runs = np.ones(len(batch), dtype=bool) if evaluation is None else evaluation.step_ticks != NO_TIME
        found = []
        served = self._served_metrics(batch)
        for name in self.names:
            if name in quantities:
                found.append(self._structural(name, quantities, batch))
            elif name in served:
                found.append(MetricColumn(name, served[name], runs & (served["throughput_tokens_per_s"] > 0)))
            else:
                assert evaluation is not None, name
                found.append(MetricColumn(name, self._simulated(name, evaluation, runs), runs))
        return tuple(found)

    def _served_metrics(self, batch: DesignBatch) -> dict[str, NDArray[Any]]:
        """Return every metric of a server's designs; none where no server is simulated."""
        if not (self.simulated and isinstance(self.simulator, ServingSimulator)):
            return {}
        served = dict[str, NDArray[Any]](self.simulator.metrics(kernel_columns(batch)))
        if SYSTEM_POWER in self.instance.parameter_set.quantities:
            watts = float(watts_of(self.instance.parameter_set)) * TOKENS
            rates = served["throughput_tokens_per_s"]
            served[TOKEN_ENERGY] = np.divide(watts, rates, out=np.full(len(rates), np.inf), where=rates > 0)
        return served

    def _structural(self, name: str, quantities: dict[str, Quantity], batch: DesignBatch) -> MetricColumn:
        known = np.ones(len(batch), dtype=bool)
        if name in COSTS_OF_NETWORKS and "unpriced_blocks" in quantities:
            known = quantity_values(quantities["unpriced_blocks"], batch) == 0
        return MetricColumn(name, quantity_values(quantities[name], batch), known)

    def _simulated(self, name: str, evaluation: Evaluation, runs: NDArray[np.bool_]) -> NDArray[Any]:
        if name == MICRO_BATCHES:
            return evaluation.micro_batches
        if name == STEP_ENERGY:
            watts = float(watts_of(self.instance.parameter_set))
            return np.where(runs, evaluation.step_ticks / TICKS_PER_SECOND * watts, 0.0)
        parts = parts_of(self.instance)
        if name in parts:
            ticks = np.concatenate([evaluation.terms, evaluation.hidden], axis=1)[:, parts.index(name)]
            return np.asarray(ticks / TICKS_PER_SECOND)
        values = np.zeros(len(runs))
        values[runs] = SIMULATED[name](self._rates(evaluation.step_ticks[runs]))
        return values

    def _rates(self, step_ticks: NDArray[np.int64]) -> Metrics:
        assert not isinstance(self.simulator, ServingSimulator), "a server has metrics of its own"
        return self.simulator.rates_of(step_ticks, int(self.instance.data["npus"]))


def simulated_of(instance: BoundInstance) -> frozenset[str]:
    """Return the names of every metric that needs the simulator."""
    powered = SYSTEM_POWER in instance.parameter_set.quantities
    if _served(instance):
        return frozenset({*SERVED, TOKEN_ENERGY} if powered else SERVED)
    own = {*SIMULATED, MICRO_BATCHES, *parts_of(instance)}
    return frozenset({*own, STEP_ENERGY} if powered else own)


def _served(instance: BoundInstance) -> bool:
    return isinstance(instance.calibrated, Serving)


def parts_of(instance: BoundInstance) -> tuple[str, ...]:
    """Return the parts of a step of the instance's simulator; a server has several times, none of which is a step."""
    if _served(instance):
        return ()
    return PARTS if instance.calibrated is None else _named(simulator_of(instance).terms)


def _quantities(instance: BoundInstance) -> dict[str, Quantity]:
    """Return the structural quantities under their names in the answer of `simulate`: with a unit."""
    quantities = instance.parameter_set.quantities.values()
    return {
        ALIASES.get(quantity.name, quantity.name + SUFFIXES.get(quantity.unit, "")): quantity
        for quantity in quantities
        if isinstance(quantity, Quantity)
    }
