"""Solver backends by name, each loaded when it is used (a solver library takes a second to import)."""

from __future__ import annotations

import importlib
import math

from cosmic_opt.errors import SpecError, nearest
from cosmic_opt.ir.model import Conditional, LoweredModel, Product, Table, Weights
from cosmic_opt.ir.objective import LinearObjective
from cosmic_opt.solvers.base import CP_SAT_RANGE, SOLVERS, Solver

_MODULES = {
    "exhaustive": "cosmic_opt.solvers.exhaustive",
    "cp_sat": "cosmic_opt.solvers.cp_sat",
    "milp": "cosmic_opt.solvers.milp",
}

EXHAUSTIVE_GRID = 1 << 17
"""Up to so many combinations trying each takes less time than to load a solver library."""


def solver_names() -> tuple[str, ...]:
    """Return the name of every backend."""
    return tuple(_MODULES)


def load_solver(name: str) -> Solver:
    """Return a backend.

    Raises:
        SpecError: an unknown name.
    """
    if name not in _MODULES:
        raise SpecError(f"unknown solver {name!r}", hint=nearest(name, _MODULES))
    importlib.import_module(_MODULES[name])
    return SOLVERS.get(name)


def choose_solver(model: LoweredModel, objective: LinearObjective) -> str:
    """Return the backend that suits the size of an optimisation.

    Few combinations are tried one by one; CP-SAT takes the rest (it is the quickest on wide tables), except numbers
    beyond its range, which only the MILP backend splits into digits.
    """
    if math.prod(len(codes) for codes in model.allowed[: model.designs]) <= EXHAUSTIVE_GRID:
        return "exhaustive"
    return "milp" if _largest_number(model, objective) > CP_SAT_RANGE else "cp_sat"


def _largest_number(model: LoweredModel, objective: LinearObjective) -> int:
    """Return a bound on every sum and product of the model and on the objective."""
    largest = _span(objective.weights)
    for constraint in model.all_constraints():
        body = constraint.body if isinstance(constraint, Conditional) else constraint
        if isinstance(body, Product):
            largest = max(largest, math.prod(max(1, *row) for row in body.factors))
        elif not isinstance(body, Table):
            largest = max(largest, _span(body.weights))
    return largest


def _span(weights: Weights) -> int:
    return sum(max(map(abs, row), default=0) for row in weights)
