"""Exact counts, by decision diagram or by another engine as a cross-check."""

from __future__ import annotations

from dataclasses import dataclass

from cosmic_opt.errors import SpecError, nearest
from cosmic_opt.feasibility.feasible_set import FeasibleSet
from cosmic_opt.psa.parameter_set import ParameterSet
from cosmic_opt.solvers.base import Limits
from cosmic_opt.solvers.registry import load_solver, solver_names

DIAGRAM = "diagram"
ENGINES = (DIAGRAM, *solver_names())


@dataclass(frozen=True)
class Component:
    """Parameters that no rule ties to others: combinations before and after the rules."""

    parameters: tuple[str, ...]
    grid: int
    value: int
    rules: tuple[str, ...]


@dataclass(frozen=True)
class CountResult:
    """How many designs satisfy every rule.

    `exact` is False when rules on simulated quantities are in force: the count then lies in [`lower`, `value`],
    here [0, every structurally feasible design]; the search narrows it.
    """

    value: int
    exact: bool
    lower: int
    grid_size: int
    engine: str
    components: tuple[Component, ...]
    not_counted: tuple[str, ...]
    """Rules on simulated quantities, which only the search can check."""


def count(parameter_set: ParameterSet, feasible: FeasibleSet, *, engine: str = DIAGRAM) -> CountResult:
    """Return the number of designs that satisfy every structural rule.

    Raises:
        SpecError: an unknown engine.
        LimitError: the engine cannot count so many.
    """
    if engine not in ENGINES:
        raise SpecError(f"unknown engine {engine!r}", hint=nearest(engine, ENGINES))
    value = feasible.size
    if engine != DIAGRAM:
        solver = load_solver(engine)
        value = sum(len(codes) for codes in solver.enumerate(feasible.model, limits=Limits()))
    simulated = tuple(rule.name for rule in parameter_set.constraints if rule.simulated)
    components = tuple(_components(parameter_set, feasible))
    return CountResult(
        value, not simulated, 0 if simulated else value, parameter_set.grid_size, engine, components, simulated
    )


def _components(parameter_set: ParameterSet, feasible: FeasibleSet) -> list[Component]:
    """Return the components in order; a rule belongs to those whose columns it reads."""
    found = []
    for part in feasible.component_counts():
        names = set(part.parameters)
        grid = 1
        for name in part.parameters:
            grid *= len(parameter_set.column(name).values)
        rules = tuple(rule.name for rule in parameter_set.constraints if rule.term.columns & names)
        found.append(Component(part.parameters, grid, part.value, rules))
    return found
