"""The intermediate form: finite columns and four kinds of constraint, each with the declared rule it came from.

A constraint reads a column only through its code. `Linear` and `Product` carry one weight per code, so a sum of
exponents, a price or a bandwidth are the same thing to an engine.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from cosmic_opt.errors import Where

Rows = NDArray[np.int32]
Weights = tuple[tuple[int, ...], ...]


@dataclass(frozen=True)
class Origin:
    """The declared rule a constraint came from."""

    name: str
    text: str
    where: Where


@dataclass(frozen=True)
class IRColumn:
    """A finite column of `size` codes. A helper is determined by design columns through a functional table."""

    name: str
    size: int
    helper: bool = False


@dataclass(frozen=True)
class Linear:
    """`lower <= sum_i weights[i][code of columns[i]] <= upper`; None is no bound."""

    columns: tuple[int, ...]
    weights: Weights
    lower: int | None
    upper: int | None
    origin: Origin


@dataclass(frozen=True)
class Product:
    """`lower <= prod_i factors[i][code of columns[i]] <= upper`; factors are not negative."""

    columns: tuple[int, ...]
    factors: Weights
    lower: int | None
    upper: int | None
    origin: Origin


@dataclass(frozen=True, eq=False)
class Table:
    """The codes of `columns` form one of `rows` (shape: rows, columns; sorted, without repeats)."""

    columns: tuple[int, ...]
    rows: Rows
    origin: Origin

    @cached_property
    def keys(self) -> set[bytes]:
        """The rows as a set, for membership."""
        return {row.tobytes() for row in np.ascontiguousarray(self.rows)}


@dataclass(frozen=True)
class Conditional:
    """`body` must hold when the code of `column` is 1."""

    column: int
    body: Linear | Product | Table
    origin: Origin

    @property
    def columns(self) -> tuple[int, ...]:
        """The guard and the columns of the body."""
        return (self.column, *(column for column in self.body.columns if column != self.column))


Constraint = Linear | Product | Table | Conditional


@dataclass(frozen=True)
class LoweredModel:
    """Columns, constraints, and the codes of each column that propagation left.

    `definitions` gives, for each helper column, the functional table that determines it (its last column), in
    an order in which they can be applied. The first `designs` columns are those of the parameter set.
    """

    columns: tuple[IRColumn, ...]
    constraints: tuple[Constraint, ...]
    allowed: tuple[NDArray[np.int32], ...]
    definitions: tuple[Table, ...]
    designs: int

    @property
    def infeasible(self) -> bool:
        """Whether propagation emptied a column."""
        return any(len(codes) == 0 for codes in self.allowed)

    def all_constraints(self) -> tuple[Constraint, ...]:
        """Return constraints and definitions together."""
        return (*self.definitions, *self.constraints)
