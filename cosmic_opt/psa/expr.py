"""The syntax tree of the rule language, as parsed: names are not resolved yet and positions are kept."""

from __future__ import annotations

from dataclasses import dataclass

from cosmic_opt.units import Unit

AGGREGATES = ("sum", "product", "min", "max", "count", "all", "any")


@dataclass(frozen=True, slots=True)
class Number:
    """An integer literal, in base units when it carries a unit."""

    value: int
    unit: Unit
    at: int


@dataclass(frozen=True, slots=True)
class Text:
    """A quoted category."""

    value: str
    at: int


@dataclass(frozen=True, slots=True)
class Name:
    """A parameter, datum, quantity, bound index or bare category."""

    name: str
    at: int


@dataclass(frozen=True, slots=True)
class Index:
    """One member of a family: `bandwidth[0]`, `bandwidth[d + 1]`, `extent[tp, d]`."""

    name: str
    indices: tuple[Syntax, ...]
    at: int


@dataclass(frozen=True, slots=True)
class Operation:
    """`+ * // %`, unary `neg`, comparisons, `and or not implies`; operands in written order.

    `a - b + c` is one `+` of `a`, `neg b` and `c`, so that a long sum is flat.
    """

    operator: str
    operands: tuple[Syntax, ...]
    at: int


@dataclass(frozen=True, slots=True)
class Member:
    """`item in {a, b, …}`."""

    item: Syntax
    options: tuple[Syntax, ...]
    at: int


@dataclass(frozen=True, slots=True)
class Aggregate:
    """`sum(body for variable in index if condition)`, or `sum(family)` when `variable` is None."""

    kind: str
    body: tuple[Syntax, ...]
    variable: str | None
    index: str | None
    condition: Syntax | None
    at: int


Syntax = Number | Text | Name | Index | Operation | Member | Aggregate


def children(syntax: Syntax) -> tuple[Syntax, ...]:
    """Return the parts of a node."""
    match syntax:
        case Index(_, indices, _):
            return indices
        case Operation(_, operands, _):
            return operands
        case Member(item, options, _):
            return (item, *options)
        case Aggregate(_, body, _, _, condition, _):
            return body if condition is None else (*body, condition)
        case _:
            return ()
