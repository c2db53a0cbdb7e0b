"""The bound PSA: columns with their values, rules, data and quantities; and batches of designs over it."""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from cosmic_opt.errors import SpecError, Where, nearest
from cosmic_opt.psa.domain import Value
from cosmic_opt.psa.quantity import Quantity, SimulatedQuantity, Values
from cosmic_opt.psa.term import ColumnTerm, Term, is_simulated
from cosmic_opt.units import Unit, show

CODE = np.int32
Codes = NDArray[np.int32]
"""Designs as value positions: shape (designs, columns)."""


MOST_SHOWN, NEAREST_SHOWN = 30, 10
"""Values of a domain that a hint lists, and of a larger one."""


@dataclass(frozen=True)
class Column:
    """One decision: a scalar parameter, or one member of a family at `index` (a position per axis)."""

    name: str
    parameter: str
    index: tuple[int, ...]
    stack: str
    unit: Unit
    values: tuple[Value, ...]
    free: bool

    @property
    def array(self) -> Values:
        """The values by code: int64, Python integers if one needs more than 62 bits, or text."""
        return self.term.array

    @cached_property
    def codes(self) -> dict[Value, int]:
        """The code of each value."""
        return {value: code for code, value in enumerate(self.values)}

    def show(self, value: Value) -> str:
        """Return a value for a person, with its unit."""
        return value if isinstance(value, str) else show(value, self.unit)

    def allowed_near(self, value: object) -> str:
        """Return a hint: the values it can have, of many those next to `value`, or the first."""
        if len(self.values) <= MOST_SHOWN:
            return f"allowed: {', '.join(map(self.show, self.values))}"
        numbers = sorted(one for one in self.values if isinstance(one, int))
        first = 0
        if isinstance(value, int) and len(numbers) == len(self.values):
            first = min(max(0, bisect_left(numbers, value) - NEAREST_SHOWN // 2), len(numbers) - NEAREST_SHOWN)
        some = (numbers or self.values)[first : first + NEAREST_SHOWN]
        return f"allowed: {', '.join(map(self.show, some))} and {len(self.values) - NEAREST_SHOWN} others"

    @cached_property
    def term(self) -> ColumnTerm:
        """The column as a term of a rule."""
        return ColumnTerm(self.name, self.values, self.unit)


@dataclass(frozen=True)
class Constraint:
    """A declared rule: its name, its text and where it stands, its bound form, why it exists."""

    name: str
    text: str
    term: Term
    why: str = ""
    where: Where = field(default_factory=Where)

    @property
    def simulated(self) -> bool:
        """Whether only a simulator can check it."""
        return is_simulated(self.term)


@dataclass(frozen=True)
class ParameterSet:
    """Columns in declared order (the order of codes), rules, instance data and quantities."""

    columns: tuple[Column, ...]
    constraints: tuple[Constraint, ...]
    data: Mapping[str, Value] = field(default_factory=dict)
    quantities: Mapping[str, Quantity | SimulatedQuantity] = field(default_factory=dict)

    @cached_property
    def positions(self) -> dict[str, int]:
        """The position of each column by name."""
        return {column.name: position for position, column in enumerate(self.columns)}

    @property
    def grid_size(self) -> int:
        """The product of all domain sizes, before any rule."""
        return math.prod(len(column.values) for column in self.columns)

    def column(self, name: str) -> Column:
        """Return the column called `name`."""
        if name not in self.positions:
            raise SpecError(f"unknown parameter {name!r}", hint=nearest(name, self.positions))
        return self.columns[self.positions[name]]

    def batch(self, codes: NDArray[np.integer]) -> DesignBatch:
        """Return designs from codes of shape (designs, columns)."""
        return DesignBatch(self, np.asarray(codes, dtype=CODE).reshape(-1, len(self.columns)))

    def design(self, values: Mapping[str, Value]) -> DesignBatch:
        """Return the one design that `values` (one per column) names."""
        missing = [column.name for column in self.columns if column.name not in values]
        if missing:
            raise SpecError(f"the design gives no value for {missing[0]!r}", hint=f"missing: {', '.join(missing)}")
        codes = []
        for column in self.columns:
            value = values[column.name]
            if value not in column.codes:
                raise SpecError(f"{value!r} is not in the domain of {column.name!r}", hint=column.allowed_near(value))
            codes.append(column.codes[value])
        return self.batch(np.array([codes], dtype=CODE))


@dataclass(frozen=True)
class DesignBatch:
    """Many designs of one parameter set: `codes[i, j]` is the position of design i's value in column j's domain."""

    parameter_set: ParameterSet
    codes: Codes

    def __len__(self) -> int:
        return len(self.codes)

    def values(self, name: str) -> Values:
        """Return the values of one column, one per design."""
        position = self.parameter_set.positions[name]
        return np.asarray(self.parameter_set.columns[position].array[self.codes[:, position]])

    def value_columns(self, names: Iterable[str] | None = None) -> dict[str, Values]:
        """Return the values of the named columns (default: all)."""
        chosen = self.parameter_set.positions if names is None else names
        return {name: self.values(name) for name in chosen}

    def take(self, rows: NDArray[np.integer] | NDArray[np.bool_] | Sequence[int] | slice) -> DesignBatch:
        """Return the chosen designs."""
        return DesignBatch(self.parameter_set, self.codes[rows])

    def points(self) -> Iterator[dict[str, Value]]:
        """Yield each design as {column name: value}, for people and files."""
        columns = self.parameter_set.columns
        for row in self.codes:
            yield {column.name: column.values[code] for column, code in zip(columns, row, strict=True)}
