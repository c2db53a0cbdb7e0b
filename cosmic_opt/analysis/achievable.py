"""Rules on simulated quantities: the best that any design achieves, and the numbers that the rules would then need."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from fractions import Fraction

from cosmic_opt.analysis.change import Change, Drop, Relaxation, Renumber
from cosmic_opt.analysis.relaxed_problem import Costs
from cosmic_opt.analysis.rule_numbers import Atom, NumberSide, changeable_atoms
from cosmic_opt.analysis.violations import Side, Violation
from cosmic_opt.catalog.bind import BoundInstance
from cosmic_opt.catalog.job_kinds import ENERGY, RATES
from cosmic_opt.psa.parameter_set import Constraint, DesignBatch, ParameterSet
from cosmic_opt.psa.term import Apply, Constant, Simulated, Term, show
from cosmic_opt.search.budget import Budget
from cosmic_opt.search.limits import step_limit
from cosmic_opt.search.metric_limits import metric_limits
from cosmic_opt.search.objective import energy_of, objective_of, samples_of
from cosmic_opt.search.outcome import Outcome
from cosmic_opt.search.score import kernel_columns, simulator_of
from cosmic_opt.search.solve import solve
from cosmic_opt.simulation.calibrated.serving_simulator import ServingSimulator
from cosmic_opt.solvers.base import SolveStatus
from cosmic_opt.units import TICKS_PER_SECOND

_SWAPPED = {"<=": ">=", "<": ">", ">=": "<=", ">": "<"}


@dataclass(frozen=True)
class BestStep:
    """The shortest step of any design that the structural rules allow, and the rules that not even it obeys.

    Where the search proved that none of these designs can run, `outcome.cannot_run` says why.
    """

    outcome: Outcome
    broken: tuple[Constraint, ...]
    feasible: bool | None
    """Whether some design obeys every rule; None when the search stopped before that was known."""
    achievable: Mapping[str, Outcome]
    """The same answer as the best of each quantity with a rule on it: a training step has one time, which gives all."""


def best_step(instance: BoundInstance, seed: int, time_limit_s: float) -> BestStep:
    """Return the best achievable step.

    Raises:
        SpecError: a rule on a simulated quantity that is not a limit on the step.
        LimitError: too many structural combinations to prove anything.
    """
    parameter_set = instance.parameter_set
    limit_ticks = step_limit(parameter_set)
    structural = tuple(rule for rule in parameter_set.constraints if not rule.simulated)
    alone = replace(instance, parameter_set=replace(parameter_set, constraints=structural), objective="step_time")
    outcome = solve(alone, seed=seed, budget=Budget(seconds=time_limit_s))
    out_of_reach = tuple(
        rule
        for rule in parameter_set.constraints
        if rule.simulated and outcome.bound is not None and outcome.bound > _own_limit(parameter_set, rule)
    )
    feasible: bool | None = None
    if outcome.value is not None and outcome.value <= limit_ticks:
        feasible = True
    elif out_of_reach or outcome.status is SolveStatus.INFEASIBLE:
        feasible = False
    names = metric_limits(parameter_set)
    achievable = {name: replace(outcome, objective=objective_of(name, parameter_set)) for name in names}
    return BestStep(outcome, out_of_reach, feasible, achievable)


def _own_limit(parameter_set: ParameterSet, rule: Constraint) -> int:
    return step_limit(replace(parameter_set, constraints=(rule,)))


def too_slow(instance: BoundInstance, design: DesignBatch) -> list[Violation]:
    """Return the relations on simulated quantities that one design, which obeys the structural rules, breaks.

    Raises:
        SpecError: a rule on a simulated quantity that is not a limit on the step.
    """
    parameter_set = instance.parameter_set
    found = []
    for rule in instance.parameter_set.constraints:
        terms = rule.term.operands if isinstance(rule.term, Apply) and rule.term.operator == "and" else (rule.term,)
        for term in terms if rule.simulated else ():
            assert isinstance(term, Apply), "a limit on the step is a relation"
            limits = metric_limits(replace(parameter_set, constraints=(replace(rule, term=term),)))
            ((name, limit),) = limits.items()
            ticks = _ticks(instance, design, name)
            if ticks > limit:
                left, right = (_side(operand, ticks, parameter_set) for operand in term.operands)
                found.append(Violation(rule.name, rule.text, rule.where, rule.why, left, term.operator, right))
    return found


def _ticks(instance: BoundInstance, design: DesignBatch, name: str) -> int:
    """Return the ticks of a simulated quantity; a training step has one time."""
    simulator, columns = simulator_of(instance), kernel_columns(design)
    if isinstance(simulator, ServingSimulator):
        return int(simulator.ticks_of(columns, name)[0])
    return int(simulator.evaluate(columns).step_ticks[0])


def _side(term: Term, ticks: int, parameter_set: ParameterSet) -> Side:
    if isinstance(term, Simulated):
        value = simulated_value(term.name, ticks, parameter_set)
        return Side(term.name, int(value) if value.denominator == 1 else float(value), term.unit)
    assert isinstance(term, Constant), "a limit on the step compares with a number"
    return Side(show(term), term.value, term.unit)


def simulated_value(name: str, ticks: int, parameter_set: ParameterSet) -> Fraction:
    """Return a simulated time (ticks), or a rate (samples per second) or energy (microjoules) of so long a time."""
    if name == ENERGY.name:
        return energy_of(ticks, parameter_set)
    return Fraction(samples_of(parameter_set) * TICKS_PER_SECOND, ticks) if name in RATES else Fraction(ticks)


def step_relaxations(best: BestStep, parameter_set: ParameterSet, costs: Costs) -> list[Relaxation]:
    """Return how to let the best design in, cheapest first: the broken rules' numbers changed, or the rules dropped.

    `proved` says that no design has a shorter step, so that no smaller change of these rules alone is enough.
    """
    if not best.broken or best.outcome.value is None:
        return []
    design = next(best.outcome.design.points())
    proved = best.outcome.status is SolveStatus.OPTIMAL
    found = [Relaxation(tuple(map(Drop, best.broken)), costs.drop * len(best.broken), design, proved)]
    changed = [changed_numbers(rule, best.outcome.value, parameter_set) for rule in best.broken]
    if all(changes for changes, _ in changed):
        every = tuple(change for changes, _ in changed for change in changes)
        found.append(Relaxation(every, sum((cost for _, cost in changed), Fraction(0)), design, proved))
    return sorted(found, key=lambda relaxation: relaxation.cost)


def changed_numbers(rule: Constraint, ticks: int, parameter_set: ParameterSet) -> tuple[list[Change], Fraction]:
    """Return the changes of the rule's literals that a time of `ticks` needs, and their cost; none when it has none."""
    changes: list[Change] = []
    cost = Fraction(0)
    for atom in changeable_atoms(rule, {}, {}):
        change = _needed(atom, ticks, parameter_set)
        if change is not None and change.new != change.number.value:
            changes.append(change)
            cost += Fraction(abs(change.new - change.number.value), abs(change.number.value))
    return changes, cost


def _needed(atom: Atom, ticks: int, parameter_set: ParameterSet) -> Renumber | None:
    """Return the number nearest to the rule's own for which the relation holds at a time of `ticks`."""
    (left, right), operator = atom.sides, atom.operator
    if isinstance(right, Simulated):
        left, right, operator = right, left, _SWAPPED[operator]
    if not isinstance(left, Simulated) or not isinstance(right, NumberSide):
        return None
    number = right.number
    bound = simulated_value(left.name, ticks, parameter_set) / right.coefficient
    operator = operator if right.coefficient > 0 else _SWAPPED[operator]
    if operator in (">", ">="):  # the number may be at most the bound
        return Renumber(number, min(number.value, math.floor(bound) if operator == ">=" else math.ceil(bound) - 1))
    return Renumber(number, max(number.value, math.ceil(bound) if operator == "<=" else math.floor(bound) + 1))
