"""The CP-SAT backend (OR-tools). The only file that imports ortools."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np
from ortools.sat.python import cp_model

from cosmic_opt.errors import LimitError
from cosmic_opt.ir.check import complete
from cosmic_opt.ir.model import Conditional, Constraint, Linear, LoweredModel, Origin, Product, Table, Weights
from cosmic_opt.ir.objective import LinearObjective
from cosmic_opt.ir.passes.alike import Alike
from cosmic_opt.solvers.base import (
    CP_SAT_RANGE,
    SOLVERS,
    TABLE_ROWS,
    Capability,
    Codes,
    Limits,
    SolveResult,
    SolveStatus,
    StopReason,
    settle,
)
from cosmic_opt.solvers.interrupt import interruptible


class CpSat:
    """Codes are integer variables; weights are read through element constraints, so every helper is determined."""

    name = "cp_sat"
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
        """Return a feasible design, or an optimal one with its bound; one worker and a fixed seed."""
        result = self._solve(model, objective, limits, start)
        return result if objective is None else settle(result, model, objective, start, self.name)

    @staticmethod
    def _solve(
        model: LoweredModel, objective: LinearObjective | None, limits: Limits, start: Codes | None
    ) -> SolveResult:
        if model.infeasible:
            return SolveResult.infeasible(model)
        encoding = _Encoding(model)
        if objective is not None:
            encoding.set_objective(objective)
        if start is not None:
            encoding.begin_with(complete(model, start)[0][0].tolist())
        solver = _solver(limits)
        bounds: list[float] = []
        solver.best_bound_callback = bounds.append
        status = interruptible(lambda: solver.solve(encoding.cp), solver.stop_search)
        if status == cp_model.INFEASIBLE:
            return SolveResult.infeasible(model)
        inner = int(solver.response_proto.inner_objective_lower_bound)
        bound = None
        if objective is not None and (bounds or status == cp_model.OPTIMAL):  # else 0, of which nothing is proved
            bound = objective.constant + (-inner if objective.maximise else inner)
        if status == cp_model.UNKNOWN:
            return SolveResult.out_of_time(model, bound)
        assert status in (cp_model.OPTIMAL, cp_model.FEASIBLE), solver.status_name(status)
        point = np.array([[solver.value(v) for v in encoding.codes[: model.designs]]], dtype=np.int32)
        if objective is None:
            return SolveResult(SolveStatus.FEASIBLE, StopReason.PROVED, point)
        pairs = zip(objective.columns, objective.weights, strict=True)
        value = sum(weights[solver.value(encoding.codes[column])] for column, weights in pairs)
        proved = status == cp_model.OPTIMAL
        return SolveResult(
            SolveStatus.OPTIMAL if proved else SolveStatus.FEASIBLE,
            StopReason.PROVED if proved else StopReason.TIME,
            point,
            value + objective.constant,
            bound,
        )

    def enumerate(self, model: LoweredModel, *, limits: Limits) -> Iterator[Codes]:
        """Yield every feasible design once; of designs that no constraint tells apart CP-SAT finds one.

        Raises:
            LimitError: the time limit came first.
        """
        if model.infeasible:
            return
        alike = Alike.of(model)
        if alike.model.infeasible:
            return
        encoding = _Encoding(alike.model)
        solver = _solver(limits)
        solver.parameters.enumerate_all_solutions = True
        collector = _Collector(encoding.codes[: model.designs], limits.solutions)
        status = interruptible(lambda: solver.solve(encoding.cp, collector), solver.stop_search)
        assert status != cp_model.MODEL_INVALID, encoding.cp.validate()
        if status == cp_model.UNKNOWN or (status == cp_model.FEASIBLE and not collector.full):
            raise LimitError("CP-SAT ran out of time before listing every design")
        found = np.array(collector.points, dtype=np.int32).reshape(len(collector.points), model.designs)
        left = limits.solutions
        for designs in alike.members(found):
            if limits.out_of_time():
                raise LimitError("CP-SAT ran out of time before listing every design")
            yield designs[:left]
            left = None if left is None else left - len(designs)
            if left is not None and left <= 0:
                return


class _Collector(cp_model.CpSolverSolutionCallback):
    def __init__(self, variables: list[Any], limit: int | None) -> None:
        super().__init__()
        self.variables = variables
        self.limit = limit
        self.points: list[list[int]] = []

    @property
    def full(self) -> bool:
        return self.limit is not None and len(self.points) >= self.limit

    def on_solution_callback(self) -> None:
        """Keep the point; stop at the limit."""
        if self.full:
            self.stop_search()
            return
        self.points.append([self.value(variable) for variable in self.variables])
        if self.full:
            self.stop_search()


def _solver(limits: Limits) -> cp_model.CpSolver:
    solver = cp_model.CpSolver()
    solver.parameters.num_workers = 1
    solver.parameters.random_seed = 0
    solver.parameters.catch_sigint_signal = False  # it would reset Python's own handler
    remaining_s = limits.remaining_s()
    if remaining_s is not None:
        solver.parameters.max_time_in_seconds = remaining_s
    return solver


class _Encoding:
    """A lowered model as a CP-SAT model."""

    def __init__(self, model: LoweredModel) -> None:
        self.cp = cp_model.CpModel()
        self.codes = [
            self.cp.new_int_var_from_domain(cp_model.Domain.from_values([int(c) for c in allowed]), column.name)
            for column, allowed in zip(model.columns, model.allowed, strict=True)
        ]
        self.sizes = [column.size for column in model.columns]
        self.views: dict[tuple[int, tuple[int, ...]], Any] = {}
        self.guards: dict[int, Any] = {}
        self.products: list[tuple[Any, tuple[int, ...], Weights]] = []
        for constraint in model.all_constraints():
            self.add(constraint, [])

    def set_objective(self, objective: LinearObjective) -> None:
        """Minimise or maximise the weighted sum."""
        _check_sum(objective.weights, "the objective", None)
        pairs = zip(objective.columns, objective.weights, strict=True)
        total = sum((self.view(column, weights) for column, weights in pairs), start=0)
        if objective.maximise:
            self.cp.maximize(total)
        else:
            self.cp.minimize(total)

    def begin_with(self, codes: list[int]) -> None:
        """Hint a design (the codes of all columns), and every other variable as it follows from them."""
        for variable, code in zip(self.codes, codes, strict=True):
            self.cp.add_hint(variable, code)
        for (column, weights), variable in self.views.items():
            self.cp.add_hint(variable, weights[codes[column]])
        for column, literal in self.guards.items():
            self.cp.add_hint(literal, codes[column] == 1)
        for variable, columns, factors in self.products:
            pairs = zip(columns, factors, strict=True)
            self.cp.add_hint(variable, math.prod(row[codes[column]] for column, row in pairs))

    def view(self, column: int, weights: tuple[int, ...]) -> Any:
        """Return an expression equal to the weight of the column's code."""
        if weights == tuple(range(len(weights))):
            return self.codes[column]
        key = column, weights
        if key not in self.views:
            variable = self.cp.new_int_var_from_domain(cp_model.Domain.from_values(sorted(set(weights))), "")
            self.cp.add_element(self.codes[column], list(weights), variable)
            self.views[key] = variable
        return self.views[key]

    def add(self, constraint: Constraint, only_if: list[Any]) -> None:
        match constraint:
            case Conditional(column, body, _):
                self.add(body, [self.guard(column)])
            case Table(columns, rows, _):
                self.add_table(columns, rows.tolist(), only_if)
            case Linear(columns, weights, lower, upper, origin):
                _check_sum(weights, f"rule {origin.name!r}", origin)
                pairs = zip(columns, weights, strict=True)
                total = sum((self.view(column, row) for column, row in pairs), start=0)
                self.bound(total, lower, upper, only_if)
            case Product(columns, factors, lower, upper, origin):
                self.bound(self.product(columns, factors, origin), lower, upper, only_if)

    def guard(self, column: int) -> Any:
        """Return a literal that is true exactly when the column's code is 1."""
        if column not in self.guards:
            literal = self.cp.new_bool_var("")
            self.cp.add(self.codes[column] == 1).only_enforce_if(literal)
            self.cp.add(self.codes[column] != 1).only_enforce_if(~literal)
            self.guards[column] = literal
        return self.guards[column]

    def add_table(self, columns: tuple[int, ...], rows: list[list[int]], only_if: list[Any]) -> None:
        if not rows or not columns:
            if not rows:
                self.cp.add_bool_or([~literal for literal in only_if])
            return
        variables = [self.codes[column] for column in columns]
        self.cp.add_allowed_assignments(variables, rows).only_enforce_if(only_if)

    def bound(self, total: Any, lower: int | None, upper: int | None, only_if: list[Any]) -> None:
        low = -CP_SAT_RANGE if lower is None else min(max(lower, -CP_SAT_RANGE), CP_SAT_RANGE + 1)
        high = CP_SAT_RANGE if upper is None else max(min(upper, CP_SAT_RANGE), -CP_SAT_RANGE - 1)
        if isinstance(total, int):
            if not low <= total <= high:
                self.add_table((0,), [], only_if)
            return
        self.cp.add_linear_constraint(total, low, high).only_enforce_if(only_if)

    def product(self, columns: tuple[int, ...], factors: Weights, origin: Origin) -> Any:
        """Return a variable equal to the product, built pairwise."""
        total: Any = 1
        high = 1
        for at, (column, row) in enumerate(zip(columns, factors, strict=True), 1):
            factor = self.view(column, row)
            high *= max(row)
            if high > CP_SAT_RANGE:
                raise _too_large(f"the product of rule {origin.name!r}", origin)
            if isinstance(total, int):
                total = factor
                continue
            joined = self.cp.new_int_var(0, high, "")
            self.cp.add_multiplication_equality(joined, [total, factor])
            self.products.append((joined, columns[:at], factors[:at]))
            total = joined
        return total


def _check_sum(weights: Weights, what: str, origin: Origin | None) -> None:
    """Refuse a sum whose size may pass what CP-SAT can hold."""
    if sum(max(map(abs, row), default=0) for row in weights) > CP_SAT_RANGE:
        raise _too_large(what, origin)


def _too_large(what: str, origin: Origin | None) -> LimitError:
    return LimitError(
        f"{what} passes 2^60, too large for CP-SAT",
        where=origin.where if origin else None,
        hint="use another solver, or a larger unit",
    )


SOLVERS.register("cp_sat")(CpSat())
