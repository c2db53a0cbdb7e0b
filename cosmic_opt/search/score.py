"""Score designs: the one place where the search calls the simulator."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from cosmic_opt.catalog.bind import BoundInstance
from cosmic_opt.catalog.served import Serving
from cosmic_opt.errors import InfeasibleError, SpecError
from cosmic_opt.psa.evaluate import holds
from cosmic_opt.psa.parameter_set import Column, DesignBatch
from cosmic_opt.search.metric_limits import metric_limits
from cosmic_opt.search.objective import Objective
from cosmic_opt.simulation.analytical.simulator import AnalyticalSimulator, Evaluation
from cosmic_opt.simulation.calibrated.serving_simulator import ServingSimulator
from cosmic_opt.simulation.calibrated.simulator import CATEGORIES, CalibratedSimulator

IntArray = NDArray[np.int64]


StepSimulator = AnalyticalSimulator | CalibratedSimulator
Simulator = StepSimulator | ServingSimulator


def simulator_of(instance: BoundInstance) -> Simulator:
    """Return the simulator of a bound instance, ready for what its columns can hold.

    An instance that names a software stack is scored by the calibrated model, any other by the analytical one. That of
    a served model scores the metric of the objective, and enforces every rule on a simulated quantity.
    """
    parameter_set = instance.parameter_set
    columns = parameter_set.columns
    constants = {name: value for name, value in parameter_set.data.items() if name not in parameter_set.positions}
    domains = {column.name: column.values for column in columns if len(column.values) > 1}
    constants |= {column.name: column.values[0] for column in columns if len(column.values) == 1}
    if isinstance(instance.calibrated, Serving):
        metric, limits = instance.objective, metric_limits(parameter_set)
        return ServingSimulator(
            instance.calibrated, instance.dimensions, constants, domains, metric=metric, limits=limits
        )
    if instance.calibrated is not None:
        return CalibratedSimulator(instance.calibrated, instance.dimensions, constants, domains)
    return AnalyticalSimulator(instance.workload, instance.job, instance.npu, instance.dimensions, constants, domains)


def analytical_of(simulator: Simulator) -> AnalyticalSimulator:
    """Return the simulator if its step decomposes by network dimension.

    Raises:
        SpecError: it is calibrated, so there are no regions to bound and no events to replay.
    """
    if isinstance(simulator, AnalyticalSimulator):
        return simulator
    raise SpecError(
        "this works on the analytical simulator only, and the instance names a software stack or an engine",
        hint="take an instance without 'stack' or 'engine', or use count, simulate, solve, what-if, sweep, pareto",
    )


def kernel_columns(batch: DesignBatch) -> dict[str, IntArray]:
    """Return the columns as the simulator reads them fastest: values in base units, categories as its own codes."""
    return {
        column.name: _kernel_values(column)[batch.codes[:, position]]
        for position, column in enumerate(batch.parameter_set.columns)
    }


def _kernel_values(column: Column) -> IntArray:
    """Return a column's values by code; a category the simulator does not know (an inert one) keeps its code."""
    if not isinstance(column.values[0], str):
        return np.asarray(column.array, dtype=np.int64)
    if column.parameter not in CATEGORIES:
        return np.arange(len(column.values), dtype=np.int64)
    known = CATEGORIES[column.parameter]
    return np.array([known.index(str(value)) for value in column.values], dtype=np.int64)


@dataclass(frozen=True)
class Scores:
    """The evaluation of a batch, and its exact objective values (Python integers)."""

    evaluation: Evaluation
    amounts: IntArray
    values: NDArray[np.object_]


@dataclass(frozen=True)
class Scorer:
    """Scores batches of one problem; counts nothing, keeps nothing."""

    simulator: Simulator
    objective: Objective

    @property
    def analytical(self) -> AnalyticalSimulator:
        """The simulator, where regions have bounds; see `analytical_of`."""
        return analytical_of(self.simulator)

    def score(self, batch: DesignBatch, *, strict: bool = True) -> Scores:
        """Return the scores of feasible designs. Not `strict`, one that cannot run has the step NO_TIME.

        Raises:
            InfeasibleError: the simulator cannot run one of them (an algorithm that does not exist for an extent).
            LimitError: a step takes longer than the simulator's clock can hold.
        """
        evaluation = self.simulator.evaluate(kernel_columns(batch), strict=strict)
        amounts = self.objective.amounts(batch)
        return Scores(evaluation, amounts, self.objective.values(evaluation.step_ticks, amounts))


def refuse_infeasible(batch: DesignBatch) -> None:
    """Raise for the first design that breaks a structural rule, naming every rule it breaks."""
    for constraint in batch.parameter_set.constraints:
        if constraint.simulated:
            continue
        bad = np.flatnonzero(~holds(constraint, batch))
        if len(bad):
            raise InfeasibleError(
                f"the design breaks the rule {constraint.name!r}: {constraint.text}",
                where=constraint.where,
                hint=f"{constraint.why}; drop it with --without {constraint.name}" if constraint.why else None,
            )
