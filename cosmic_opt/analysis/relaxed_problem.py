"""The relaxed problem: an ordinary parameter set whose extra columns say which numbers change, and by how much.

A design of it is a design over the model's whole domains, together with numbers under which it breaks no rule. Its
cost is a sum over columns, so that the cheapest change is an ordinary optimum, with a proof.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction

from cosmic_opt.analysis.rule_numbers import LARGEST, Atom, NumberSide, RuleNumber, changeable_atoms, settled_numbers
from cosmic_opt.ir.objective import LinearObjective
from cosmic_opt.psa.domain import Value
from cosmic_opt.psa.parameter_set import Column, Constraint, ParameterSet
from cosmic_opt.psa.term import Apply, Constant, QuantityPart, Term
from cosmic_opt.units import Unit

MOST_CHANGE = 1000
"""A number changes by at most so many times itself."""
BASE = 64
"""A change of a number is written in digits of this base, one column each: enough values for any, few per column."""


@dataclass(frozen=True, slots=True)
class Costs:
    """What a change costs: a dropped rule, an added value of a parameter; a number costs its relative change."""

    drop: Fraction = Fraction(10)
    value: Fraction = Fraction(1)


@dataclass(frozen=True)
class Relaxable:
    """A problem and what may be changed in it.

    `wide` is `own`, the problem itself, over the model's whole domains: same columns, same rules in the same order.
    `data` are numbers that may change, with unit and range [low, high]. A rule of `implied` goes by itself once all
    the rules that it is mapped to are dropped. Rules called `enforced` stand whatever is changed, and so do those
    conjuncts of a rule that `ties` counts, from 0: the rule is not dropped, and only other numbers of it change.
    """

    own: ParameterSet
    wide: ParameterSet
    data: Mapping[str, tuple[Unit, int, int]] = field(default_factory=dict)
    implied: Mapping[str, frozenset[str]] = field(default_factory=dict)
    enforced: frozenset[str] = frozenset()
    ties: Mapping[str, tuple[int, ...]] = field(default_factory=dict)

    @property
    def rules(self) -> tuple[Constraint, ...]:
        """The rules that can be relaxed: those a solver can read."""
        return tuple(r for r in self.wide.constraints if not r.simulated and r.name not in self.enforced)

    @property
    def droppable(self) -> tuple[Constraint, ...]:
        """The rules that can be left out."""
        return tuple(rule for rule in self.rules if rule.name not in self.ties)

    def without(self, dropped: Collection[str]) -> Relaxable:
        """Return the problem without the named rules, those they imply and those on simulated quantities."""
        gone = {*dropped, *(name for name, hosts in self.implied.items() if hosts and hosts <= set(dropped))}
        kept = {*self.enforced, *(rule.name for rule in self.rules if rule.name not in gone)}
        own, wide = (
            replace(part, constraints=tuple(rule for rule in part.constraints if rule.name in kept))
            for part in (self.own, self.wide)
        )
        return replace(self, own=own, wide=wide)


@dataclass(frozen=True)
class Slack:
    """How a number may move: columns that are the digits of what is added and what is taken away."""

    number: RuleNumber
    changed: Column
    up: tuple[Column, ...]
    down: tuple[Column, ...]
    most: tuple[int, int]
    """The largest changes up and down."""

    def moved(self, coefficient: int) -> list[Term]:
        """Return the terms that add `coefficient` times the change."""
        return [
            Apply("*", (Constant(coefficient * sign * BASE**at), digit.term))
            for sign, digits in ((1, self.up), (-1, self.down))
            for at, digit in enumerate(digits)
        ]

    def change(self, point: Mapping[str, Value]) -> int:
        """Return how far the number moves in a design of the relaxed problem."""
        return sum(
            sign * BASE**at * int(point[digit.name])
            for sign, digits in ((1, self.up), (-1, self.down))
            for at, digit in enumerate(digits)
        )


@dataclass(frozen=True)
class RelaxedProblem:
    """The relaxed parameter set, and what its extra columns mean.

    The objective is the cost times `scale`, which is whole, plus the number of changes, which breaks ties.
    """

    parameter_set: ParameterSet
    objective: LinearObjective
    scale: int
    slacks: tuple[Slack, ...]
    most_changes: int

    def cost_of(self, value: int) -> Fraction:
        """Return the cost of designs with an objective of at least `value`: a lower bound."""
        step = 1 + self.most_changes
        return Fraction(max(0, value) // step * step, self.scale)


def relax(relaxable: Relaxable, costs: Costs, *, worth: bool) -> RelaxedProblem:
    """Return the relaxed problem: every rule stays, with other numbers; parameters take other values of the model.

    With `worth` no number changes by more than dropping the rules that use it would cost: the problem is smaller.
    """
    wide = relaxable.wide
    atoms = atoms_of(relaxable)
    slacks = slacks_of(atoms, relaxable, costs, worth=worth)
    rules = [part for rule in wide.constraints for part in _relaxed_rule(rule, atoms.get(rule.name, ()), slacks)]
    rules += [part for slack in slacks.values() for part in _limits(slack)]
    extra = [column for slack in slacks.values() for column in (slack.changed, *slack.up, *slack.down)]
    parameter_set = ParameterSet((*wide.columns, *extra), tuple(rules), wide.data)
    most_changes = len(wide.columns) + len(slacks)
    scale = (1 + most_changes) * math.lcm(costs.value.denominator, *(abs(number.value) for number in slacks))
    objective = _objective(parameter_set, relaxable, slacks.values(), costs, scale)
    return RelaxedProblem(parameter_set, objective, scale, tuple(slacks.values()), most_changes)


def _column(name: str, values: int) -> Column:
    return Column(name, name, (), "relaxation", Unit.NONE, tuple(range(values)), True)


def atoms_of(relaxable: Relaxable) -> dict[str, tuple[Atom, ...]]:
    """Return the relations of each rule that can be relaxed, with the numbers in them that may change."""
    units = {name: unit for name, (unit, _, _) in relaxable.data.items()}
    settled = settled_numbers(relaxable.wide)
    found = {rule.name: changeable_atoms(rule, settled, units) for rule in relaxable.rules}
    for rule in relaxable.rules:
        found[rule.name] = tuple(_kept(found[rule.name], rule.term, relaxable.ties.get(rule.name, ())))
    return found


def _kept(atoms: Sequence[Atom], term: Term, ties: Collection[int]) -> Iterable[Atom]:
    """Yield the relations of a bound rule; those of `ties` with no number that may change."""
    parts = term.operands if isinstance(term, Apply) and term.operator == "and" else (term,)
    for at, atom in enumerate(atoms):
        if at not in ties:
            yield atom
            continue
        relation = parts[at]
        assert isinstance(relation, Apply), relation
        yield Atom(relation.operator, (relation.operands[0], relation.operands[1]))


def slacks_of(
    atoms: Mapping[str, tuple[Atom, ...]], relaxable: Relaxable, costs: Costs, *, worth: bool
) -> dict[RuleNumber, Slack]:
    """Return one slack per number, in the directions that may help some relation.

    With `worth` no number changes by more than dropping the rules that use it would cost.
    """
    rules: dict[RuleNumber, set[str]] = {}
    ways: dict[RuleNumber, set[int]] = {}
    for rule, own in atoms.items():
        for atom in own:
            for place, side in enumerate(atom.sides):
                if isinstance(side, NumberSide):
                    rules.setdefault(side.number, set()).add(rule)
                    ways.setdefault(side.number, set()).update(_helpful(atom.operator, place, side.coefficient))
    slacks = {}
    for at, (number, used_by) in enumerate(rules.items()):
        most_change = costs.drop * len(used_by) if worth else Fraction(MOST_CHANGE)
        change = math.floor(most_change * abs(number.value))
        _, low, high = relaxable.data.get(number.datum, (number.unit, -LARGEST, LARGEST))
        up, down = min(change, max(0, high - number.value)), min(change, max(0, number.value - low))
        most = (up if 1 in ways[number] else 0, down if -1 in ways[number] else 0)
        slacks[number] = Slack(
            number,
            _column(f"number {at} changed", 2),
            _digits(f"up {at}", most[0]),
            _digits(f"down {at}", most[1]),
            most,
        )
    return slacks


def _helpful(operator: str, place: int, coefficient: int) -> set[int]:
    """Return in which directions (1 up, -1 down) a change of one side's number can make the relation true."""
    if operator == "==":
        return {1, -1}
    grows = (operator in (">", ">=")) == (place == 0)
    return {1 if grows == (coefficient > 0) else -1}


def _digits(name: str, most: int) -> tuple[Column, ...]:
    """Return columns for the digits of 0 to `most`, the least first."""
    columns: list[Column] = []
    while most:
        columns.append(_column(f"{name} digit {len(columns)}", min(BASE, most + 1)))
        most //= BASE
    return tuple(columns)


def _limits(slack: Slack) -> Iterable[Constraint]:
    """Yield rules that keep the change in range, and at 0 unless the number counts as changed."""
    for sign, digits, most in ((1, slack.up, slack.most[0]), (-1, slack.down, slack.most[1])):
        if digits:
            total: list[Term] = [Apply("*", (Constant(BASE**at), digit.term)) for at, digit in enumerate(digits)]
            allowed = Apply("*", (Constant(most), slack.changed.term))
            term = Apply("<=", (_sum(total), allowed))
            yield Constraint(f"change of {slack.changed.name} by {sign}", "", term)


def _relaxed_rule(rule: Constraint, atoms: Sequence[Atom], slacks: Mapping[RuleNumber, Slack]) -> Iterable[Constraint]:
    """Yield what remains of a rule: it holds with its numbers as changed."""
    parts: list[Term] = [
        Apply(atom.operator, _clipped([_side(side, slacks) for side in atom.sides], atom, slacks)) for atom in atoms
    ]
    for term in parts or [rule.term]:
        yield replace(rule, term=term)


def _side(side: Term | NumberSide, slacks: Mapping[RuleNumber, Slack]) -> Term:
    if not isinstance(side, NumberSide):
        return side
    own = Constant(side.coefficient * side.number.value)
    return _sum([own, *slacks[side.number].moved(side.coefficient)])


def _clipped(terms: list[Term], atom: Atom, slacks: Mapping[RuleNumber, Slack]) -> tuple[Term, ...]:
    """Return both sides, an expression cut off just outside what the number on the other side can reach.

    That changes no verdict, and a quantity with thousands of values keeps the few that matter.
    """
    for place, side in enumerate(atom.sides):
        other = atom.sides[1 - place]
        if isinstance(side, NumberSide) and isinstance(other, QuantityPart):
            start = side.coefficient * side.number.value
            reach = sorted(
                start + side.coefficient * by for by in (slacks[side.number].most[0], -slacks[side.number].most[1])
            )
            above = Apply("max", (other, Constant(reach[0] - 1)))
            terms[1 - place] = Apply("min", (above, Constant(reach[1] + 1)))
    return tuple(terms)


def _sum(terms: list[Term]) -> Term:
    return terms[0] if len(terms) == 1 else Apply("+", tuple(terms))


def _objective(
    parameter_set: ParameterSet, relaxable: Relaxable, slacks: Iterable[Slack], costs: Costs, scale: int
) -> LinearObjective:
    """Return the cost times `scale`, plus one for each thing changed (together less than any difference in cost)."""
    weights: dict[str, tuple[int, ...]] = {}
    for column in relaxable.wide.columns:
        own = relaxable.own.column(column.name).codes
        if len(own) < len(column.values):
            weights[column.name] = tuple((int(costs.value * scale) + 1) * (value not in own) for value in column.values)
    for slack in slacks:
        unit = scale // abs(slack.number.value)
        weights[slack.changed.name] = (0, 1)
        for digits in (slack.up, slack.down):
            for at, digit in enumerate(digits):
                weights[digit.name] = tuple(unit * BASE**at * int(value) for value in digit.values)
    positions = tuple(parameter_set.positions[name] for name in weights)
    return LinearObjective(positions, tuple(weights.values()))
