"""Minimise or maximise a structural amount (cost, bandwidth, memory, headroom): exact, with a proof."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from cosmic_opt.catalog.bind import BoundInstance, bind
from cosmic_opt.catalog.edits import Edits
from cosmic_opt.catalog.instance_file import InstanceSpec
from cosmic_opt.catalog.job_kinds import SIMULATED
from cosmic_opt.errors import EngineDisagreement, SpecError, Where
from cosmic_opt.ir.check import recheck
from cosmic_opt.ir.lower import lower
from cosmic_opt.ir.model import LoweredModel
from cosmic_opt.ir.objective import LinearObjective, lower_objective
from cosmic_opt.psa.expr import Index, Name, Number, Operation, Syntax, children
from cosmic_opt.psa.model_file import Rule
from cosmic_opt.psa.parameter_set import DesignBatch
from cosmic_opt.psa.parse import error_at, parse_rule
from cosmic_opt.psa.term import LOGIC, RELATIONS, Apply, Term
from cosmic_opt.solvers.base import Codes, Limits, SolveResult, SolveStatus, StopReason, objective_values
from cosmic_opt.solvers.registry import choose_solver, load_solver
from cosmic_opt.solvers.ties import least_code
from cosmic_opt.units import Unit

_WHY = "the objective of optimise"


@dataclass(frozen=True)
class Optimum:
    """The best design of an expression. `value` and `bound` are in base units of `unit`.

    No feasible design has a value better than `bound`; None stands for no value or no bound. `design` has one row,
    or none when nothing was found; among optima it is the one with the least code.
    """

    expression: str
    maximise: bool
    unit: Unit
    solver: str
    status: SolveStatus
    stop: StopReason
    design: DesignBatch
    value: int | None
    bound: int | None

    @property
    def gap(self) -> float | None:
        """The distance from value to bound, relative to the value (to 1 where that is larger)."""
        if self.value is None or self.bound is None:
            return None
        return abs(self.value - self.bound) / max(1, abs(self.value))


def optimise(
    spec: InstanceSpec,
    edits: Edits,
    expression: str,
    *,
    maximise: bool = False,
    solver: str | None = None,
    time_limit_s: float | None = None,
) -> Optimum:
    """Return the feasible design with the least (or greatest) value of `expression`, written as in a rule.

    Without `solver` the size of the problem chooses it. The limit covers the solver's run, not the lowering.

    Raises:
        SpecError: the expression is no number, is the same everywhere or needs a simulator; or so does a rule.
        LimitError: the numbers or tables are too large for the solver, or tried combinations too many.
    """
    where = Where("--maximise" if maximise else "--minimise")
    backend = None if solver is None else load_solver(solver)
    instance, term = _bind_expression(spec, edits, expression, where)
    parameter_set = instance.parameter_set
    model, objective = lower_objective(parameter_set, lower(parameter_set), term, maximise=maximise)
    chosen = backend or load_solver(choose_solver(model, objective))
    limits = Limits(seconds=time_limit_s)
    result = chosen.solve(model, objective, limits=limits)
    codes = result.codes
    if result.status is SolveStatus.OPTIMAL and result.value is not None:
        codes = least_code(chosen, model, objective, result.value, codes, limits=limits)
    recheck(model, parameter_set, codes, chosen.name)
    _recheck_value(model, objective, codes, result)
    design = parameter_set.batch(codes)
    return Optimum(
        expression, maximise, term.unit, chosen.name, result.status, result.stop, design, result.value, result.bound
    )


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
        raise SpecError(f"{expression!r} is the same for every design", where=where, hint="name a free parameter")
    term = relation.operands[0]
    if isinstance(term, Apply) and (term.operator in RELATIONS or term.operator in LOGIC):
        raise SpecError(f"{expression!r} is a condition, not a number", where=where, hint="--require makes it a rule")
    others = tuple(constraint for constraint in rules if constraint.name != rule.name)
    return replace(bound, parameter_set=replace(bound.parameter_set, constraints=others)), term


def _refuse_simulated(instance: BoundInstance, syntax: Syntax, expression: str, where: Where) -> None:
    """Refuse what no solver can hold: simulated quantities, here or in a rule, and categories."""
    names = {column.name: column for column in instance.parameter_set.columns}
    for node in _nodes(syntax):
        if isinstance(node, Name) and node.name in SIMULATED:
            hint = f"cosmic-opt solve --objective {node.name} optimises it"
            raise error_at(expression, node.at, f"{node.name!r} is simulated, not structural", where, hint)
    if isinstance(syntax, Name | Index):
        column = names.get(expression.replace(" ", ""))
        if column is not None and isinstance(column.values[0], str):
            hint = f"count a category: count({column.name} == {column.values[0]})"
            raise error_at(expression, syntax.at, f"{column.name!r} is a category, not a number", where, hint)
    for rule in instance.parameter_set.constraints:
        if rule.simulated:
            raise SpecError(
                f"the rule {rule.name!r} needs a simulator, which optimise does not run: {rule.text}",
                where=rule.where,
                hint=f"leave it out with --without {rule.name}, or use solve",
            )


def _nodes(syntax: Syntax) -> Iterator[Syntax]:
    yield syntax
    for child in children(syntax):
        yield from _nodes(child)
