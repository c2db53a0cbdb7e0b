"""The exact front of a served model's times, rates and structural quantities, by scoring every design."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from cosmic_opt.catalog.bind import BoundInstance
from cosmic_opt.catalog.job_kinds import INFERENCE
from cosmic_opt.errors import SpecError, nearest
from cosmic_opt.feasibility.feasible_set import feasible_set
from cosmic_opt.ir.check import recheck
from cosmic_opt.ir.lower import lower
from cosmic_opt.psa.quantity import Quantity, SimulatedQuantity
from cosmic_opt.search.budget import Budget
from cosmic_opt.search.every_front import IntArray, front_of_all
from cosmic_opt.search.limits import limits_simulated
from cosmic_opt.search.objective import Objective, objective_of, quantity_values
from cosmic_opt.search.outcome import Stop
from cosmic_opt.search.pareto import ParetoFront
from cosmic_opt.search.score import kernel_columns
from cosmic_opt.search.space import Codes
from cosmic_opt.search.tasks import worker_of
from cosmic_opt.simulation.calibrated.serving_simulator import ServingSimulator


def served_front(instance: BoundInstance, *names: str, budget: Budget | None = None) -> ParetoFront:
    """Return the front of two or three quantities; times and structural ones are minimised, rates are maximised.

    The first simulated one is what the points are sorted by, best first.

    Raises:
        SpecError: an unknown quantity, or none that is simulated.
        LimitError: too many designs to score.
    """
    own = instance.parameter_set.quantities
    simulated = [name for name in names if isinstance(own.get(name), SimulatedQuantity)]
    if not simulated:
        hint = f"name one of {', '.join(INFERENCE.objectives)}; optimise finds the best of structural ones"
        raise SpecError("no simulated quantity is among the objectives", hint=hint)
    first, *others = (simulated[0], *(name for name in names if name != simulated[0]))
    instance = replace(instance, objective=first)
    parameter_set = instance.parameter_set
    quantities = tuple(_quantity(instance, name) for name in others)
    model = lower(parameter_set)
    worker = worker_of(instance, model)
    simulator = worker.scorer.simulator
    assert isinstance(simulator, ServingSimulator), "an inference instance has no other"

    def amounts_of(codes: Codes) -> IntArray:
        batch = parameter_set.batch(codes)
        columns = kernel_columns(batch)
        return np.column_stack(
            [
                simulator.ticks_of(columns, quantity.name)
                if isinstance(quantity, Objective)
                else quantity_values(quantity, batch)
                for quantity in quantities
            ]
        )

    feasible, scored = feasible_set(model), worker.scorer.objective
    front = front_of_all(worker, feasible, scored, amounts_of, len(names), budget or Budget())
    recheck(model, parameter_set, front.codes, "the Pareto search")
    stop = Stop.PROVED if front.scored == feasible.size else Stop.TIME
    designs, times, amounts = parameter_set.batch(front.codes), front.points[:, 0], front.points[:, 1:]
    allowed = front.allowed if stop is Stop.PROVED and limits_simulated(parameter_set) else None
    return ParetoFront(
        quantities, designs, times, amounts, feasible.size, 0, 0, 0, stop, scored, allowed, designs_scored=front.scored
    )


def _quantity(instance: BoundInstance, name: str) -> Quantity | Objective:
    quantity = instance.parameter_set.quantities.get(name)
    if isinstance(quantity, SimulatedQuantity):
        return objective_of(name, instance.parameter_set)
    if not isinstance(quantity, Quantity):
        raise SpecError(f"{name!r} is no quantity here", hint=nearest(name, instance.parameter_set.quantities))
    return quantity
