"""Minimise or maximise an amount (cost, bandwidth, memory, headroom, the step itself): exact, with a proof.

Where the objective or a rule is on a simulated quantity, the simulator tabulates it over the columns that decide it,
and the solvers read the table.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction

import numpy as np

from cosmic_opt.analysis.simulated_table import (
    OutOfTimeError,
    SimulatedTable,
    choices_of,
    is_energy,
    is_rate,
    obeyed,
    simulate,
    simulated_rules,
    simulated_table,
    too_many_rows,
    work_of,
)
from cosmic_opt.analysis.starts import best_start, codes_of, refuse_foreign, sampled, why_passed_over
from cosmic_opt.catalog.bind import BoundInstance, bind
from cosmic_opt.catalog.edits import Edits
from cosmic_opt.catalog.instance_file import InstanceSpec
from cosmic_opt.errors import EngineDisagreement, SpecError, Where
from cosmic_opt.feasibility.feasible_set import feasible_set
from cosmic_opt.ir.check import check, recheck
from cosmic_opt.ir.lower import lower
from cosmic_opt.ir.model import LoweredModel
from cosmic_opt.ir.objective import LinearObjective, lower_objective
from cosmic_opt.psa.domain import Value
from cosmic_opt.psa.expr import Aggregate, Index, Name, Number, Operation, Syntax, children
from cosmic_opt.psa.model_file import Rule
from cosmic_opt.psa.parameter_set import DesignBatch
from cosmic_opt.psa.parse import error_at, parse_rule
from cosmic_opt.psa.quantity import SimulatedQuantity
from cosmic_opt.psa.term import LOGIC, RELATIONS, Apply, Simulated, Term
from cosmic_opt.search.budget import Budget
from cosmic_opt.search.objective import energy_of
from cosmic_opt.search.runnable import CannotRun, why_none, why_not
from cosmic_opt.solvers.base import (
    Codes,
    Limits,
    Solver,
    SolveResult,
    SolveStatus,
    StopReason,
    objective_values,
    proved_start,
)
from cosmic_opt.solvers.registry import choose_solver, load_solver
from cosmic_opt.solvers.ties import Tied, least_code
from cosmic_opt.units import MICROJOULES, TICKS_PER_SECOND, Unit

_WHY = "the objective of optimise"


@dataclass(frozen=True)
class Optimum:
    """The best design of an expression. `value` and `bound` are in base units of `unit`.

    They are whole numbers, except of a rate (throughput: samples per second) and of
    an energy (microjoules): fractions. No feasible design has a value
    better than `bound`, which is None when none exists, or when the time was over before a solver could be asked;
    `value` is None when none was found. `design` has one row, or none when nothing was found. `start` is the value of
    the design that the solver began with, and `table_rows` the size of the table that stood for the simulator.
    """

    expression: str
    maximise: bool
    unit: Unit
    solver: str | None
    """Which one was asked; None where the time was over before."""
    status: SolveStatus
    stop: StopReason
    design: DesignBatch
    value: int | Fraction | None
    bound: int | Fraction | None
    start: int | Fraction | None = None
    table_rows: int | None = None
    least_code: bool = False
    """Whether the design is the optimum of least code, whatever the solver; not known when the time ended before."""
    proved_by_start: bool = False
    """Whether the start has the best value of each column, so that no solver was asked for a better one."""
    passed_over: tuple[str, ...] = ()
    """Why given designs were not begun with."""
    cannot_run: CannotRun | None = None
    """Why the design has no step, though no rule forbids it; where there is none, why no design of the problem has."""

    @property
    def shown(self) -> float | None:
        """The value as the command prints it: seconds of a time, J of an energy, else in base units of `unit`."""
        scale = {Unit.TIME: TICKS_PER_SECOND, Unit.ENERGY: MICROJOULES}.get(self.unit, 1)
        return None if self.value is None else float(Fraction(self.value) / scale)

    @property
    def gap(self) -> float | None:
        """The distance from value to bound, relative to the value (absolute where that is 0)."""
        if self.value is None or self.bound is None:
            return None
        value, bound = Fraction(self.value), Fraction(self.bound)
        return float(abs(value - bound) / (abs(value) or 1))


def optimise(
    spec: InstanceSpec,
    edits: Edits,
    expression: str,
    *,
    maximise: bool = False,
    solver: str | None = None,
    time_limit_s: float | None = None,
    start: Iterable[Mapping[str, Value]] = (),
    seed: int = 0,
    cold: bool = False,
) -> Optimum:
    """Return the feasible design with the least (or greatest) value of `expression`, written as in a rule.

    Without `solver` the size of the problem chooses it. It begins with the best of a sample (drawn with `seed`), the
    instance's own design and the `start` designs (a value per column, base units); `cold`, with the latter alone. Those
    that break a rule or are not free here are passed over. The limit covers all of this; where it ends before what is
    simulated is a table, the status is UNKNOWN, without a bound.

    Raises:
        SpecError: the expression is no number, or the same everywhere, or calculates with a simulated quantity; a start
            that is no design of the model.
        LimitError: the numbers or tables are too large for the solver, or tried combinations too many.
    """
    where = Where("--maximise" if maximise else "--minimise")
    backend = None if solver is None else load_solver(solver)
    budget = Budget(seconds=time_limit_s)
    instance, term = _bind_expression(spec, edits, expression, where)
    try:
        question = _pose(instance, term, expression, where, budget, maximise=maximise)
    except OutOfTimeError:
        return _unanswered(instance, term, expression, maximise=maximise)
    chosen = backend or load_solver(choose_solver(question.model, question.objective))
    given, passed_over = _given(spec, edits, question, tuple(start))
    first, first_value = question.best_of(given if cold else question.candidates(given, seed))
    limits = Limits(seconds=time_limit_s, started=budget.started)
    result, tied, proved_by_start = _solved(question, chosen, first, limits)
    design = question.rechecked(result, tied.design, chosen.name)
    return Optimum(
        *(_shown_name(term, expression), maximise, term.unit, chosen.name, result.status, result.stop, design),
        value=question.shown(result.value),
        bound=question.shown(result.bound),
        start=question.shown(first_value),
        table_rows=None if question.table is None else len(question.table),
        least_code=tied.least,
        proved_by_start=proved_by_start,
        passed_over=passed_over,
        cannot_run=_idle(question, design, result.status, seed),
    )


def _shown_name(term: Term, expression: str) -> str:
    return term.name if isinstance(term, Simulated) else expression


def _idle(question: _Question, design: DesignBatch, status: SolveStatus, seed: int) -> CannotRun | None:
    """Return why a design has no step (each of a table has one), or why none of the problem has."""
    if len(design):
        return None if question.table is not None else why_not(question.instance, design)
    if status is not SolveStatus.INFEASIBLE or question.structural.infeasible:
        return None
    if question.table is None or question.table.some_run:
        return None
    return why_none(question.instance, feasible_set(question.structural), seed, none_runs=True)


def _unanswered(instance: BoundInstance, term: Term, expression: str, *, maximise: bool) -> Optimum:
    """Return that the time was over before what is simulated was a table, so that no solver was asked."""
    none = instance.parameter_set.batch(codes_of(instance.parameter_set, ()))
    name, unit = _shown_name(term, expression), term.unit
    return Optimum(name, maximise, unit, None, SolveStatus.UNKNOWN, StopReason.TIME, none, value=None, bound=None)


def _solved(question: _Question, solver: Solver, start: Codes | None, limits: Limits) -> tuple[SolveResult, Tied, bool]:
    """Return the result, its design (of proved ones that of least code), and whether the start alone proved the value.

    Raises:
        LimitError: the table is too large for the solver, and the start is no proof.
    """
    model, objective = question.model, question.objective
    proved = None if start is None else proved_start(model, objective, start)
    if proved is None:
        question.refuse_above(solver.table_rows, f"are read by {solver.name}")
    result = proved or solver.solve(model, objective, limits=limits, start=start)
    tied = Tied(result.codes, least=False)
    if result.status is SolveStatus.OPTIMAL and result.value is not None:
        tied = least_code(solver, model, objective, result.value, result.codes, limits=limits)
    return result, tied, proved is not None


def _given(
    spec: InstanceSpec, edits: Edits, question: _Question, start: Sequence[Mapping[str, Value]]
) -> tuple[Codes, tuple[str, ...]]:
    """Return the codes of the given designs that the problem has, and why it has not the others."""
    parameter_set = question.instance.parameter_set
    if start:
        free = tuple(sorted({column.parameter for column in parameter_set.columns}))
        wide = bind(spec, replace(edits, fix=(), free=free, require=(), without=()))
        refuse_foreign(parameter_set, wide.parameter_set, start)
    members, passed_over = [codes_of(parameter_set, ())], list[str]()
    for values in start:
        why = why_passed_over(parameter_set, values)
        codes = codes_of(parameter_set, [values] if why is None else [])
        if why is None and not check(question.model, codes).all():
            why = "no table of what is simulated has it: it breaks a rule on that, or cannot run"
        if why is not None:
            passed_over.append(why)
        else:
            members.append(codes)
    return np.concatenate(members), tuple(passed_over)


@dataclass(frozen=True)
class _Question:
    """The lowered problem and objective; `structural` is without the table.

    Where the objective is `simulated`, a solver sees the rank of its time among the different `ticks` of the table:
    only their order counts.
    """

    instance: BoundInstance
    structural: LoweredModel
    model: LoweredModel
    objective: LinearObjective
    table: SimulatedTable | None = None
    simulated: Simulated | None = None
    ticks: tuple[int, ...] = ()

    def refuse_above(self, limit: int, what: str) -> None:
        """Raise LimitError for a table with more rows."""
        if self.table is not None and len(self.table) > limit:
            raise too_many_rows(len(self.table), limit, what, choices_of(self.model, self.table.columns))

    def candidates(self, given: Codes, seed: int) -> Codes:
        """Return designs to begin with: given, the instance's own, a sample of the structural, one per table row."""
        own = codes_of(self.instance.parameter_set, [self.instance.baseline])
        known = [given, own, sampled(self.structural, seed)]
        return np.concatenate(known if self.table is None else [*known, self.table.designs])

    def best_of(self, given: Codes) -> tuple[Codes | None, int | None]:
        """Return the best feasible one of the given designs, as one row, and its value of the solver's objective."""
        first = None if self.model.infeasible else best_start(self.model, self.objective, given)
        if first is None:
            return None, None
        return first, int(objective_values(self.model, self.objective, first)[0])

    def shown(self, number: int | None) -> int | Fraction | None:
        """Return a number of the solver's objective as one of the expression."""
        return number if number is None or self.simulated is None else self._of_ticks(self.ticks[number])

    def _of_ticks(self, ticks: int) -> int | Fraction:
        assert self.simulated is not None, "only a time has ticks"
        parameter_set = self.instance.parameter_set
        if is_energy(self.simulated):
            return energy_of(ticks, parameter_set)
        return Fraction(work_of(parameter_set), ticks) if is_rate(self.simulated) else ticks

    def rechecked(self, result: SolveResult, codes: Codes, solver: str) -> DesignBatch:
        """Return the design of a result, checked without the solver: its rules, its value, its simulation.

        Raises:
            EngineDisagreement: the solver or the table said something else.
        """
        parameter_set = self.instance.parameter_set
        recheck(self.model, parameter_set, codes, solver)
        _recheck_value(self.model, self.objective, codes, result)
        design = parameter_set.batch(codes)
        self._recheck_simulated(design, self.shown(result.value))
        return design

    def _recheck_simulated(self, design: DesignBatch, value: int | Fraction | None) -> None:
        """Simulate the design; raise EngineDisagreement where the table said something else."""
        if self.table is None or not len(design):
            return
        times = simulate(self.instance, self.table.times.keys(), design)
        agreed = obeyed(simulated_rules(self.instance), design, times).all()
        if self.simulated is not None:
            agreed &= self._of_ticks(int(times[self.simulated.name][0])) == value
        if not agreed:
            raise EngineDisagreement(f"the table says otherwise than the simulator of {next(design.points())}: {times}")


def _pose(
    instance: BoundInstance, term: Term, expression: str, where: Where, budget: Budget, *, maximise: bool
) -> _Question:
    """Return the question to a solver.

    Raises:
        OutOfTimeError: the time was over before the table was full.
        SpecError: what is simulated is the same for every design.
        LimitError: a table too large.
    """
    parameter_set = instance.parameter_set
    structural = lower(parameter_set)
    simulated = term if isinstance(term, Simulated) else None
    if structural.infeasible:
        return _Question(instance, structural, structural, LinearObjective((), (), maximise))
    if simulated is None and not simulated_rules(instance):
        return _Question(instance, structural, *lower_objective(parameter_set, structural, term, maximise=maximise))
    table = simulated_table(instance, structural, None if simulated is None else simulated.name, budget)
    if simulated is None:
        lowered = lower_objective(parameter_set, table.allow(structural), term, maximise=maximise)
        return _Question(instance, structural, *lowered, table)
    if not table.columns and len(table):
        raise _same_everywhere(expression, where)
    model, column, ticks = table.define(structural, simulated.name)
    rate = is_rate(simulated)
    objective = LinearObjective((column,), (tuple(range(model.columns[column].size)),), maximise != rate)
    return _Question(instance, structural, model, objective, table, simulated, ticks)


def _recheck_value(model: LoweredModel, objective: LinearObjective, codes: Codes, result: SolveResult) -> None:
    """Raise EngineDisagreement unless the design has the value the backend reported, and the bound allows it."""
    values = objective_values(model, objective, codes).tolist()
    sign = -1 if objective.maximise else 1
    beyond = result.bound is not None and any(sign * value < sign * result.bound for value in values)
    if beyond or any(value != result.value for value in values):
        raise EngineDisagreement(f"value {values}, reported {result.value} with bound {result.bound}")


def _bind_expression(spec: InstanceSpec, edits: Edits, expression: str, where: Where) -> tuple[BoundInstance, Term]:
    """Return the bound instance and the expression's term.

    The expression is bound as the left side of a rule of the instance, so that names, units and the rules that a
    price implies are those of every other rule.
    """
    if not expression.strip():
        raise SpecError("the expression is empty", where=where, hint="write for example network_cost")
    syntax = parse_rule(expression, where)
    _refuse_simulated(bind(spec, edits), syntax, expression, where)
    compared = Operation(">=", (syntax, Number(0, Unit.NONE, syntax.at)), syntax.at)
    rule = Rule(where.file or "", expression, compared, _WHY, where)
    bound = bind(replace(spec, rules={**spec.rules, rule.name: rule}), edits)
    rules = bound.parameter_set.constraints
    (relation,) = (constraint.term for constraint in rules if constraint.name == rule.name)
    if not isinstance(relation, Apply):
        raise _same_everywhere(expression, where)
    term = relation.operands[0]
    condition = isinstance(term, Apply) and (term.operator in RELATIONS or term.operator in LOGIC)
    if condition and not (isinstance(syntax, Aggregate) and syntax.kind not in ("all", "any")):  # one condition counted
        raise SpecError(f"{expression!r} is a condition, not a number", where=where, hint="--require makes it a rule")
    others = tuple(constraint for constraint in rules if constraint.name != rule.name)
    return replace(bound, parameter_set=replace(bound.parameter_set, constraints=others)), term


def _refuse_simulated(instance: BoundInstance, syntax: Syntax, expression: str, where: Where) -> None:
    """Refuse what no solver can hold: arithmetic with simulated quantities, and categories."""
    names = {column.name: column for column in instance.parameter_set.columns}
    simulated = {n for n, q in instance.parameter_set.quantities.items() if isinstance(q, SimulatedQuantity)}
    for node in _nodes(syntax):
        if node is not syntax and isinstance(node, Name) and node.name in simulated:
            hint = f"optimise {node.name} alone, or make a product the --objective of solve"
            raise error_at(
                expression, node.at, f"{node.name!r} is simulated: no solver calculates with it", where, hint
            )
    if isinstance(syntax, Name | Index):
        column = names.get(expression.replace(" ", ""))
        if column is not None and isinstance(column.values[0], str):
            hint = f"count a category: count({column.name} == {column.values[0]})"
            raise error_at(expression, syntax.at, f"{column.name!r} is a category, not a number", where, hint)


def _same_everywhere(expression: str, where: Where) -> SpecError:
    return SpecError(f"{expression!r} is the same for every design", where=where, hint="name a free parameter")


def _nodes(syntax: Syntax) -> Iterator[Syntax]:
    yield syntax
    for child in children(syntax):
        yield from _nodes(child)
