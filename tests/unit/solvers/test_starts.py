"""Starts and bounds: what each backend makes of a design to begin with, with time and without."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given

from cosmic_opt.errors import EngineDisagreement
from cosmic_opt.feasibility.feasible_set import feasible_set
from cosmic_opt.ir import lower as lowering
from cosmic_opt.ir.check import complete
from cosmic_opt.ir.model import Conditional, Linear, LoweredModel, Product
from cosmic_opt.ir.objective import LinearObjective, lower_objective
from cosmic_opt.solvers import cp_sat, linearise, milp
from cosmic_opt.solvers.base import (
    Codes,
    Limits,
    Solver,
    SolveResult,
    SolveStatus,
    StopReason,
    objective_values,
    plain_bound,
    proved_start,
    settle,
)
from cosmic_opt.solvers.linearise import Linearisation
from cosmic_opt.solvers.registry import load_solver, solver_names
from tests.strategies import FOCUSES, Source
from tests.unit.solvers.small import ORIGIN, model_of, table
from tests.unit.solvers.test_milp import expression_of, fixed, market_split, problems

NO_TIME = Limits(seconds=0.0)
each_backend = pytest.mark.parametrize("solver", [load_solver(n) for n in solver_names()], ids=lambda s: s.name)
each_limited = pytest.mark.parametrize("solver", [load_solver(n) for n in ("cp_sat", "milp")], ids=lambda s: s.name)


def knapsack(items: int = 20) -> tuple[LoweredModel, LinearObjective]:
    """Pack items of three weights each: no item may be taken free of charge, so the plain bound is never reached."""
    rng = np.random.default_rng(1)
    rules = []
    for row in rng.integers(1, 100, (3, items)).tolist():
        rules.append(Linear(tuple(range(items)), tuple((0, n) for n in row), None, sum(row) // 2, ORIGIN))
    values = tuple((0, number) for number in rng.integers(50, 100, items).tolist())
    return model_of((2,) * items, *rules), LinearObjective(tuple(range(items)), values, maximise=True)


def one_item(items: int = 20) -> Codes:
    return np.array([[1] + [0] * (items - 1)], dtype=np.int32)


def assert_every_row_holds(program: Linearisation, codes: list[int]) -> None:
    """Every row and every bound of a variable, in whole numbers."""
    point = program.point_of(codes).tolist()
    assert all(0 <= value <= upper for value, upper in zip(point, program.upper, strict=True))
    for row in program.rows:
        total = sum(weight * point[variable] for variable, weight in row.terms.items())
        assert row.lower is None or row.lower <= total, row
        assert row.upper is None or total <= row.upper, row


# --- the point that HiGHS begins with -------------------------------------------------------------------------


@pytest.mark.parametrize("focus", FOCUSES)
@pytest.mark.parametrize("digits", [False, True], ids=["sums", "digits"])
def test_a_design_fills_every_variable_so_that_every_row_holds(
    monkeypatch: pytest.MonkeyPatch, focus: str, digits: bool
) -> None:
    monkeypatch.setattr(lowering, "SMALL_TABLE", 1)
    if digits:
        monkeypatch.setattr(linearise, "DIRECT", 2)
        monkeypatch.setattr(linearise, "BASE", 3)

    @fixed(10)
    @given(problems(focus))
    def holds(problem: tuple[Source, str, bool]) -> None:
        source, text, maximise = problem
        parameter_set = source.bind()
        term = expression_of(source, parameter_set, text)
        model, _ = lower_objective(parameter_set, lowering.lower(parameter_set), term, maximise=maximise)
        designs = feasible_set(model).sample(3, np.random.default_rng(0))
        program = Linearisation(model)
        for codes in complete(model, designs)[0].tolist():
            assert_every_row_holds(program, codes)

    holds()


@pytest.mark.parametrize(
    "rule",
    [
        Conditional(0, Linear((1, 2), ((0, 5, 9), (0, 7, 8)), 3, 12, ORIGIN), ORIGIN),
        Conditional(0, Product((1, 2), ((1, 2, 3), (1, 2, 4)), 2, 6, ORIGIN), ORIGIN),
        Conditional(0, table((1, 2), (0, 1), (2, 2)), ORIGIN),
        Linear((0, 1, 2), ((0, 2**40), (0, 1, 2**41), (0, 3, 2**42)), 5, 2**42 + 1, ORIGIN),
        Product((1, 2), ((1, 2**30, 3), (1, 2**31, 4)), 2, 2**40, ORIGIN),
    ],
    ids=["guarded sum", "guarded product", "guarded table", "sum in digits", "large product"],
)
def test_each_kind_of_rule_is_filled(rule: Conditional | Linear | Product) -> None:
    model = model_of((2, 3, 3), rule)
    designs = feasible_set(model).everything(100)
    assert len(designs) > 1
    program = Linearisation(model)
    for codes in designs.tolist():
        assert_every_row_holds(program, codes)


def test_highs_takes_the_start_as_its_primal_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without a node to branch on, HiGHS has no point of its own: what it reports is the start."""
    monkeypatch.setitem(milp._OPTIONS, "mip_max_nodes", 0)
    model, objective = knapsack()
    program = Linearisation(model)
    goal = program.goal(objective)
    assert milp._run(program, goal, Limits(), None).codes is None
    answer = milp._run(program, goal, Limits(), one_item())
    assert answer.codes is not None
    assert (answer.finished, answer.codes.tolist()) == (False, one_item().tolist())


def test_highs_takes_a_start_of_every_kind_of_rule(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(milp._OPTIONS, "mip_max_nodes", 0)
    rules = (
        Conditional(0, Linear((1, 2), ((0, 5, 9), (0, 2**30, 8)), 3, 2**30 + 4, ORIGIN), ORIGIN),
        Product((1, 2), ((1, 2, 3), (1, 2, 4)), 2, 9, ORIGIN),
        table((0, 1, 2), *((a, b, c) for a in range(2) for b in range(3) for c in range(3) if a + b + c != 3)),
    )
    model = model_of((2, 3, 3), *rules)
    for start in feasible_set(model).everything(100):
        program = Linearisation(model)
        goal = program.goal(LinearObjective((0, 1, 2), ((1, 2), (3, 4, 9), (5, 1, 7))))
        answer = milp._run(program, goal, Limits(), start.reshape(1, -1))
        assert answer.codes is not None
        assert answer.codes[0].tolist() == start.tolist()


def test_cp_sat_s_hints_are_a_whole_solution(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every variable fixed to its hint leaves one solution: the start."""
    plain = cp_sat._solver

    def fixed_to_hints(limits: Limits) -> object:
        solver = plain(limits)
        solver.parameters.fix_variables_to_their_hinted_value = True
        return solver

    monkeypatch.setattr(cp_sat, "_solver", fixed_to_hints)
    rules = (
        Conditional(0, Linear((1, 2), ((0, 5, 9), (0, 7, 8)), 3, 12, ORIGIN), ORIGIN),
        Product((1, 2), ((1, 2, 3), (1, 2, 4)), 2, 9, ORIGIN),
    )
    model = model_of((2, 3, 3), *rules)
    objective = LinearObjective((0, 1, 2), ((1, 2), (3, 4, 9), (5, 1, 7)))
    for start in feasible_set(model).everything(100):
        result = cp_sat.CpSat._solve(model, objective, Limits(), start.reshape(1, -1))
        assert (result.status, result.codes[0].tolist()) == (SolveStatus.OPTIMAL, start.tolist())


# --- never worse than the start, never without a bound --------------------------------------------------------


@each_limited
def test_without_time_the_start_is_the_answer(solver: Solver) -> None:
    model, objective = knapsack()
    value = int(objective_values(model, objective, one_item())[0])
    result = solver.solve(model, objective, limits=NO_TIME, start=one_item())
    assert (result.status, result.stop, result.value) == (SolveStatus.FEASIBLE, StopReason.TIME, value)
    assert result.codes.tolist() == one_item().tolist()
    assert result.bound == plain_bound(model, objective)


@each_limited
def test_without_time_and_start_the_answer_is_unknown_with_a_bound(solver: Solver) -> None:
    model, objective = knapsack()
    result = solver.solve(model, objective, limits=NO_TIME)
    assert (result.status, result.value, len(result.codes)) == (SolveStatus.UNKNOWN, None, 0)
    assert result.bound == plain_bound(model, objective)


def by_nodes(monkeypatch: pytest.MonkeyPatch, number: int) -> None:
    """Let HiGHS branch on so many nodes, CP-SAT meet so many conflicts: a limit that no clock decides."""
    plain = cp_sat._solver

    def limited(limits: Limits) -> object:
        solver = plain(limits)
        solver.parameters.max_number_of_conflicts = number
        return solver

    monkeypatch.setattr(cp_sat, "_solver", limited)
    monkeypatch.setitem(milp._OPTIONS, "mip_max_nodes", number)


@pytest.mark.parametrize("number", [1, 4, 16])
@each_limited
def test_a_run_cut_short_has_a_sound_bound_and_is_no_worse_than_its_start(
    monkeypatch: pytest.MonkeyPatch, solver: Solver, number: int
) -> None:
    model, objective = knapsack()
    best = solver.solve(model, objective, limits=Limits()).value
    by_nodes(monkeypatch, number)
    result = solver.solve(model, objective, limits=Limits(), start=one_item())
    assert best is not None
    assert result.value is not None
    assert result.bound is not None
    assert int(objective_values(model, objective, one_item())[0]) <= result.value <= best <= result.bound
    assert result.bound <= plain_bound(model, objective)
    assert (result.status is SolveStatus.OPTIMAL) == (result.value == result.bound)


@each_limited
def test_no_design_found_in_a_few_nodes_is_unknown_with_a_bound(
    monkeypatch: pytest.MonkeyPatch, solver: Solver
) -> None:
    by_nodes(monkeypatch, 3)
    for maximise, plain in ((False, 107), (True, 116)):
        objective = LinearObjective((0, 1), ((5, 7), (2, 9)), maximise, 100)
        result = solver.solve(market_split(), objective, limits=Limits())
        assert (result.status, result.value, result.bound) == (SolveStatus.UNKNOWN, None, plain)


@pytest.mark.parametrize("focus", FOCUSES)
def test_on_generated_problems_limits_give_bounds_and_starts_change_no_proof(
    monkeypatch: pytest.MonkeyPatch, focus: str
) -> None:
    @fixed(8)
    @given(problems(focus))
    def agree(problem: tuple[Source, str, bool]) -> None:
        source, text, maximise = problem
        parameter_set = source.bind()
        term = expression_of(source, parameter_set, text)
        model, objective = lower_objective(parameter_set, lowering.lower(parameter_set), term, maximise=maximise)
        designs = feasible_set(model).everything(limit=100_000)
        if not len(designs):
            return
        values = objective_values(model, objective, designs)
        best, sign = int(values.max() if maximise else values.min()), -1 if maximise else 1
        start = designs[[Random(text).randrange(len(designs))]]
        own = int(objective_values(model, objective, start)[0])
        for solver in (load_solver("cp_sat"), load_solver("milp")):
            proved = solver.solve(model, objective, limits=Limits(), start=start)
            assert (proved.status, proved.value, proved.bound) == (SolveStatus.OPTIMAL, best, best), solver.name
            for given_start in (start, None):
                cut = solver.solve(model, objective, limits=NO_TIME, start=given_start)
                assert cut.bound is not None
                assert sign * cut.bound <= sign * best
                assert (cut.value, cut.status is SolveStatus.UNKNOWN) in ((own, False), (None, True))
                assert (cut.status is SolveStatus.OPTIMAL) == (cut.value == cut.bound)

    agree()


# --- what is said of a result ---------------------------------------------------------------------------------

MODEL, OBJECTIVE = model_of((3, 3)), LinearObjective((0, 1), ((0, 10, 20), (0, 1, 2)), constant=5)
NONE = np.zeros((0, 2), dtype=np.int32)


def unknown(bound: int | None = None) -> SolveResult:
    return SolveResult(SolveStatus.UNKNOWN, StopReason.TIME, NONE, None, bound)


def design(*codes: int) -> Codes:
    return np.array([codes], dtype=np.int32)


@pytest.mark.parametrize(
    ("result", "start", "status", "value", "bound"),
    [
        (unknown(), None, SolveStatus.UNKNOWN, None, 5),
        (unknown(-8), None, SolveStatus.UNKNOWN, None, 5),
        (unknown(7), None, SolveStatus.UNKNOWN, None, 7),
        (unknown(), design(1, 1), SolveStatus.FEASIBLE, 16, 5),
        (unknown(16), design(1, 1), SolveStatus.OPTIMAL, 16, 16),
        (unknown(), design(0, 0), SolveStatus.OPTIMAL, 5, 5),
        (SolveResult(SolveStatus.FEASIBLE, StopReason.TIME, design(0, 2), 7), None, SolveStatus.FEASIBLE, 7, 5),
        (SolveResult(SolveStatus.FEASIBLE, StopReason.TIME, design(2, 2), 27, 6), design(0, 2), "feasible", 7, 6),
        (SolveResult(SolveStatus.FEASIBLE, StopReason.TIME, design(0, 2), 7, 7), None, SolveStatus.OPTIMAL, 7, 7),
    ],
)
def test_the_better_design_and_the_better_bound_are_kept_and_named_for_what_they_are(
    result: SolveResult, start: Codes | None, status: SolveStatus | str, value: int | None, bound: int
) -> None:
    settled = settle(result, MODEL, OBJECTIVE, start, "an engine")
    assert (settled.status, settled.value, settled.bound) == (SolveStatus(status), value, bound)
    assert settled.stop is (StopReason.PROVED if settled.status is SolveStatus.OPTIMAL else StopReason.TIME)


@pytest.mark.parametrize(
    "result",
    [SolveResult(SolveStatus.INFEASIBLE, StopReason.PROVED, NONE), unknown(17)],
    ids=["infeasible", "a bound beyond the start"],
)
def test_a_proof_that_the_start_refutes_is_a_disagreement(result: SolveResult) -> None:
    with pytest.raises(EngineDisagreement, match="an engine"):
        settle(result, MODEL, OBJECTIVE, design(1, 1), "an engine")


def test_infeasible_stays_infeasible_without_a_bound() -> None:
    result = SolveResult(SolveStatus.INFEASIBLE, StopReason.PROVED, NONE)
    assert settle(result, MODEL, OBJECTIVE, None, "an engine") is result


def test_the_plain_bound_reads_only_codes_that_are_left() -> None:
    narrowed = LoweredModel(MODEL.columns, (), (np.array([1, 2], np.int32), np.array([2], np.int32)), (), 2)
    assert plain_bound(narrowed, OBJECTIVE) == 5 + 10 + 2
    assert plain_bound(narrowed, LinearObjective((0, 1), ((0, 10, -20), (7, 7, 1)), True)) == 10 + 1


def test_a_start_at_the_plain_bound_leaves_nothing_to_solve() -> None:
    assert proved_start(MODEL, OBJECTIVE, design(0, 1)) is None
    proved = proved_start(MODEL, OBJECTIVE, design(0, 0))
    assert proved is not None
    assert (proved.status, proved.value, proved.bound) == (SolveStatus.OPTIMAL, 5, 5)


@each_backend
def test_a_start_changes_no_proved_value(solver: Solver) -> None:
    rule = Linear((0, 1), ((0, 1, 2), (0, 1, 2)), 3, None, ORIGIN)
    results: list[Callable[[], SolveResult]] = [
        lambda: solver.solve(model_of((3, 3), rule), OBJECTIVE, limits=Limits()),
        lambda: solver.solve(model_of((3, 3), rule), OBJECTIVE, limits=Limits(), start=design(2, 1)),
    ]
    assert [(r().status, r().value, r().codes.tolist()) for r in results] == [(SolveStatus.OPTIMAL, 17, [[1, 2]])] * 2


@pytest.mark.parametrize(("told", "bound"), [((), None), ((-7.0,), -7)])
def test_cp_sat_without_a_word_on_its_bound_is_not_believed_to_have_one(
    monkeypatch: pytest.MonkeyPatch, told: tuple[float, ...], bound: int | None
) -> None:
    """The field of the bound holds 0, a wrong bound of most sums, also where nothing has been proved."""
    model, objective = knapsack()
    inner = 0 if not told else int(told[0])

    class Silent:
        best_bound_callback: Callable[[float], None]
        response_proto = SimpleNamespace(inner_objective_lower_bound=inner)

        def solve(self, cp: object) -> int:
            for number in told:
                self.best_bound_callback(number)
            return int(cp_sat.cp_model.FEASIBLE)

        def stop_search(self) -> None:
            raise AssertionError

        def value(self, variable: object) -> int:
            return 0

    monkeypatch.setattr(cp_sat, "_solver", lambda limits: Silent())
    result = cp_sat.CpSat._solve(model, objective, Limits(), None)
    assert (result.status, result.value) == (SolveStatus.FEASIBLE, 0)
    assert result.bound == (None if bound is None else -bound)
