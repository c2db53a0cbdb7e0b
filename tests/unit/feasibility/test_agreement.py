"""Five engines, one set: NumPy over the grid, the lowered checker, exhaustive, CP-SAT, the decision diagram."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings

from cosmic_opt.feasibility.feasible_set import feasible_set
from cosmic_opt.ir import draft
from cosmic_opt.ir import lower as lowering
from cosmic_opt.ir.check import check, recheck
from cosmic_opt.solvers.base import Limits
from cosmic_opt.solvers.cp_sat import CpSat
from cosmic_opt.solvers.exhaustive import Exhaustive
from tests.strategies import FOCUSES, Source, brute_force, sorted_codes, sources, whole_grid

EXAMPLES = 70
fixed = settings(
    derandomize=True,
    deadline=None,
    max_examples=EXAMPLES,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)


def assert_engines_agree(source: Source) -> None:
    parameter_set = source.bind()
    expected = brute_force(parameter_set)
    model = lowering.lower(parameter_set)
    grid = whole_grid(parameter_set)
    np.testing.assert_array_equal(grid[check(model, grid)], expected, "checker")
    for solver in (Exhaustive(), CpSat()):
        found = sorted_codes(model, list(solver.enumerate(model, limits=Limits())))
        np.testing.assert_array_equal(found, expected, solver.name)
    designs = feasible_set(model)
    assert designs.size == len(expected)
    np.testing.assert_array_equal(designs.everything(limit=len(grid)), expected, "diagram")
    recheck(model, parameter_set, expected, "brute force")


@pytest.mark.parametrize("focus", FOCUSES)
@pytest.mark.parametrize(
    ("small", "wide"),
    [pytest.param(1 << 12, 1 << 16, marks=pytest.mark.slow), (8, 64), pytest.param(1, 1, marks=pytest.mark.slow)],
)
def test_engines_give_the_same_set(monkeypatch: pytest.MonkeyPatch, focus: str, small: int, wide: int) -> None:
    monkeypatch.setattr(lowering, "SMALL_TABLE", small)
    monkeypatch.setattr(draft, "WIDE_TABLE", wide)

    @fixed
    @given(sources(focus))
    def agree(source: Source) -> None:
        assert_engines_agree(source)

    agree()
