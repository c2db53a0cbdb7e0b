"""What may be changed in a problem so that a design is left, and what the changes cost together."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction

from cosmic_opt.analysis.rule_numbers import RuleNumber
from cosmic_opt.psa.domain import Value
from cosmic_opt.psa.parameter_set import Column, Constraint


@dataclass(frozen=True)
class Drop:
    """A rule that is left out."""

    rule: Constraint


@dataclass(frozen=True)
class Renumber:
    """A number that becomes `new` (base units)."""

    number: RuleNumber
    new: int


@dataclass(frozen=True)
class Allow:
    """A value that a parameter may take, too."""

    column: Column
    value: Value


Change = Drop | Renumber | Allow


@dataclass(frozen=True)
class Relaxation:
    """Changes that make `design` feasible, and what they cost together.

    `proved` means that whatever costs less is in the list before it or contains all the changes of one that is; where
    this one drops no rule but costs more than a dropped rule, that nothing else that drops no rule costs less.
    """

    changes: tuple[Change, ...]
    cost: Fraction
    design: Mapping[str, Value]
    proved: bool = True

    @property
    def changed(self) -> frozenset[str]:
        """What is changed, whatever to."""
        return frozenset(change_key(change) for change in self.changes)


def change_key(change: Change) -> str:
    """Return the name of what is changed, the same whatever it becomes."""
    match change:
        case Drop(rule):
            return f"drop {rule.name}"
        case Renumber(number, _):
            return f"number {number.datum or number.rule} {number.start}"
        case Allow(column, _):
            return f"allow {column.name}"
