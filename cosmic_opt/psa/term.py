"""Bound rules: every name resolved, aggregates unrolled, constants folded. What engines read.

A term denotes an integer (truth is 0 or 1) or a category for each design.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from cosmic_opt.psa.domain import Value
from cosmic_opt.psa.quantity import QuantityTerm, SimulatedQuantity, Values
from cosmic_opt.units import Unit

ARITHMETIC = frozenset({"+", "*", "//", "%", "neg", "min", "max"})
RELATIONS = frozenset({"==", "!=", "<=", "<", ">=", ">"})
LOGIC = frozenset({"and", "or", "not", "implies"})
NEGATED = {"==": "!=", "!=": "==", "<=": ">", ">": "<=", "<": ">=", ">=": "<"}

SAFE = 2**62
"""Arithmetic whose magnitude may pass this is done with Python integers, never with wrapped int64."""


@dataclass(frozen=True)
class Constant:
    """A number in base units, a truth value, or a category."""

    value: Value
    unit: Unit = Unit.NONE

    @property
    def columns(self) -> frozenset[str]:
        """A constant depends on no column."""
        return frozenset()


@dataclass(frozen=True)
class ColumnTerm:
    """The value of one column of the design."""

    name: str
    values: tuple[Value, ...]
    unit: Unit

    @property
    def columns(self) -> frozenset[str]:
        """The column itself."""
        return frozenset({self.name})

    @cached_property
    def array(self) -> Values:
        """The values by code: int64, Python integers if one needs more than 62 bits, or text."""
        if isinstance(self.values[0], str):
            return np.array(self.values)
        wide = max(abs(value) for value in self.values if isinstance(value, int)) >= SAFE
        return np.array(self.values, dtype=object if wide else np.int64)


@dataclass(frozen=True)
class QuantityPart:
    """One term of a structural quantity, with the instance data it needs already given."""

    name: str
    term: QuantityTerm
    unit: Unit
    given: tuple[tuple[str, Value], ...]

    @cached_property
    def columns(self) -> frozenset[str]:
        """The columns the part reads."""
        return frozenset(self.term.names) - {name for name, _ in self.given}


@dataclass(frozen=True)
class Simulated:
    """A quantity only a simulator can give; depends on the whole design."""

    quantity: SimulatedQuantity

    @property
    def name(self) -> str:
        """The quantity's name."""
        return self.quantity.name

    @property
    def unit(self) -> Unit:
        """The quantity's unit."""
        return self.quantity.unit

    @property
    def columns(self) -> frozenset[str]:
        """No column by name: a rule that holds one is never lowered."""
        return frozenset()


@dataclass(frozen=True)
class Apply:
    """An operator applied to terms."""

    operator: str
    operands: tuple[Term, ...]
    unit: Unit = Unit.NONE

    @cached_property
    def columns(self) -> frozenset[str]:
        """Every column below."""
        return frozenset().union(*(operand.columns for operand in self.operands))


Term = Constant | ColumnTerm | QuantityPart | Simulated | Apply


def is_simulated(term: Term) -> bool:
    """Tell whether the term needs a simulator."""
    return isinstance(term, Simulated) or (isinstance(term, Apply) and any(map(is_simulated, term.operands)))


def simulated_names(term: Term) -> frozenset[str]:
    """Return the names of the simulated quantities below `term`."""
    if isinstance(term, Simulated):
        return frozenset({term.name})
    if isinstance(term, Apply):
        return frozenset().union(*(simulated_names(operand) for operand in term.operands))
    return frozenset()


def is_category(term: Term) -> bool:
    """Tell whether the term denotes a category."""
    if isinstance(term, Constant):
        return isinstance(term.value, str)
    return isinstance(term, ColumnTerm) and isinstance(term.values[0], str)


def interval(term: Term) -> tuple[int, int]:
    """Return integers (low, high) that enclose every value of a numeric term."""
    if isinstance(term, Constant):
        assert isinstance(term.value, int)
        return term.value, term.value
    if isinstance(term, ColumnTerm):
        numbers = [value for value in term.values if isinstance(value, int)]
        return min(numbers), max(numbers)
    if isinstance(term, QuantityPart | Simulated):
        return -SAFE, SAFE
    if term.operator in RELATIONS or term.operator in LOGIC:
        return 0, 1
    return _interval_of(term.operator, [interval(operand) for operand in term.operands])


def _interval_of(operator: str, parts: list[tuple[int, int]]) -> tuple[int, int]:
    lows, highs = [low for low, _ in parts], [high for _, high in parts]
    if operator == "+":
        return sum(lows), sum(highs)
    if operator == "neg":
        return -highs[0], -lows[0]
    if operator == "min":
        return min(lows), min(highs)
    if operator == "max":
        return max(lows), max(highs)
    if operator == "*":
        low, high = parts[0]
        for other_low, other_high in parts[1:]:
            corners = (low * other_low, low * other_high, high * other_low, high * other_high)
            low, high = min(corners), max(corners)
        return low, high
    largest = max(abs(lows[0]), abs(highs[0]))
    if operator == "//":
        return -largest - 1, largest
    assert operator == "%", operator
    divisor = max(abs(lows[1]), abs(highs[1]))
    return -divisor, divisor


def magnitude(term: Term) -> int:
    """Return a bound on the size of every number met while evaluating `term`."""
    if is_category(term):
        return 0
    below = max((magnitude(operand) for operand in term.operands), default=0) if isinstance(term, Apply) else 0
    low, high = interval(term)
    own = max(abs(low), abs(high)) if not isinstance(term, QuantityPart | Simulated) else 0
    return max(own, below)


def show(term: Term) -> str:
    """Return the term as a person would write it."""
    if isinstance(term, Constant):
        return str(term.value)
    if isinstance(term, ColumnTerm | QuantityPart | Simulated):
        return term.name
    if term.operator in ("neg", "not"):
        return f"{'-' if term.operator == 'neg' else 'not '}({show(term.operands[0])})"
    if term.operator in ("min", "max"):
        return f"{term.operator}({', '.join(map(show, term.operands))})"
    return "(" + f" {term.operator} ".join(map(show, term.operands)) + ")"
