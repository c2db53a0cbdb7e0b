"""Changes that leave designs and none that runs: what else need not be looked at, since it lets in no more."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Protocol

from cosmic_opt.analysis.change import Allow, Drop, Relaxation, Renumber, change_key
from cosmic_opt.analysis.relaxed_problem import Relaxable, atoms_of
from cosmic_opt.analysis.rule_numbers import NumberSide, RuleNumber

Item = tuple[str, bool]
"""A rule (name, False) that is dropped, or a parameter (name, True) with all its values."""


class Left(Enum):
    """What is left of a relaxed problem: a design that runs (or it is not known), none of those drawn, or none."""

    RUNS = "runs"
    NONE_DRAWN = "none drawn"
    NONE = "none"


class Looks(Protocol):
    """Looks at the designs that changes leave."""

    @property
    def data_read(self) -> frozenset[str]:
        """Data that decide whether a design runs, beside the rules."""

    def after(self, relaxation: Relaxation) -> Left:
        """Return what a relaxation leaves."""

    def without(self, rules: Collection[str], parameters: Collection[str]) -> Left:
        """Return what is left without some rules and with every value of some parameters."""


@dataclass(frozen=True)
class Block:
    """Changes after which nothing runs: any of those in `covered`, whatever to; or those of `relaxation`, or less.

    `exact` says that each design was looked at, rather than some drawn.
    """

    relaxation: Relaxation
    covered: frozenset[str]
    exact: bool


def block_of(
    relaxable: Relaxable,
    relaxation: Relaxation,
    left: Left,
    looks: Looks,
    known: Iterable[Block],
    stop: Callable[[], bool],
) -> Block:
    """Return what a relaxation after which nothing runs tells of others, until `stop`.

    Where nothing runs without a set of rules, nothing does with fewer of them dropped, or with other numbers in them;
    and likewise of the values of parameters. So that set is made as large as it can be: what is then not in it, each
    way out must change.
    """
    exact = left is Left.NONE
    for block in known:
        if relaxation.changed <= block.covered:
            return Block(relaxation, block.covered, exact and block.exact)
    readers = _readers(relaxable)
    grown = _Grown(looks, stop, exact=exact)
    changed: set[Item] = set()
    for change in relaxation.changes:
        match change:
            case Drop(rule):
                changed.add((rule.name, False))
            case Renumber(number, _):
                changed |= {(name, False) for name in readers.get(number, ())}
            case Allow(column, _):
                changed.add((column.parameter, True))
    if any(name in relaxable.ties for name, _ in changed) or not grown.add(sorted(changed), whole=True):
        return Block(relaxation, frozenset(), exact)
    others = {(rule.name, False) for rule in relaxable.droppable} | {(name, True) for name in _narrow(relaxable)}
    grown.add(sorted(others - changed))
    return Block(relaxation, frozenset(_keys(relaxable, readers, grown, looks.data_read)), grown.exact)


def other_keys(relaxable: Relaxable) -> frozenset[str]:
    """Return the keys of all changes but dropped rules."""
    numbers = {change_key(Renumber(number, 0)) for number in _readers(relaxable)}
    narrow = _narrow(relaxable)
    columns = (column for column in relaxable.wide.columns if column.parameter in narrow)
    return frozenset(numbers | {change_key(Allow(column, column.values[0])) for column in columns})


def _narrow(relaxable: Relaxable) -> set[str]:
    """Return the parameters with a column that does not have all its values now."""
    own, wide = relaxable.own, relaxable.wide
    return {c.parameter for c in wide.columns if len(own.column(c.name).values) < len(c.values)}


def _readers(relaxable: Relaxable) -> dict[RuleNumber, set[str]]:
    """Return the rules that read each number which may change."""
    readers: dict[RuleNumber, set[str]] = {}
    for name, atoms in atoms_of(relaxable).items():
        for side in (side for atom in atoms for side in atom.sides if isinstance(side, NumberSide)):
            readers.setdefault(side.number, set()).add(name)
    return readers


@dataclass
class _Grown:
    """Rules and parameters: without the rules, and with every value of the parameters, nothing runs."""

    looks: Looks
    stop: Callable[[], bool]
    items: frozenset[Item] = frozenset()
    exact: bool = True

    def add(self, more: Sequence[Item], *, whole: bool = False) -> bool:
        """Add what may be added, all or nothing where it is to be `whole`; tell whether all was."""
        if self.stop():
            return False
        items = self.items.union(more)
        left = self.looks.without(_named(items, parameters=False), _named(items, parameters=True))
        if left is Left.RUNS:
            half = len(more) // 2
            if half and not whole:
                self.add(more[:half])
                self.add(more[half:])
            return False
        self.items = items
        self.exact &= left is Left.NONE
        return True


def _named(items: Iterable[Item], *, parameters: bool) -> frozenset[str]:
    return frozenset(name for name, is_parameter in items if is_parameter is parameters)


def _keys(
    relaxable: Relaxable, readers: dict[RuleNumber, set[str]], grown: _Grown, data_read: Collection[str]
) -> Iterable[str]:
    """Yield the keys of all changes of the rules and parameters."""
    rules, parameters = _named(grown.items, parameters=False), _named(grown.items, parameters=True)
    yield from (change_key(Drop(rule)) for rule in relaxable.droppable if rule.name in rules)
    for number, names in readers.items():
        if names <= rules and number.datum not in data_read:
            yield change_key(Renumber(number, 0))
    for column in relaxable.wide.columns:
        if column.parameter in parameters:
            yield change_key(Allow(column, column.values[0]))
