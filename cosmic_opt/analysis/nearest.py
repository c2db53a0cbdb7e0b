"""The feasible designs nearest to a given one: the fewest knobs changed, proved by a solver."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from cosmic_opt.errors import Where
from cosmic_opt.ir.check import recheck
from cosmic_opt.ir.lower import lower
from cosmic_opt.ir.model import Linear, LoweredModel, Origin
from cosmic_opt.ir.objective import LinearObjective
from cosmic_opt.ir.passes.propagate import propagate
from cosmic_opt.psa.domain import Value
from cosmic_opt.psa.parameter_set import Column, DesignBatch, ParameterSet
from cosmic_opt.solvers.base import Limits, SolveStatus
from cosmic_opt.solvers.registry import choose_solver, load_solver


@dataclass(frozen=True)
class Neighbour:
    """A feasible design and what must change to get there: column name to (value asked for, value here)."""

    design: DesignBatch
    changes: Mapping[str, tuple[Value, Value]]

    @property
    def distance(self) -> int:
        """How many columns change."""
        return len(self.changes)


def nearest_designs(parameter_set: ParameterSet, values: Mapping[str, Value], limit: int) -> list[Neighbour]:
    """Return up to `limit` feasible designs near `values` (one per column), nearest first; none if none exists.

    The first changes as few columns as any feasible design does and, among those, moves the least through their
    values. Each further one changes another set of columns, which contains none of the sets before. Rules on
    simulated quantities are not read.
    """
    structural = tuple(rule for rule in parameter_set.constraints if not rule.simulated)
    parameter_set = replace(parameter_set, constraints=structural)
    model = lower(parameter_set)
    objective = _distance(parameter_set, values)
    found: list[Neighbour] = []
    while len(found) < limit and not model.infeasible:
        solver = load_solver(choose_solver(model, objective))
        result = solver.solve(model, objective, limits=Limits())
        if result.status is not SolveStatus.OPTIMAL:
            break
        recheck(model, parameter_set, result.codes, solver.name)
        neighbour = _neighbour(parameter_set.batch(result.codes), values)
        found.append(neighbour)
        model = _without(model, parameter_set, values, list(neighbour.changes))
    return found


def _distance(parameter_set: ParameterSet, values: Mapping[str, Value]) -> LinearObjective:
    """Return the number of columns changed, with how far each moves as the tie-break."""
    step = 1 + sum(len(column.values) for column in parameter_set.columns)
    weights = []
    for column in parameter_set.columns:
        own = values[column.name]
        rank = {code: at for at, code in enumerate(sorted(range(len(column.values)), key=_closeness(column, own)))}
        weights.append(tuple(0 if value == own else step + rank[code] for code, value in enumerate(column.values)))
    return LinearObjective(tuple(range(len(parameter_set.columns))), tuple(weights))


def _closeness(column: Column, own: Value) -> Callable[[int], tuple[int, int]]:
    """Return a key that orders codes by how far their value lies from `own`."""

    def key(code: int) -> tuple[int, int]:
        value = column.values[code]
        apart = abs(value - own) if isinstance(value, int) and isinstance(own, int) else 0
        return apart, code

    return key


def _neighbour(design: DesignBatch, values: Mapping[str, Value]) -> Neighbour:
    (point,) = design.points()
    return Neighbour(design, {name: (values[name], value) for name, value in point.items() if value != values[name]})


def _without(
    model: LoweredModel, parameter_set: ParameterSet, values: Mapping[str, Value], changed: list[str]
) -> LoweredModel:
    """Return the model without the designs that change every one of the columns `changed`."""
    columns = [parameter_set.column(name) for name in changed]
    weights = tuple(tuple(int(value != values[column.name]) for value in column.values) for column in columns)
    positions = tuple(parameter_set.positions[name] for name in changed)
    cut = Linear(positions, weights, None, len(changed) - 1, Origin("nearest", "another set of changes", Where()))
    return propagate(replace(model, constraints=(*model.constraints, cut)))
