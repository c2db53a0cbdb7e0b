"""The least change of numbers and domains by looking at every design that the rules with fixed numbers leave.

A design over the whole domains settles what must change for it, and by how much: each number by as much as the
relations that read it ask for, each parameter that may not take its value. Where such designs can be listed, the
cheapest is the least of a column: exact, and as quick as the rules can be evaluated.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import combinations
from math import lcm

import numpy as np
from numpy.typing import NDArray

from cosmic_opt.analysis.blocked import Block
from cosmic_opt.analysis.change import Allow, Change, Relaxation, Renumber, change_key
from cosmic_opt.analysis.relaxed_problem import Costs, Relaxable, Slack, atoms_of, slacks_of
from cosmic_opt.analysis.rule_numbers import Atom, NumberSide, RuleNumber
from cosmic_opt.errors import LimitError
from cosmic_opt.feasibility.feasible_set import feasible_set
from cosmic_opt.ir.lower import lower
from cosmic_opt.psa.evaluate import evaluate
from cosmic_opt.psa.parameter_set import Constraint, DesignBatch
from cosmic_opt.psa.quantity import Values
from cosmic_opt.psa.term import Apply, Term

MOST_DESIGNS = 1 << 18
"""More designs are left to a solver: each takes about a kilobyte here."""
MOST_PAIRS = 3
"""More relations between a datum and a literal are left to a solver: each doubles the rows."""
MIRRORED = {"<=": ">=", "<": ">", ">=": "<=", ">": "<", "==": "=="}
Span = tuple[Values, Values]
"""The least and the greatest value of a number that a relation allows, per design."""


@dataclass(frozen=True)
class RelaxedTable:
    """Designs, one a row, with what each needs changed; rows are those that some change lets in.

    `moved` is by how much each number changes (base units), `allowed` which values a parameter does not have now, and
    `rank` the rows in order of cost, then of the number of changes.
    """

    designs: DesignBatch
    moved: Mapping[RuleNumber, Values]
    allowed: Mapping[str, NDArray[np.bool_]]
    costs: Costs
    rank: NDArray[np.int64]

    @classmethod
    def of(cls, relaxable: Relaxable, costs: Costs, *, worth: bool) -> RelaxedTable | None:
        """Return the table of a problem; None where it is too large, or numbers are compared with each other.

        One datum and one literal may be. With `worth` no number changes by more than dropping
        the rules that use it would cost.
        """
        atoms = atoms_of(relaxable)
        slacks = slacks_of(atoms, relaxable, costs, worth=worth)
        read = [atom for own in atoms.values() for atom in own if _numbers(atom)]
        pairs = [atom for atom in read if len(_numbers(atom)) > 1]
        if len(pairs) > MOST_PAIRS or not _are_traded(pairs, slacks, worth=worth):
            return None
        designs = _listed(relaxable, atoms)
        if designs is None:
            return None
        chosen = [towards for size in range(len(pairs) + 1) for towards in combinations(pairs, size)]
        ways = [_moves(slacks, read, towards, designs) for towards in chosen]
        codes = np.concatenate([designs.codes[possible] for _, possible in ways])
        designs = DesignBatch(designs.parameter_set, codes)
        moved = {number: np.concatenate([by[number][possible] for by, possible in ways]) for number in slacks}
        allowed = dict(_values_added(relaxable, designs))
        return cls(designs, moved, allowed, costs, _ranked(moved, allowed.values(), costs, len(designs)))

    def cheapest(
        self, without: Iterable[Collection[str]], blocks: Iterable[Block] = (), dropped: Collection[str] = ()
    ) -> Relaxation | None:
        """Return the least changes that contain none of the given sets (keys of changes).

        With those `dropped`, they are not such that a block tells that nothing runs. None where no design is left.
        """
        flags = {change_key(Renumber(number, 0)): by != 0 for number, by in self.moved.items()}
        columns = {column.name: column for column in self.designs.parameter_set.columns}
        flags |= {change_key(Allow(columns[name], 0)): added for name, added in self.allowed.items()}
        left = np.ones(len(self.designs), dtype=bool)
        for keys in without:
            if flags.keys() >= set(keys):
                left &= ~np.all([flags[key] for key in keys], axis=0) if keys else False
        for block in blocks:
            if block.covered >= set(dropped):
                left &= ~self._changes_only(block.covered, ())
            if block.relaxation.changed >= set(dropped):
                left &= ~self._changes_only((), block.relaxation.changes)
        rows = self.rank[left[self.rank]]
        if not len(rows):
            return None
        row = int(rows[0])
        (design,) = DesignBatch(self.designs.parameter_set, self.designs.codes[row : row + 1]).points()
        numbers = [Renumber(number, number.value + int(by[row])) for number, by in self.moved.items() if by[row]]
        values = [Allow(columns[name], design[name]) for name, added in self.allowed.items() if added[row]]
        cost = self.costs.value * len(values)
        cost += sum(Fraction(abs(each.new - each.number.value), abs(each.number.value)) for each in numbers)
        return Relaxation((*numbers, *values), cost, design)

    def _changes_only(self, keys: Collection[str], changes: Collection[Change]) -> NDArray[np.bool_]:
        """Return which rows change nothing but what is called `keys`, or what `changes` do, as far as they do."""
        inside = np.ones(len(self.designs), dtype=bool)
        numbers = {c.number: c.new - c.number.value for c in changes if isinstance(c, Renumber)}
        values = {c.column.name: c.value for c in changes if isinstance(c, Allow)}
        for number, by in self.moved.items():
            if change_key(Renumber(number, 0)) not in keys:
                least, most = sorted((0, numbers.get(number, 0)))
                inside &= np.asarray((by >= least) & (by <= most), dtype=bool)
        for at, column in enumerate(self.designs.parameter_set.columns):
            added = self.allowed.get(column.name)
            if added is not None and change_key(Allow(column, column.values[0])) not in keys:
                same = np.array([value == values.get(column.name) for value in column.values])
                inside &= ~added | same[self.designs.codes[:, at]]
        return inside


def _numbers(atom: Atom) -> list[RuleNumber]:
    return [side.number for side in atom.sides if isinstance(side, NumberSide)]


def _listed(relaxable: Relaxable, atoms: Mapping[str, Sequence[Atom]]) -> DesignBatch | None:
    """Return every design that obeys what no change of a number can help; None where there are too many."""
    wide = relaxable.wide
    rules = tuple(part for rule in wide.constraints for part in _fixed(rule, atoms.get(rule.name, ())))
    try:
        left = feasible_set(lower(replace(wide, constraints=rules)))
        return wide.batch(left.everything(MOST_DESIGNS))
    except LimitError:
        return None


def _fixed(rule: Constraint, atoms: Sequence[Atom]) -> Iterable[Constraint]:
    """Yield the rule, or those of its relations that no number appears in."""
    if not any(map(_numbers, atoms)):
        yield rule
        return
    for atom in atoms:
        sides = tuple(side for side in atom.sides if not isinstance(side, NumberSide))
        if len(sides) == 2:
            yield replace(rule, term=Apply(atom.operator, sides))


def _pair(atom: Atom) -> tuple[RuleNumber, RuleNumber]:
    """Return the datum and the literal that a relation compares, or two of the same kind."""
    first, second = sorted(_numbers(atom), key=lambda number: not number.datum)
    return first, second


def _meeting(pair: Atom) -> int:
    """Return the value of the datum nearest to the literal that obeys the relation."""
    _, literal = _pair(pair)
    operator, side, _ = _as_limit(pair, literal)
    strict = {"<": -1, ">": 1}.get(operator, 0)
    return literal.value + (strict if side.coefficient > 0 else -strict)


def _are_traded(pairs: Sequence[Atom], slacks: Mapping[RuleNumber, Slack], *, worth: bool) -> bool:
    """Tell whether every datum and the literal that it is compared with are best changed in one of two ways.

    The datum changes as little as other relations ask, or as far towards the literal as they let it; the literal
    follows. In between the cost is linear, so long as the literal can reach the datum (with `worth`, what is beyond
    costs as much as to drop the rule).
    """
    found = [_pair(pair) for pair in pairs]
    if len({datum for datum, _ in found}) < len(pairs):
        return False
    for pair, (datum, literal) in zip(pairs, found, strict=True):
        if (
            not datum.datum
            or literal.datum
            or len({s.coefficient for s in pair.sides if isinstance(s, NumberSide)}) > 1
        ):
            return False
        up, down = slacks[literal].most
        if not worth and not -down <= datum.value - _meeting(pair) <= up:
            return False
    return True


def _moves(
    slacks: Mapping[RuleNumber, Slack], read: Sequence[Atom], towards: Collection[Atom], designs: DesignBatch
) -> tuple[dict[RuleNumber, Values], NDArray[np.bool_]]:
    """Return by how much each number must change, and which designs that lets in.

    Data in the pairs `towards` go to the literal they are compared with, as far as they may.
    """
    aims = {_pair(pair)[0]: _meeting(pair) for pair in towards}
    moved: dict[RuleNumber, Values] = {}
    possible = np.ones(len(designs), dtype=bool)
    for number in sorted(slacks, key=lambda each: not each.datum):
        own = [atom for atom in read if number in _numbers(atom) and (len(_numbers(atom)) == 1 or not number.datum)]
        aim = aims.get(number, number.value)
        moved[number], within = _least_moves(slacks[number], own, designs, moved, aim)
        possible &= within
    return moved, possible


def _least_moves(
    slack: Slack, atoms: Sequence[Atom], designs: DesignBatch, moved: Mapping[RuleNumber, Values], aim: int
) -> tuple[Values, NDArray[np.bool_]]:
    """Return by how much a number changes to be near `aim`, others `moved`, and for which designs it may."""
    value, (up, down) = slack.number.value, slack.most
    low = np.full(len(designs), value - down, dtype=object)
    high = np.full(len(designs), value + up, dtype=object)
    for atom in atoms:
        operator, side, other = _as_limit(atom, slack.number)
        least, greatest = _range(operator, _values(other, designs, moved), side.coefficient)
        low, high = np.maximum(low, least), np.minimum(high, greatest)
    return np.clip(aim, low, high) - value, np.asarray(low <= high, dtype=bool)


def _as_limit(atom: Atom, number: RuleNumber | None = None) -> tuple[str, NumberSide, Term | NumberSide]:
    """Return the relation as `other operator side`, `side` being that of the number, or the only one that is one."""
    for place, side in enumerate(atom.sides):
        if isinstance(side, NumberSide) and number in (None, side.number):
            operator = atom.operator if place == 1 else MIRRORED[atom.operator]
            return operator, side, atom.sides[1 - place]
    raise AssertionError(atom)


def _values(side: Term | NumberSide, designs: DesignBatch, moved: Mapping[RuleNumber, Values]) -> Values:
    if isinstance(side, NumberSide):
        still = np.full(len(designs), side.number.value, dtype=object)
        return np.asarray(side.coefficient * (still + moved.get(side.number, 0)))
    values: Values = evaluate(side, designs.value_columns(side.columns), len(designs)).astype(object)
    return values


def _range(operator: str, values: Values, coefficient: int) -> Span:
    """Return the integers n, per value v, from the least to the greatest with `v operator coefficient * n`."""
    if coefficient < 0:
        return _range(MIRRORED[operator], -values, -coefficient)
    anything = np.full(len(values), np.inf, dtype=object)
    if operator in ("<=", "<"):
        return -((-values - (operator == "<")) // coefficient), anything
    if operator in (">=", ">"):
        return -anything, (values - (operator == ">")) // coefficient
    return -(-values // coefficient), values // coefficient


def _values_added(relaxable: Relaxable, designs: DesignBatch) -> Iterable[tuple[str, NDArray[np.bool_]]]:
    """Yield, for each parameter that has fewer values now, which designs have another one."""
    for at, column in enumerate(relaxable.wide.columns):
        own = relaxable.own.column(column.name).codes
        if len(own) < len(column.values):
            yield column.name, np.array([value not in own for value in column.values])[designs.codes[:, at]]


def _ranked(
    moved: Mapping[RuleNumber, Values], allowed: Iterable[NDArray[np.bool_]], costs: Costs, rows: int
) -> NDArray[np.int64]:
    """Return the rows by cost, then by number of changes, then by code."""
    scale = lcm(costs.value.denominator, *(abs(number.value) for number in moved))
    total, changes = np.zeros(rows, dtype=object), np.zeros(rows, dtype=np.int64)
    for number, by in moved.items():
        total += abs(by) * (scale // abs(number.value))
        changes += np.asarray(by != 0, dtype=bool)
    for added in allowed:
        total += added.astype(object) * int(costs.value * scale)
        changes += added
    most = 1 + int(changes.max(initial=0))
    return np.asarray(np.argsort(total * most + changes, kind="stable"))
