"""Rules on the times and rates of a served model: which exclude each other, and the least that one of them must give.

Every design is scored, so each question below has an exact answer: a problem without some of the rules is solved.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace

from cosmic_opt.analysis.achievable import changed_numbers
from cosmic_opt.analysis.change import Drop, Relaxation
from cosmic_opt.analysis.relaxed_problem import Costs
from cosmic_opt.catalog.bind import BoundInstance
from cosmic_opt.psa.parameter_set import Constraint
from cosmic_opt.search.budget import Budget
from cosmic_opt.search.metric_limits import metric_limits
from cosmic_opt.search.outcome import Outcome
from cosmic_opt.search.runnable import CannotRun
from cosmic_opt.search.solve import solve
from cosmic_opt.solvers.base import SolveStatus


@dataclass(frozen=True)
class ServedLimits:
    """What the rules on simulated quantities do together.

    Attributes:
        feasible: Whether some design obeys every rule; None when that was not found out in time.
        conflicts: Minimal sets of rules that no design obeys together: each single one, or one of several.
        relaxations: Ways to let a design in, cheapest first.
        best: The best of each quantity that any design achieves without these rules.
        cannot_run: Why no design can run, where that is proved whatever these rules say.
    """

    feasible: bool | None
    conflicts: tuple[tuple[Constraint, ...], ...]
    relaxations: tuple[Relaxation, ...]
    best: Mapping[str, Outcome]
    cannot_run: CannotRun | None = None


def served_limits(instance: BoundInstance, costs: Costs, seed: int, time_limit_s: float) -> ServedLimits:
    """Return how the rules on simulated quantities stand to each other once the structural ones hold.

    Raises:
        SpecError: one of them is no limit on a simulated time or rate.
    """
    rules = [rule for rule in instance.parameter_set.constraints if rule.simulated]
    search = _Search(instance, seed, time_limit_s)
    names = metric_limits(instance.parameter_set)
    best = {name: search.solve((), name) for name in names}
    idle = next((each.cannot_run for each in best.values() if each.status is SolveStatus.INFEASIBLE), None)
    if idle is not None:
        return ServedLimits(False, (), (), best, idle)
    whole = search.solve(rules, instance.objective)
    if whole.status is not SolveStatus.INFEASIBLE:
        return ServedLimits(None if whole.value is None else True, (), (), best)
    conflicts = search.conflicts(rules)
    involved = [rule for rule in rules if any(rule in conflict for conflict in conflicts)]
    found = [way for rule in involved for way in search.without(rule, rules, costs)]
    if not found:
        outcome = search.solve([rule for rule in rules if rule not in involved], instance.objective)
        if outcome.value is not None:
            cost = costs.drop * len(involved)
            found = [Relaxation(tuple(map(Drop, involved)), cost, next(outcome.design.points()), proved=False)]
    return ServedLimits(False, conflicts, tuple(sorted(found, key=lambda way: way.cost)), best)


@dataclass(frozen=True)
class _Search:
    instance: BoundInstance
    seed: int
    time_limit_s: float

    def solve(self, kept: Collection[Constraint], objective: str) -> Outcome:
        """Return the best design under the structural rules and the kept ones."""
        parameter_set = self.instance.parameter_set
        rules = tuple(rule for rule in parameter_set.constraints if not rule.simulated or rule in kept)
        alone = replace(self.instance, parameter_set=replace(parameter_set, constraints=rules), objective=objective)
        return solve(alone, seed=self.seed, budget=Budget(seconds=self.time_limit_s))

    def excludes(self, rules: Collection[Constraint]) -> bool:
        """Tell whether some rules are proved to leave no design."""
        return self.solve(rules, self.instance.objective).status is SolveStatus.INFEASIBLE

    def conflicts(self, rules: list[Constraint]) -> tuple[tuple[Constraint, ...], ...]:
        """Return every rule that excludes all designs alone, else one minimal set: no rule of it can go."""
        alone = tuple((rule,) for rule in rules if self.excludes([rule]))
        if alone:
            return alone
        kept = list(rules)
        for rule in rules:
            others = [other for other in kept if other is not rule]
            if self.excludes(others):
                kept = others
        return (tuple(kept),)

    def without(self, rule: Constraint, rules: list[Constraint], costs: Costs) -> list[Relaxation]:
        """Return what one rule must give while the others hold: its number, or all of it."""
        others = [other for other in rules if other is not rule]
        names = metric_limits(replace(self.instance.parameter_set, constraints=(rule,)))
        outcome = self.solve(others, next(iter(names)))
        if outcome.value is None:
            return []
        design = next(outcome.design.points())
        proved = outcome.status is SolveStatus.OPTIMAL
        found = [Relaxation((Drop(rule),), costs.drop, design, proved)]
        if len(names) == 1:
            changes, cost = changed_numbers(rule, outcome.value, self.instance.parameter_set)
            if changes:
                found.append(Relaxation(tuple(changes), cost, design, proved))
        return found
