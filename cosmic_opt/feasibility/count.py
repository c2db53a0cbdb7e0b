"""Exact counts, by decision diagram or by another engine as a cross-check."""

from __future__ import annotations

from dataclasses import dataclass

from cosmic_opt.errors import LimitError, SpecError, nearest
from cosmic_opt.feasibility.bounds import DiagramLimitError
from cosmic_opt.feasibility.feasible_set import DiagramShape, FeasibleSet
from cosmic_opt.ir.model import LoweredModel
from cosmic_opt.psa.parameter_set import ParameterSet
from cosmic_opt.solvers.base import Limits
from cosmic_opt.solvers.registry import load_solver, solver_names

DIAGRAM = "diagram"
ENGINES = (DIAGRAM, *solver_names())


@dataclass(frozen=True)
class Component:
    """Parameters that no rule ties to others: combinations before and after the rules, and the diagram's size."""

    parameters: tuple[str, ...]
    grid: int
    value: int
    rules: tuple[str, ...]
    shape: DiagramShape


@dataclass(frozen=True)
class CountResult:
    """How many designs satisfy every rule.

    `exact` is False when rules on simulated quantities are in force, or when the diagram outgrew memory at the
    column `outgrown_at`: the count then lies in [`lower`, `value`], both certified. Without a diagram (`shape` is
    None) there are no components.
    """

    value: int
    exact: bool
    lower: int
    grid_size: int
    engine: str
    components: tuple[Component, ...]
    not_counted: tuple[str, ...]
    """Rules on simulated quantities, which only the search can check."""
    shape: DiagramShape | None = None
    outgrown_at: str | None = None


def count(parameter_set: ParameterSet, feasible: FeasibleSet, *, engine: str = DIAGRAM) -> CountResult:
    """Return the number of designs that satisfy every structural rule.

    With rules on simulated quantities it is between 0 and that; the search narrows it.

    Raises:
        SpecError: an unknown engine.
        LimitError: the engine cannot count so many.
    """
    value = feasible.size if engine == DIAGRAM else _listed(feasible.model, engine)
    components = tuple(_components(parameter_set, feasible))
    return _result(parameter_set, value, engine, components, feasible.shape)


def count_without_diagram(
    parameter_set: ParameterSet, model: LoweredModel, limit: LimitError, *, engine: str = DIAGRAM
) -> CountResult:
    """Return what is certain of the count when the diagram outgrew memory; exact if another engine counts.

    Raises:
        SpecError: an unknown engine.
        LimitError: the engine cannot count so many; `limit` itself, where numbers are too large for the diagram.
    """
    if engine != DIAGRAM:
        return _result(parameter_set, _listed(model, engine), engine, (), None)
    if not isinstance(limit, DiagramLimitError):
        raise limit
    simulated = _simulated(parameter_set)
    lower = 0 if simulated else limit.lower
    exact = lower == limit.upper
    return CountResult(
        limit.upper, exact, lower, parameter_set.grid_size, engine, (), simulated, None, None if exact else limit.column
    )


def _listed(model: LoweredModel, engine: str) -> int:
    """Return how many designs another engine finds, one by one."""
    if engine not in ENGINES:
        raise SpecError(f"unknown engine {engine!r}", hint=nearest(engine, ENGINES))
    return sum(len(codes) for codes in load_solver(engine).enumerate(model, limits=Limits()))


def _result(
    parameter_set: ParameterSet,
    value: int,
    engine: str,
    components: tuple[Component, ...],
    shape: DiagramShape | None,
) -> CountResult:
    simulated = _simulated(parameter_set)
    lower = 0 if simulated else value
    return CountResult(value, not simulated, lower, parameter_set.grid_size, engine, components, simulated, shape)


def _simulated(parameter_set: ParameterSet) -> tuple[str, ...]:
    return tuple(rule.name for rule in parameter_set.constraints if rule.simulated)


def _components(parameter_set: ParameterSet, feasible: FeasibleSet) -> list[Component]:
    """Return the components in order; a rule belongs to those whose columns it reads."""
    found = []
    for part in feasible.component_counts():
        names = set(part.parameters)
        grid = 1
        for name in part.parameters:
            grid *= len(parameter_set.column(name).values)
        rules = tuple(rule.name for rule in parameter_set.constraints if rule.term.columns & names)
        found.append(Component(part.parameters, grid, part.value, rules, part.shape))
    return found
