"""The design that an optimisation begins with: given, drawn, or none."""

from __future__ import annotations

from functools import cache

import pytest

from cosmic_opt.analysis import starts
from cosmic_opt.api import Problem
from cosmic_opt.errors import LimitError, SpecError
from cosmic_opt.ir.check import check
from cosmic_opt.psa.domain import Value
from cosmic_opt.solvers.base import SolveStatus
from tests.unit.analysis.test_optimise_simulated import BANDWIDTHS, cold
from tests.unit.feasibility.test_bounds import knapsack


def test_a_start_that_is_given_is_never_lost() -> None:
    problem = Problem.load("cosmic/gpt3-175b-system2")
    best = problem.optimise("network_cost")
    given = next(best.design.points())
    without = problem.optimise("network_cost", solver="milp", time_limit_s=1e-9)
    assert without.value is not None
    assert best.value is not None
    assert without.value > best.value
    optimum = problem.optimise("network_cost", solver="milp", time_limit_s=1e-9, start=[given])
    assert optimum.value == optimum.start == best.value


def test_starts_that_are_no_members_are_passed_over_each_with_its_reason() -> None:
    problem = BANDWIDTHS.require("bandwidth[0] >= 100 GB/s")
    design = next(problem.sample(1).points())
    others: list[tuple[str, Value, str]] = [
        ("bandwidth[0]", 50 * 10**9, "it breaks the rule required: bandwidth[0] >= 100 GB/s"),
        ("dp", 32, "dp = 32 is not free here"),
    ]
    start = [{**design, name: value} for name, value, _ in others]
    optimum = problem.optimise("total_bandwidth", start=[*start, design])
    assert (optimum.status, optimum.value) == (SolveStatus.OPTIMAL, 350 * 10**9)
    assert optimum.passed_over == tuple(why for _, _, why in others)


@pytest.mark.parametrize("value", [51 * 10**9, float("nan"), None, [1], "wide", -1, 50e9])
def test_a_start_with_a_value_outside_every_domain_is_no_design(value: Value) -> None:
    design = next(BANDWIDTHS.sample(1).points())
    with pytest.raises(SpecError, match=r"not in the domain of 'bandwidth\[0\]'"):
        BANDWIDTHS.optimise("total_bandwidth", start=[{**design, "bandwidth[0]": value}])


def test_a_start_without_a_column_or_with_a_foreign_one_is_no_design() -> None:
    design = next(BANDWIDTHS.sample(1).points())
    with pytest.raises(SpecError, match="nothing gives 'dp' a value"):
        BANDWIDTHS.optimise("total_bandwidth", start=[{}])
    with pytest.raises(SpecError, match="unknown parameter 'dpp'"):
        BANDWIDTHS.optimise("total_bandwidth", start=[{**design, "dpp": 1}])


@cache
def _entangled() -> Problem:
    return Problem.load("cosmic/gpt3-175b-system2")


@pytest.mark.parametrize("solver", ["cp_sat", "milp"])
def test_numbers_too_large_for_a_diagram_leave_a_run_without_a_sample(
    monkeypatch: pytest.MonkeyPatch, solver: str
) -> None:
    def outgrown(*model: object) -> object:
        raise LimitError("too large")

    monkeypatch.setattr(starts, "some_designs", outgrown)
    problem = _entangled().require("dp != 32")
    assert problem.violations(problem.baseline())
    optimum = problem.optimise("network_cost", solver=solver, time_limit_s=1e-9)
    assert (optimum.status, optimum.value, optimum.gap, optimum.start) == (SolveStatus.UNKNOWN, None, None, None)
    assert optimum.bound is not None
    assert optimum.bound <= 911_360
    proved = problem.optimise("network_cost", solver=solver)
    assert (proved.status, proved.value, proved.start) == (SolveStatus.OPTIMAL, 911_360, None)


def test_no_design_in_time_is_an_answer_where_rules_read_whole_columns() -> None:
    """The rule on orders that repeat each other evaluates stacks of columns: there must be a design to look at."""
    problem = Problem.load("calculon/gpt3-175b-h100-1024")
    optimum = cold(problem, "memory_per_npu", solver="milp", time_limit_s=1e-9)
    assert (optimum.status, len(optimum.design)) == (SolveStatus.UNKNOWN, 0)


def test_the_sample_depends_on_the_seed_and_the_answer_does_not() -> None:
    problem = _entangled()
    first, again, other = (problem.optimise("network_cost", seed=seed) for seed in (1, 1, 2))
    assert first.start == again.start
    assert first.value == other.value
    assert first.design.codes.tolist() == other.design.codes.tolist()


def test_a_sample_of_entangled_rules_is_drawn_from_a_narrow_diagram() -> None:
    model = knapsack()
    drawn = starts.sampled(model, 0)
    assert drawn.shape == (starts.SAMPLES, model.designs)
    assert check(model, drawn).all()
    assert drawn.tolist() == starts.sampled(model, 0).tolist()
