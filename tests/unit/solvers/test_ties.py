"""The least code among equals."""

from __future__ import annotations

import numpy as np
import pytest

from cosmic_opt.ir.model import Linear
from cosmic_opt.ir.objective import LinearObjective
from cosmic_opt.solvers.base import Limits, Solver
from cosmic_opt.solvers.registry import load_solver, solver_names
from cosmic_opt.solvers.ties import least_code
from tests.unit.solvers.small import ORIGIN, model_of

OBJECTIVE = LinearObjective((0, 1), ((0, 1, 2), (2, 1, 0)), constant=5)
each_backend = pytest.mark.parametrize("solver", [load_solver(name) for name in solver_names()], ids=lambda s: s.name)


@each_backend
def test_among_equal_designs_the_one_of_least_code_is_returned(solver: Solver) -> None:
    """The sum is 2 at (0, 0), (1, 1) and (2, 2), each with any third code; a rule excludes (0, 0)."""
    rule = Linear((0, 1), ((0, 1, 1), (0, 1, 1)), 1, None, ORIGIN)
    found = np.array([[2, 2, 3]], dtype=np.int32)
    tied = least_code(solver, model_of((3, 3, 4), rule), OBJECTIVE, 7, found, limits=Limits())
    assert (tied.design.tolist(), tied.least) == ([[1, 1, 0]], True)


@pytest.mark.parametrize("name", ["cp_sat", "milp"])
def test_a_design_stays_as_found_when_the_time_is_spent_and_is_not_called_the_least(name: str) -> None:
    found = np.array([[2, 2, 3]], dtype=np.int32)
    limits = Limits(seconds=0.0)
    tied = least_code(load_solver(name), model_of((3, 3, 4)), OBJECTIVE, 7, found, limits=limits)
    assert (tied.design.tolist(), tied.least) == (found.tolist(), False)
