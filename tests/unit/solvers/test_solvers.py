"""What every backend promises; a new backend is added to `BACKENDS`."""

from __future__ import annotations

from random import Random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cosmic_opt.errors import LimitError, SpecError
from cosmic_opt.ir import draft
from cosmic_opt.ir import lower as lowering
from cosmic_opt.ir.check import check
from cosmic_opt.ir.model import Conditional, Linear, Product
from cosmic_opt.ir.objective import LinearObjective
from cosmic_opt.solvers.base import (
    Capability,
    Limits,
    Solver,
    SolveResult,
    SolveStatus,
    StopReason,
    no_designs,
    objective_values,
)
from cosmic_opt.solvers.cp_sat import CpSat
from cosmic_opt.solvers.exhaustive import Exhaustive
from cosmic_opt.solvers.registry import load_solver, solver_names
from tests.strategies import Source, brute_force, sources
from tests.unit.solvers.small import ORIGIN, model_of, table

BACKENDS = [load_solver(name) for name in solver_names()]
NONE = Limits()
each_backend = pytest.mark.parametrize("solver", BACKENDS, ids=lambda solver: solver.name)


def listed(solver: Solver, *sizes: int, rules: tuple[Linear | Product | Conditional, ...] = ()) -> list[list[int]]:
    chunks = list(solver.enumerate(model_of(sizes, *rules), limits=NONE))
    return sorted(row for chunk in chunks for row in chunk.tolist())


def test_unknown_solver_is_refused_with_the_nearest_name() -> None:
    with pytest.raises(SpecError, match="unknown solver 'cpsat'") as caught:
        load_solver("cpsat")
    assert caught.value.hint == "did you mean 'cp_sat'?"


@each_backend
def test_backend_enumerates_and_optimises(solver: Solver) -> None:
    assert solver.capabilities == frozenset(Capability)


@each_backend
def test_sum_bound_by_hand(solver: Solver) -> None:
    rule = Linear((0, 1), ((0, 1, 2), (0, 2)), 2, 3, ORIGIN)
    assert listed(solver, 3, 2, rules=(rule,)) == [[0, 1], [1, 1], [2, 0]]


@each_backend
def test_product_bound_by_hand(solver: Solver) -> None:
    rule = Product((0, 1), ((0, 2, 5), (1, 3)), 5, 6, ORIGIN)
    assert listed(solver, 3, 2, rules=(rule,)) == [[1, 1], [2, 0]]


@each_backend
def test_product_of_three_factors_by_hand(solver: Solver) -> None:
    rule = Product((0, 1, 2), ((1, 2), (1, 3), (1, 5)), None, 6, ORIGIN)
    assert listed(solver, 2, 2, 2, rules=(rule,)) == [[0, 0, 0], [0, 0, 1], [0, 1, 0], [1, 0, 0], [1, 1, 0]]


@each_backend
@pytest.mark.parametrize(
    ("body", "allowed_with_guard"),
    [
        (Linear((1,), ((0, 1, 2),), 1, 1, ORIGIN), [1]),
        (Product((1,), ((1, 2, 4),), 2, None, ORIGIN), [1, 2]),
        (table((1,), (0,), (2,)), [0, 2]),
        (table((1,)), []),
        (Linear((), (), 1, None, ORIGIN), []),
    ],
    ids=["sum", "product", "table", "empty table", "false"],
)
def test_body_holds_only_where_its_guard_is_one(
    solver: Solver, body: Linear | Product, allowed_with_guard: list[int]
) -> None:
    found = listed(solver, 2, 3, rules=(Conditional(0, body, ORIGIN),))
    assert found == [[0, 0], [0, 1], [0, 2], *([1, code] for code in allowed_with_guard)]


@each_backend
def test_guard_may_stand_in_its_own_body(solver: Solver) -> None:
    body = Linear((0, 1), ((0, 1), (0, 1)), None, 1, ORIGIN)
    assert listed(solver, 2, 2, rules=(Conditional(0, body, ORIGIN),)) == [[0, 0], [0, 1], [1, 0]]


@each_backend
def test_infeasible_model_is_proved_so(solver: Solver) -> None:
    model = model_of((2, 2), Linear((0, 1), ((0, 1), (0, 1)), 3, None, ORIGIN))
    assert list(solver.enumerate(model, limits=NONE)) == []
    result = solver.solve(model, limits=NONE)
    assert (result.status, result.stop) == (SolveStatus.INFEASIBLE, StopReason.PROVED)
    assert result.codes.shape == (0, 2)


@each_backend
def test_one_feasible_point_comes_back_without_an_objective(solver: Solver) -> None:
    model = model_of((2, 2), Linear((0, 1), ((0, 1), (0, 1)), 2, None, ORIGIN))
    result = solver.solve(model, limits=NONE)
    assert result.status is SolveStatus.FEASIBLE
    assert result.codes.tolist() == [[1, 1]]


@each_backend
@pytest.mark.parametrize("limit", [0, 1, 5, 9])
def test_number_of_solutions_is_limited(solver: Solver, limit: int) -> None:
    chunks = list(solver.enumerate(model_of((3, 3)), limits=Limits(solutions=limit)))
    assert sum(map(len, chunks)) == limit


@each_backend
def test_objective_beyond_the_precision_of_a_float_is_exact(solver: Solver) -> None:
    objective = LinearObjective((0, 1), ((0, 2**55 - 1), (1, 3)), maximise=True)
    result = solver.solve(model_of((2, 2)), objective, limits=NONE)
    assert (result.value, result.bound) == (2**55 + 2, 2**55 + 2)


@each_backend
def test_objective_of_nothing_is_zero(solver: Solver) -> None:
    result = solver.solve(model_of((2,)), LinearObjective((), ()), limits=NONE)
    assert (result.status, result.value) == (SolveStatus.OPTIMAL, 0)


def test_exhaustive_handles_numbers_beyond_63_bits() -> None:
    rule = Linear((0, 1), ((0, 2**70 - 1), (1, 2**70)), None, 2**70, ORIGIN)
    assert listed(Exhaustive(), 2, 2, rules=(rule,)) == [[0, 0], [0, 1], [1, 0]]


def test_exhaustive_refuses_a_grid_too_large_to_try() -> None:
    with pytest.raises(LimitError, match="100,000,000"):
        next(Exhaustive().enumerate(model_of((10,) * 8), limits=NONE))


@pytest.mark.parametrize("power", [60, 61, 62, 63, 70])
@pytest.mark.parametrize("sign", [1, -1])
def test_cp_sat_refuses_sums_it_cannot_hold(power: int, sign: int) -> None:
    rule = Linear((0, 1), ((0, sign * 2**power), (1, sign * 2**power)), -(2**power), 2**power, ORIGIN)
    with pytest.raises(LimitError, match="rule 'budget' passes 2\\^60") as caught:
        CpSat().solve(model_of((2, 2), rule), limits=NONE)
    assert caught.value.where == ORIGIN.where


def test_cp_sat_refuses_products_and_objectives_it_cannot_hold() -> None:
    with pytest.raises(LimitError, match="the product of rule 'budget'"):
        listed(CpSat(), 2, 2, rules=(Product((0, 1), ((1, 2**40), (1, 2**40)), None, 2**40, ORIGIN),))
    with pytest.raises(LimitError, match="the objective"):
        CpSat().solve(model_of((2,)), LinearObjective((0,), ((0, 2**61),)), limits=NONE)


def test_cp_sat_clips_a_bound_that_no_sum_reaches() -> None:
    low = Linear((0,), ((0, 1),), -(2**80), 2**80, ORIGIN)
    assert listed(CpSat(), 2, rules=(low,)) == [[0], [1]]
    assert listed(CpSat(), 2, rules=(Linear((0,), ((0, 1),), 2**80, None, ORIGIN),)) == []
    assert listed(CpSat(), 2, rules=(Linear((0,), ((0, 1),), None, -(2**80), ORIGIN),)) == []


def test_cp_sat_says_when_time_ended_before_every_design_was_listed() -> None:
    with pytest.raises(LimitError, match="ran out of time"):
        list(CpSat().enumerate(model_of((9,) * 8), limits=Limits(seconds=0.05)))


def test_cp_sat_finds_one_of_the_designs_that_no_constraint_tells_apart() -> None:
    """10^9 designs obey the rule, and one point stands for them all."""
    zero = Linear((3,), ((0, 1),), 0, 0, ORIGIN)
    first = next(CpSat().enumerate(model_of((1000, 1000, 1000, 2), zero), limits=Limits(seconds=5)))
    assert len(first) >= 1000
    assert set(first[:, 3].tolist()) == {0}


@pytest.mark.parametrize("focus", ["sums", "families"])
@pytest.mark.parametrize(("small", "wide"), [(1 << 12, 1 << 16), (1, 1)])
def test_linear_optimum_is_that_of_the_listed_designs(
    monkeypatch: pytest.MonkeyPatch, focus: str, small: int, wide: int
) -> None:
    monkeypatch.setattr(lowering, "SMALL_TABLE", small)
    monkeypatch.setattr(draft, "WIDE_TABLE", wide)

    @settings(derandomize=True, deadline=None, max_examples=40)
    @given(sources(focus), st.randoms(use_true_random=False), st.booleans())
    def agree(source: Source, random: Random, maximise: bool) -> None:
        parameter_set = source.bind()
        model = lowering.lower(parameter_set)
        weights = tuple(tuple(random.randint(-50, 50) for _ in column.values) for column in parameter_set.columns)
        objective = LinearObjective(tuple(range(len(weights))), weights, maximise)
        designs = brute_force(parameter_set)
        values = objective_values(model, objective, designs)
        for solver in BACKENDS:
            result = solver.solve(model, objective, limits=NONE)
            if len(designs) == 0:
                assert result.status is SolveStatus.INFEASIBLE
                continue
            best = int(values.max() if maximise else values.min())
            assert (result.status, result.value, result.bound) == (SolveStatus.OPTIMAL, best, best)
            assert check(model, result.codes).all()
            np.testing.assert_array_equal(objective_values(model, objective, result.codes), [best])

    agree()


@each_backend
def test_no_design_is_no_row_as_wide_as_one(solver: Solver) -> None:
    rule = Linear((0, 1), ((0, 1, 2), (0, 2)), 5, None, ORIGIN)
    result = solver.solve(model_of((3, 2), rule), limits=NONE)
    assert (result.status, result.stop, result.codes.shape) == (SolveStatus.INFEASIBLE, StopReason.PROVED, (0, 2))
    late = SolveResult.out_of_time(model_of((3, 2)), 7)
    assert (late.status, late.stop, late.value, late.bound) == (SolveStatus.UNKNOWN, StopReason.TIME, None, 7)
    assert late.codes.shape == no_designs(model_of((3, 2))).shape == (0, 2)
