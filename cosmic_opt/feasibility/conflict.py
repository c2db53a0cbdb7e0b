"""Why nothing is feasible: minimal sets of rules that together exclude every design.

All of them are found by alternating between two halves of the powerset (MARCO: Liffiton et al. 2016): an unexplored
set of rules is either satisfiable, and then grown until it is maximal, or not, and then shrunk until it is minimal;
everything it settles is crossed out.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, field, replace

from cosmic_opt.errors import LimitError
from cosmic_opt.feasibility.feasible_set import feasible_set
from cosmic_opt.ir.lower import lower
from cosmic_opt.ir.objective import LinearObjective
from cosmic_opt.psa.parameter_set import Constraint, ParameterSet
from cosmic_opt.solvers.base import Limits, SolveStatus
from cosmic_opt.solvers.registry import choose_solver, load_solver

Rules = frozenset[int]
NOTHING = LinearObjective((), ())
"""What a solver is to optimise when it is asked for any design."""


@dataclass(frozen=True, slots=True)
class Conflict:
    """Rules that no design obeys together; unless `minimal`, some of them may not be needed for that."""

    rules: tuple[Constraint, ...] = ()
    minimal: bool = True


@dataclass
class Oracle:
    """Tells whether some design satisfies a set of rules; remembers what it was asked.

    Asks the decision diagram, and where the rules are too entangled or their numbers too large for it, the solver that
    suits the size of both.
    """

    parameter_set: ParameterSet
    rules: Sequence[Constraint]
    known: dict[Rules, bool] = field(default_factory=dict)

    def satisfiable(self, chosen: Rules) -> bool:
        """Return the verdict on the rules at the given positions."""
        if chosen not in self.known:
            self.known[chosen] = self._ask(tuple(self.rules[position] for position in sorted(chosen)))
        return self.known[chosen]

    def _ask(self, rules: tuple[Constraint, ...]) -> bool:
        model = lower(replace(self.parameter_set, constraints=rules))
        try:
            return feasible_set(model).size > 0
        except LimitError:
            solver = load_solver(choose_solver(model, NOTHING))
            result = solver.solve(model, limits=Limits(seconds=60))
            if result.status is SolveStatus.UNKNOWN:
                raise
            return result.status is not SolveStatus.INFEASIBLE


def minimal_conflicts(parameter_set: ParameterSet, limit: int = 1) -> list[tuple[Constraint, ...]]:
    """Return up to `limit` minimal conflicts among the structural rules, smallest first; none if designs exist.

    Every conflict is unsatisfiable and each of its proper subsets is satisfiable (checked while shrinking).

    Raises:
        LimitError: no engine can decide a subset of the rules.
    """
    rules = [rule for rule in parameter_set.constraints if not rule.simulated]
    oracle = Oracle(parameter_set, rules)
    if oracle.satisfiable(frozenset(range(len(rules)))):
        return []
    found: list[Rules] = []
    for conflict in _conflicts(len(rules), oracle.satisfiable):
        found.append(conflict)
        if len(found) >= limit:
            break
    return [tuple(rules[position] for position in sorted(conflict)) for conflict in sorted(found, key=_by_size)]


def first_conflict(parameter_set: ParameterSet) -> Conflict:
    """Return one conflict of a problem that was proved to have no design.

    It is minimal unless some subset of the rules is too large to decide. Where the structural rules do allow designs,
    those on simulated quantities exclude them, and they are the answer.
    """
    try:
        conflicts = minimal_conflicts(parameter_set)
    except LimitError:
        return _smaller(parameter_set)
    if conflicts:
        return Conflict(conflicts[0])
    return Conflict(tuple(rule for rule in parameter_set.constraints if rule.simulated))


def _smaller(parameter_set: ParameterSet) -> Conflict:
    """Return what is left of the rules when each goes that the rest is known to do without, the last declared first.

    A model declares first what bounds the others (the world's size, memory): while these stay, the rest is small.
    """
    rules = [rule for rule in parameter_set.constraints if not rule.simulated]
    oracle, kept = Oracle(parameter_set, rules), frozenset(range(len(rules)))
    needed: set[int] = set()
    """Rules without which the rest, and so any part of it, is known to leave a design."""

    def satisfiable(chosen: Rules) -> bool | None:
        try:
            return not chosen or oracle.satisfiable(chosen)
        except LimitError:
            return None

    if satisfiable(kept) is not False:
        return Conflict(parameter_set.constraints, minimal=False)
    for rule in sorted(kept, reverse=True):
        match satisfiable(kept - {rule}):
            case False:
                kept -= {rule}
            case True:
                needed.add(rule)
    minimal = len(kept) == 1 or kept <= needed
    return Conflict(tuple(rules[position] for position in sorted(kept)), minimal)


def _by_size(conflict: Rules) -> tuple[int, list[int]]:
    return len(conflict), sorted(conflict)


def _conflicts(count: int, satisfiable: Callable[[Rules], bool]) -> Iterator[Rules]:
    """Yield every minimal unsatisfiable subset of `count` rules once."""
    everything = frozenset(range(count))
    needed: list[Rules] = []
    """Sets of which one member must be in: complements of maximal satisfiable sets."""
    crossed: list[Rules] = []
    """Sets that must not all be in: the conflicts found."""
    while (seed := _unexplored(everything, needed, crossed)) is not None:
        if satisfiable(seed):
            for rule in sorted(everything - seed):
                if satisfiable(seed | {rule}):
                    seed |= {rule}
            needed.append(everything - seed)
        else:
            conflict = shrink(seed, satisfiable)
            crossed.append(conflict)
            yield conflict


def shrink(conflict: Rules, satisfiable: Callable[[Rules], bool]) -> Rules:
    """Return a minimal unsatisfiable subset: drop each rule the rest does without."""
    for rule in sorted(conflict):
        if not satisfiable(conflict - {rule}):
            conflict -= {rule}
    return conflict


def _unexplored(everything: Rules, needed: Collection[Rules], crossed: Collection[Rules]) -> Rules | None:
    """Return a large set that leaves out a rule of every crossed set and keeps one of every needed set."""

    def leave_out(out: Rules, left: Sequence[Rules]) -> Rules | None:
        if any(need <= out for need in needed):
            return None
        if not left:
            return everything - out
        first, *rest = left
        if first & out:
            return leave_out(out, rest)
        tried = (leave_out(out | {rule}, rest) for rule in sorted(first))
        return next((found for found in tried if found is not None), None)

    return leave_out(frozenset(), list(crossed))
