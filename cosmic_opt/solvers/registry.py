"""Solver backends by name, each loaded when it is used (a solver library takes a second to import)."""

from __future__ import annotations

import importlib

from cosmic_opt.errors import SpecError, nearest
from cosmic_opt.solvers.base import SOLVERS, Solver

_MODULES = {
    "exhaustive": "cosmic_opt.solvers.exhaustive",
    "cp_sat": "cosmic_opt.solvers.cp_sat",
    "milp": "cosmic_opt.solvers.milp",
}


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
