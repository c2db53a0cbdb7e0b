"""A lowered model under construction: its columns, its tables, and a helper column per wide term."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from cosmic_opt.errors import Where
from cosmic_opt.ir.model import Constraint, IRColumn, LoweredModel, Origin, Table, Weights
from cosmic_opt.ir.passes.forms import Columns, values_by_code
from cosmic_opt.ir.passes.propagate import propagate
from cosmic_opt.ir.passes.rows import joint_rows
from cosmic_opt.psa.evaluate import evaluate
from cosmic_opt.psa.parameter_set import ParameterSet
from cosmic_opt.psa.quantity import Values
from cosmic_opt.psa.term import SAFE, Apply, ColumnTerm, Constant, Term, is_category, magnitude, show
from cosmic_opt.units import Unit

WIDE_TABLE = 1 << 16
"""Above so many combinations a sum of several wide terms gets helper columns instead of one table."""

BLOCK = 1 << 15
"""Rows of a table evaluated at a time: the footprint of a training job keeps up to seven kilobytes a row."""


@dataclass(frozen=True, slots=True)
class Helper:
    """A column and the value each of its codes stands for."""

    column: int
    values: tuple[int, ...]


@dataclass
class Draft:
    """What is lowered so far. A helper column is determined by the design columns, so that no design counts twice."""

    parameter_set: ParameterSet
    columns: list[IRColumn]
    allowed: list[NDArray[np.int32]]
    constraints: list[Constraint] = field(default_factory=list)
    definitions: list[Table] = field(default_factory=list)
    helpers: dict[Term, Helper] = field(default_factory=dict)

    @classmethod
    def of(cls, parameter_set: ParameterSet) -> Draft:
        """Return the draft of no rules: every code of every column is allowed."""
        columns = [IRColumn(column.name, len(column.values)) for column in parameter_set.columns]
        return cls(parameter_set, columns, [np.arange(column.size, dtype=np.int32) for column in columns])

    @classmethod
    def resumed(cls, parameter_set: ParameterSet, model: LoweredModel) -> Draft:
        """Return the draft that goes on from the lowered `parameter_set`."""
        lists = list(model.columns), list(model.allowed), list(model.constraints), list(model.definitions)
        return cls(parameter_set, *lists)

    @cached_property
    def terms(self) -> Columns:
        """The design columns as terms, by name."""
        return {column.name: column.term for column in self.parameter_set.columns}

    def shrink(self) -> LoweredModel:
        """Propagate what is lowered so far; later tables then hold fewer rows."""
        model = propagate(
            LoweredModel(
                tuple(self.columns),
                tuple(self.constraints),
                tuple(self.allowed),
                tuple(self.definitions),
                len(self.parameter_set.columns),
            )
        )
        self.allowed, self.constraints = list(model.allowed), list(model.constraints)
        self.definitions = list(model.definitions)
        return model

    def position(self, name: str) -> int:
        """Return the position of a design column."""
        return self.parameter_set.positions[name]

    def combinations(self, names: frozenset[str]) -> int:
        """Return how many combinations of codes of these design columns are still allowed, column by column."""
        return math.prod(len(self.allowed[self.position(name)]) for name in names)

    def rows(self, columns: Sequence[int], *, beyond: bool = False) -> NDArray[np.int32]:
        """Return the codes, one row per combination, of these columns that what is lowered so far allows.

        Without those that a constraint excludes which reads columns `beyond` these as well.
        """
        known = [*self.constraints, *self.definitions]
        return joint_rows(columns, self.columns, self.allowed, known, beyond=beyond)

    def evaluate_rows(self, term: Term, names: Sequence[str], rows: NDArray[np.int32]) -> Values:
        """Return the value of `term` per row of codes of the design columns called `names`, block by block."""
        values = [self.parameter_set.column(name).array for name in names]

        def block(codes: NDArray[np.int32]) -> Values:
            arrays = {name: array[codes[:, at]] for at, (name, array) in enumerate(zip(names, values, strict=True))}
            return evaluate(term, arrays, len(codes))

        return np.concatenate([block(rows[start : start + BLOCK]) for start in range(0, max(1, len(rows)), BLOCK)])

    def table_of(self, term: Term, origin: Origin) -> Table:
        """Return the table of every combination, of those still allowed, for which `term` is true."""
        return self._table_of(term, origin, beyond=False)[0]

    def wide_table_of(self, term: Term, origin: Origin) -> Table:
        """Return the table of `term` over those combinations only that no other rule lowered so far excludes.

        Where `term` is true of each of them, the table is that of `table_of`: a rule that others imply stays itself.
        """
        table, implied = self._table_of(term, origin, beyond=True)
        return self.table_of(term, origin) if implied else table

    def _table_of(self, term: Term, origin: Origin, *, beyond: bool) -> tuple[Table, bool]:
        """Return a table, and whether none of the combinations looked at is excluded by it."""
        names = sorted(term.columns, key=self.position)
        columns = tuple(self.position(name) for name in names)
        rows = self.rows(columns, beyond=beyond)
        keep = np.asarray(self.evaluate_rows(term, names, rows), dtype=bool)
        return Table(columns, rows[keep], origin), bool(keep.all())

    def helper_of(self, term: Term, *, condition: bool = False) -> Helper:
        """Return a column whose codes stand for the values of `term`; a condition gets codes 0 and 1."""
        if len(term.columns) == 1 and not condition:
            (name,) = term.columns
            return Helper(self.position(name), values_by_code(term, self.terms[name]))
        if term in self.helpers:
            return self.helpers[term]
        helper = self.make_helper(term)
        self.helpers[term] = helper
        return helper

    def weighted_sum(self, parts: Sequence[tuple[int, Term]]) -> tuple[int, tuple[int, ...], Weights]:
        """Return the constant, the columns and their weights by code of a sum; a wide term gets a helper column."""
        constant = 0
        weights: dict[int, tuple[int, ...]] = {}
        for sign, part in parts:
            if isinstance(part, Constant):
                assert isinstance(part.value, int), part
                constant += sign * part.value
                continue
            helper = self.helper_of(part)
            old = weights.get(helper.column, (0,) * len(helper.values))
            weights[helper.column] = tuple(a + sign * b for a, b in zip(old, helper.values, strict=True))
        return constant, tuple(weights), tuple(weights.values())

    def make_helper(self, term: Term) -> Helper:
        """Define a helper column: by one table where that is narrow, else by an operator over helper columns."""
        names = sorted(term.columns, key=self.position)
        columns = [self.position(name) for name in names]
        narrow = self.combinations(term.columns) <= WIDE_TABLE
        if not isinstance(term, Apply) or narrow or any(map(is_category, term.operands)):
            rows = self.rows(columns)
            return self.define(columns, rows, self.evaluate_rows(term, names, rows), show(term))
        operands = [self.helper_of(operand) for operand in term.operands if not isinstance(operand, Constant)]
        constants = [operand for operand in term.operands if isinstance(operand, Constant)]
        if term.operator in ("+", "*", "min", "max", "and", "or"):
            joined = self.chain(term.operator, operands, show(term))
            if not constants:
                return joined
            operands = [joined]
        return self.combine(term, operands, constants)

    def chain(self, operator: str, operands: Sequence[Helper], name: str) -> Helper:
        """Join helper columns pairwise with an associative operator."""
        joined = operands[0]
        for operand in operands[1:]:
            left = ColumnTerm("left", joined.values, Unit.NONE)
            right = ColumnTerm("right", operand.values, Unit.NONE)
            joined = self.join(Apply(operator, (left, right)), [joined, operand], name)
        return joined

    def combine(self, term: Apply, operands: Sequence[Helper], constants: Sequence[Constant]) -> Helper:
        """Apply an operator to helper columns (and constants) and give the result a helper column."""
        terms: list[Term] = []
        inputs = iter(operands)
        names = iter(("left", "right"))
        if len(operands) + len(constants) == len(term.operands):
            for operand in term.operands:
                if isinstance(operand, Constant):
                    terms.append(operand)
                else:
                    terms.append(ColumnTerm(next(names), next(inputs).values, Unit.NONE))
        else:
            terms = [ColumnTerm("left", operands[0].values, Unit.NONE), *constants]
        return self.join(Apply(term.operator, tuple(terms)), operands, show(term))

    def join(self, term: Apply, operands: Sequence[Helper], name: str) -> Helper:
        """Define a helper column as `term` over columns "left" and "right", which stand for the operands."""
        columns = [operand.column for operand in operands]
        if len(set(columns)) < len(columns):
            columns = columns[:1]
        rows = self.rows(columns)
        wide = magnitude(term) >= SAFE
        arrays: dict[str, Values] = {}
        for at, key in enumerate(("left", "right")[: len(operands)]):
            array = np.array(operands[at].values, dtype=object if wide else np.int64)
            arrays[key] = array[rows[:, min(at, len(columns) - 1)]]
        return self.define(columns, rows, evaluate(term, arrays, len(rows)), name)

    def define(self, inputs: Sequence[int], rows: NDArray[np.int32], values: Values, name: str) -> Helper:
        """Add a helper column with the given value per row of its inputs; without rows no design is feasible."""
        distinct = sorted({int(value) for value in values}) or [0]
        code: Callable[[int], int] = {value: position for position, value in enumerate(distinct)}.__getitem__
        output = np.array([code(int(value)) for value in values], dtype=np.int32).reshape(-1, 1)
        column = len(self.columns)
        self.columns.append(IRColumn(f"{name} #{column}", len(distinct), helper=True))
        self.allowed.append(np.arange(len(distinct), dtype=np.int32))
        table = np.hstack([rows, output]).astype(np.int32)
        origin = Origin(name, name, Where())
        self.definitions.append(Table((*inputs, column), table, origin))
        return Helper(column, tuple(distinct))
