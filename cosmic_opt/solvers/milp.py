"""The MILP backend: a pyomo model solved by HiGHS. The only file that imports pyomo and highspy.

A floating-point solver proposes, integers decide: every point is checked exactly, and where the objective's numbers
pass what a tolerance can tell apart, optimality is proved by asking for a design better by one unit, in exact rows.
A start is given to HiGHS as a whole point, every variable of the program filled in.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

import highspy
import numpy as np
import pyomo.environ as pyo
from numpy.typing import NDArray
from pyomo.core.expr import LinearExpression
from pyomo.repn.plugins.standard_form import LinearStandardFormCompiler

from cosmic_opt.errors import LimitError
from cosmic_opt.ir.check import check, complete
from cosmic_opt.ir.model import LoweredModel
from cosmic_opt.ir.objective import LinearObjective
from cosmic_opt.solvers.base import (
    SOLVERS,
    TABLE_ROWS,
    Capability,
    Codes,
    Limits,
    SolveResult,
    SolveStatus,
    StopReason,
    objective_values,
    settle,
)
from cosmic_opt.solvers.interrupt import interruptible
from cosmic_opt.solvers.linearise import DIRECT, Goal, Linearisation, Row

ENUMERATION_LIMIT = 500
"""More designs than this are not listed: each costs one solve with one more cut."""
ATTEMPTS = 100
"""Solves of one question before giving up on the solver's floating-point numbers."""
FLOAT_BITS = 40
"""Objective coefficients are shifted below this many bits; what the shift loses, the exact cut makes good."""


class Milp:
    """Codes are binaries; helper columns, rows of tables and flows of products are continuous and follow from them."""

    name = "milp"
    capabilities = frozenset({Capability.FEASIBILITY, Capability.ENUMERATION, Capability.LINEAR_OBJECTIVE})
    table_rows = TABLE_ROWS

    def solve(
        self,
        model: LoweredModel,
        objective: LinearObjective | None = None,
        *,
        limits: Limits,
        start: Codes | None = None,
    ) -> SolveResult:
        """Return a feasible design, or an optimal one with its bound.

        Raises:
            LimitError: tables too large, or HiGHS gave no usable answer in many attempts.
        """
        program = Linearisation(model)
        if objective is None:
            return self._solve(model, program, None, limits, start)
        question = _Question(objective, program.goal(objective))
        return settle(self._solve(model, program, question, limits, start), model, objective, start, self.name)

    @staticmethod
    def _solve(
        model: LoweredModel, program: Linearisation, question: _Question | None, limits: Limits, start: Codes | None
    ) -> SolveResult:
        """Ask until the answer is exact. A start is given until better designs than the best are asked for."""
        best: SolveResult | None = None
        bound: int | None = None
        goal = None if question is None else question.goal
        for _ in range(ATTEMPTS):
            answer = _run(program, goal, limits, start)
            if answer.infeasible:
                return _proved(best, model)
            bound = max((known for known in (bound, answer.bound) if known is not None), default=None)
            if answer.codes is None:
                return _out_of_time(best, bound, goal, model)
            if not check(model, answer.codes).all():
                program.forbid(answer.codes[0])
                continue
            if question is None or goal is None:
                return SolveResult(SolveStatus.FEASIBLE, StopReason.PROVED, answer.codes)
            value = int(objective_values(model, question.objective, answer.codes)[0])
            best = SolveResult(SolveStatus.FEASIBLE, StopReason.TIME, answer.codes, value)
            if not answer.finished:
                return _out_of_time(best, bound, goal, model)
            if goal.largest < DIRECT:
                return _proved(best, model)
            _require_better(program, question.objective, value)
            start = None
        raise LimitError(f"HiGHS did not settle the question in {ATTEMPTS} attempts", hint="use cp_sat or exhaustive")

    def enumerate(self, model: LoweredModel, *, limits: Limits) -> Iterator[Codes]:
        """Yield every feasible design once: find one, exclude it, ask again.

        Raises:
            LimitError: more than 500 designs, or the time is spent.
        """
        program = Linearisation(model)
        found: list[Codes] = []
        while limits.solutions is None or len(found) < limits.solutions:
            answer = _run(program, None, limits, None)
            if answer.infeasible:
                break
            if answer.codes is None:
                raise LimitError("HiGHS ran out of time before listing every design", hint="give more time")
            if len(found) == ENUMERATION_LIMIT or (limits.solutions is None and _choices(model) > ENUMERATION_LIMIT):
                raise LimitError(
                    f"more than {ENUMERATION_LIMIT} designs, too many to list one cut at a time",
                    hint="use another solver, or fix a parameter",
                )
            if check(model, answer.codes).all():
                found.append(answer.codes)
            program.forbid(answer.codes[0])
        if found:
            yield np.concatenate(found)


@dataclass(frozen=True, slots=True)
class _Question:
    """What is to be optimised: in the model's columns, and in the program's literals."""

    objective: LinearObjective
    goal: Goal


@dataclass(frozen=True, slots=True)
class _Answer:
    """What one run of HiGHS gave: at most one point, and the least sum of the goal it could not exclude."""

    infeasible: bool
    finished: bool
    codes: Codes | None = None
    bound: int | None = None


def _proved(best: SolveResult | None, model: LoweredModel) -> SolveResult:
    """Nothing (better) exists: the best design is optimal; without one the model is infeasible."""
    if best is None:
        return SolveResult.infeasible(model)
    return SolveResult(SolveStatus.OPTIMAL, StopReason.PROVED, best.codes, best.value, best.value)


def _out_of_time(best: SolveResult | None, bound: int | None, goal: Goal | None, model: LoweredModel) -> SolveResult:
    """The time is spent: what was found, with the best bound of all runs (on what is better than the best design)."""
    result = best or SolveResult.out_of_time(model)
    if goal is None or bound is None:
        return result
    total = bound if result.value is None else min(bound, goal.total(result.value))
    return replace(result, bound=goal.value(total))


def _require_better(program: Linearisation, objective: LinearObjective, value: int) -> None:
    """Ask for a design better than `value` by at least one unit."""
    sign = -1 if objective.maximise else 1
    weights = tuple(tuple(sign * weight for weight in row) for row in objective.weights)
    program.add_at_most(objective.columns, weights, sign * (value - objective.constant) - 1)


def _run(program: Linearisation, goal: Goal | None, limits: Limits, start: Codes | None) -> _Answer:
    """Solve the program once, beginning with a design that it allows, if one is given.

    Raises:
        LimitError: HiGHS failed.
    """
    if program.infeasible:
        return _Answer(infeasible=True, finished=True)
    if limits.out_of_time():
        return _Answer(infeasible=False, finished=False)
    shift = 0 if goal is None else max(0, goal.largest.bit_length() - FLOAT_BITS)
    lp, columns = _matrices(_pyomo_model(program, goal, shift))
    highs = _SilentHighs()  # type: ignore[no-untyped-call]
    for option, value in _OPTIONS.items():
        highs.setOptionValue(option, value)
    seconds = limits.remaining_s()
    if seconds is not None:
        highs.setOptionValue("time_limit", seconds)
    highs.HandleUserInterrupt = True
    highs.passModel(lp)
    if start is not None:
        highs.setSolution(_whole_point(program, start, columns))
    interruptible(highs.run, highs.cancelSolve)
    status = highs.getModelStatus()
    if status in (highspy.HighsModelStatus.kInfeasible, highspy.HighsModelStatus.kUnboundedOrInfeasible):
        return _Answer(infeasible=True, finished=True)
    finished = status == highspy.HighsModelStatus.kOptimal
    if not finished and status not in _LIMITS:
        raise LimitError(f"HiGHS stopped: {highs.modelStatusToString(status)}", hint="use another solver")
    info = highs.getInfo()
    found = info.primal_solution_status == highspy.SolutionStatus.kSolutionStatusFeasible
    codes = None
    if found:
        values = np.zeros(len(program.upper))
        values[columns] = highs.getSolution().col_value
        codes = _decode(program, values)
    return _Answer(False, finished, codes, _whole_bound(info.mip_dual_bound, shift))


class _SilentHighs(highspy.Highs):
    """HiGHS that prints nothing: enabling callbacks, in its constructor, would print a banner."""

    def enableCallbacks(self) -> None:  # noqa: N802 - the parent's name
        """Enable them after switching the output off."""
        self.silent()
        super().enableCallbacks()  # type: ignore[no-untyped-call]


_OPTIONS: dict[str, str | int | float] = {
    "presolve": "off",  # tables and products are convex hulls already; presolve takes longer and ignores the time limit
    "threads": 1,
    "random_seed": 0,
    "mip_rel_gap": 0.0,
    "mip_abs_gap": 1e-6,
    "mip_feasibility_tolerance": 1e-7,
}


_LIMITS = (highspy.HighsModelStatus.kTimeLimit, highspy.HighsModelStatus.kSolutionLimit)
"""A limit of time, or of nodes."""


def _whole_point(program: Linearisation, start: Codes, columns: list[int]) -> highspy.HighsSolution:
    """Return a design as a point of the matrices: literals, rows of tables, flows, digits."""
    codes, _ = complete(program.model, start)
    point = highspy.HighsSolution()
    point.col_value = program.point_of(codes[0].tolist())[columns].astype(float).tolist()
    return point


def _decode(program: Linearisation, values: NDArray[np.float64]) -> Codes:
    """Return the design that the literals spell: in each column the code with the largest."""
    chosen = [max(literals, key=lambda code: values[literals[code]]) for literals in program.literals]
    return np.array([chosen[: program.model.designs]], dtype=np.int32)


def _whole_bound(bound: float, shift: int) -> int | None:
    """Return a lower bound on the goal's sum, rounded in the safe direction by more than HiGHS's tolerances."""
    if not math.isfinite(bound):
        return None
    return max(0, math.ceil(bound - 1e-4 - 1e-7 * abs(bound))) << shift


def _pyomo_model(program: Linearisation, goal: Goal | None, shift: int) -> Any:
    """Return the program as a pyomo model; coefficients of the goal lose their last `shift` bits, rounded down."""
    model = pyo.ConcreteModel()
    domains = {True: pyo.Integers, False: pyo.Reals}
    model.x = pyo.Var(
        range(len(program.upper)),
        domain=lambda _, at: domains[program.integer[at]],
        bounds=lambda _, at: (0, program.upper[at]),
    )
    variables = [model.x[at] for at in range(len(program.upper))]

    def linear(terms: Mapping[int, int]) -> Any:
        chosen = [variables[at] for at in terms]
        return LinearExpression(constant=0, linear_coefs=list(terms.values()), linear_vars=chosen)

    def bounded(_: Any, at: int) -> Any:
        row: Row = program.rows[at]
        return linear(row.terms) == row.lower if row.lower == row.upper else (row.lower, linear(row.terms), row.upper)

    model.rows = pyo.Constraint(range(len(program.rows)), rule=bounded)
    terms = {} if goal is None else {at: weight >> shift for at, weight in goal.terms.items()}
    model.goal = pyo.Objective(expr=linear(terms) if terms else 0.0)
    return model


def _matrices(model: Any) -> tuple[Any, list[int]]:
    """Return a pyomo model as HiGHS's matrices, and the number of the variable that each matrix column is."""
    form = LinearStandardFormCompiler().write(model, mixed_form=True)
    kinds = np.array([kind for _, kind in form.rows])
    bounds = np.array([(0.0, variable.ub) for variable in form.columns]).reshape(-1, 2)
    lp = highspy.HighsLp()
    lp.num_col_, lp.num_row_ = len(form.columns), len(form.rows)
    lp.col_cost_ = form.c.toarray()[0]
    lp.col_lower_, lp.col_upper_ = bounds[:, 0], bounds[:, 1]
    lp.row_lower_ = np.where(kinds <= 0, form.rhs, -highspy.kHighsInf)
    lp.row_upper_ = np.where(kinds >= 0, form.rhs, highspy.kHighsInf)
    lp.a_matrix_.format_ = highspy.MatrixFormat.kColwise
    lp.a_matrix_.start_, lp.a_matrix_.index_, lp.a_matrix_.value_ = form.A.indptr, form.A.indices, form.A.data
    types = {True: highspy.HighsVarType.kInteger, False: highspy.HighsVarType.kContinuous}
    lp.integrality_ = [types[variable.is_integer()] for variable in form.columns]
    return lp, [variable.index() for variable in form.columns]


def _choices(model: LoweredModel) -> int:
    """Return how many ways the columns that no constraint reads leave open: a divisor of the number of designs."""
    read = {column for constraint in model.all_constraints() for column in constraint.columns}
    return math.prod(len(codes) for at, codes in enumerate(model.allowed[: model.designs]) if at not in read)


SOLVERS.register("milp")(Milp())
