"""The least and greatest structural amounts of the shipped instances, and every way to ask for nonsense."""

from __future__ import annotations

import pytest

from cosmic_opt.analysis import optimise as module
from cosmic_opt.analysis.optimise import Optimum
from cosmic_opt.api import Problem
from cosmic_opt.catalog.store import instance_names
from cosmic_opt.errors import EngineDisagreement, LimitError, SpecError
from cosmic_opt.psa.evaluate import feasible
from cosmic_opt.search.objective import quantity_values
from cosmic_opt.solvers.base import SolveResult, SolveStatus, StopReason
from cosmic_opt.units import Unit

COSMIC = [name for name in instance_names() if name.startswith("cosmic/")]
SYSTEM2 = Problem.load("cosmic/gpt3-175b-system2")
HEADROOM = "memory_capacity - memory_per_npu"


def value_of(optimum: Optimum, quantity: str) -> int:
    """Return the quantity of the optimum's design by its own definition, without solver or IR."""
    (value,) = quantity_values(optimum.design.parameter_set.quantities[quantity], optimum.design)
    return int(value)


@pytest.mark.parametrize("name", COSMIC)
def test_engines_agree_on_the_cheapest_network_and_its_design(name: str) -> None:
    ours, theirs = (Problem.load(name).optimise("network_cost", solver=solver) for solver in ("cp_sat", "milp"))
    assert ours.status is theirs.status is SolveStatus.OPTIMAL
    assert (ours.value, ours.bound, ours.gap) == (theirs.value, theirs.bound, 0.0)
    assert ours.design.codes.tolist() == theirs.design.codes.tolist()
    assert feasible(ours.design).all()
    assert value_of(ours, "network_cost") == ours.value


@pytest.mark.parametrize("name", COSMIC)
def test_engines_agree_on_the_most_headroom_and_its_design(name: str) -> None:
    problem = Problem.load(name)
    ours, theirs = (problem.optimise(HEADROOM, maximise=True, solver=solver) for solver in ("cp_sat", "milp"))
    assert (ours.value, ours.bound, ours.status) == (theirs.value, theirs.bound, SolveStatus.OPTIMAL)
    assert ours.design.codes.tolist() == theirs.design.codes.tolist()
    capacity = int(problem.parameter_set.data["memory_capacity"])
    assert ours.value == capacity - value_of(ours, "memory_per_npu")


@pytest.mark.parametrize("solver", ["exhaustive", "cp_sat", "milp"])
def test_optimum_is_that_of_every_listed_design(solver: str) -> None:
    problem = Problem.load("llama3-405b/h100-16k")
    best, code = max(
        (-int(bytes_), tuple(-code for code in row))
        for batch in problem.enumerate()
        for row, bytes_ in zip(
            batch.codes.tolist(),
            quantity_values(problem.parameter_set.quantities["memory_per_npu"], batch),
            strict=True,
        )
    )
    optimum = problem.optimise("memory_per_npu", solver=solver)
    assert (optimum.value, optimum.unit, optimum.solver) == (-best, Unit.BYTES, solver)
    assert optimum.design.codes.tolist() == [[-digit for digit in code]]


def test_least_bandwidth_is_the_least_of_each_dimension() -> None:
    optimum = SYSTEM2.optimise("total_bandwidth")
    assert optimum.value == 4 * 50 * 10**9
    assert optimum.unit is Unit.BYTES_PER_S


def test_least_bandwidth_under_a_table_of_bandwidth_per_shape() -> None:
    """A table over a few columns, as a rule: a large dimension asks for a wide link."""
    table = "all(npus_per_dim[d] == 16 implies bandwidth[d] >= 200 GB/s for d in dim)"
    shape = "npus_per_dim[1] == 16 and npus_per_dim[3] == 4"
    optimum = SYSTEM2.require(table, shape).optimise("total_bandwidth")
    assert optimum.value == (3 * 50 + 200) * 10**9


def test_a_price_excludes_blocks_that_cannot_be_bought() -> None:
    problem = Problem.load("cosmic/table1-1024")
    assert "priced" not in [rule.name for rule in problem.parameter_set.constraints]
    rules = problem.optimise("network_cost", maximise=True).design.parameter_set.constraints
    assert "priced" in [rule.name for rule in rules]


def test_size_chooses_the_solver() -> None:
    assert SYSTEM2.optimise("network_cost").solver == "cp_sat"
    assert SYSTEM2.scope("workload").optimise("memory_per_npu").solver == "exhaustive"
    assert SYSTEM2.optimise("100000000000 * network_cost").solver == "milp"


def test_no_feasible_design_is_an_answer() -> None:
    optimum = SYSTEM2.require("tp >= 2048").optimise("network_cost")
    assert (optimum.status, optimum.stop, optimum.value, optimum.gap) == (
        SolveStatus.INFEASIBLE,
        StopReason.PROVED,
        None,
        None,
    )
    assert len(optimum.design) == 0


@pytest.mark.parametrize("solver", ["cp_sat", "milp"])
def test_without_time_the_start_is_the_answer_with_a_bound(solver: str) -> None:
    optimum = SYSTEM2.optimise("network_cost", solver=solver, time_limit_s=1e-9)
    assert (optimum.status, optimum.stop) == (SolveStatus.FEASIBLE, StopReason.TIME)
    assert optimum.value == optimum.start == value_of(optimum, "network_cost")
    assert optimum.bound is not None
    assert optimum.bound <= 911_360 <= optimum.value
    assert optimum.gap == (optimum.value - optimum.bound) / optimum.value


@pytest.mark.parametrize(
    ("expression", "message", "hint"),
    [
        ("", "the expression is empty", "write for example network_cost"),
        ("  ", "the expression is empty", "write for example network_cost"),
        ("network_costs", "unknown name 'network_costs'", "did you mean 'network_cost'"),
        ("2 * step_time", "'step_time' is simulated", "optimise step_time alone"),
        ("2 * (tp + throughput)", "'throughput' is simulated", "optimise throughput alone"),
        ("memory_capacity", "the same for every design", "name a free parameter"),
        ("3", "the same for every design", "name a free parameter"),
        ("tp <= 4", "is a condition, not a number", "--require"),
        ("tp == 4 and dp == 2", "is a condition, not a number", "--require"),
        ("topology[0]", "'topology[0]' is a category", "count(topology[0] == ring)"),
        ("scheduling_policy", "'scheduling_policy' is a category", "count(scheduling_policy == lifo)"),
        ("topology[0] + 1", "takes numbers, not categories", None),
        ("tp + memory_per_npu + 1 s", "mixes", None),
        ("bandwidth", "one value per index", "sum(bandwidth)"),
        ("tp // (dp - 1)", "may divide by zero", None),
        ("tp +", "found the end", None),
        ("tp) >= 0 and (dp", "", None),
        ("tp; dp", "", None),
        ("x" * 5000, "characters", None),
        ("(" * 200 + "tp" + ")" * 200, "", None),
    ],
)
def test_what_is_no_structural_number_is_refused(expression: str, message: str, hint: str | None) -> None:
    with pytest.raises(SpecError) as caught:
        SYSTEM2.optimise(expression)
    assert message in caught.value.message
    assert caught.value.where is not None
    assert caught.value.where.file == "--minimise"
    assert hint is None or hint in str(caught.value.hint)


def test_an_unknown_solver_is_refused_before_any_work() -> None:
    with pytest.raises(SpecError, match="unknown solver 'gurobi'"):
        SYSTEM2.optimise("tp", solver="gurobi")


def test_too_many_combinations_for_trying_each_are_refused() -> None:
    with pytest.raises(LimitError, match="too large to try one by one"):
        SYSTEM2.optimise("network_cost", solver="exhaustive")


def test_a_value_that_the_design_does_not_have_is_a_disagreement(monkeypatch: pytest.MonkeyPatch) -> None:
    class Liar:
        name = "liar"
        table_rows = 0

        def solve(self, model: object, objective: object, *, limits: object, start: object) -> SolveResult:
            codes = next(SYSTEM2.feasible.chunks(chunk=1))
            return SolveResult(SolveStatus.FEASIBLE, StopReason.TIME, codes, 1, 1)

    monkeypatch.setattr(module, "load_solver", lambda name: Liar())
    with pytest.raises(EngineDisagreement, match="reported 1 with bound 1"):
        SYSTEM2.optimise("total_bandwidth")
