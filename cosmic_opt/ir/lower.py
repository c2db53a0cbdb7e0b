"""Lower the rules of a parameter set to the intermediate form, keeping the feasible set exactly.

Rules are taken apart at 'and'; a relation becomes, in this order of preference: a filter of one column, a sum of
prime exponents, a linear relation, a product, a table over its columns, or a linear relation between helper columns.
'or' and 'implies' become tables when narrow and conditionals otherwise.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from cosmic_opt.errors import LimitError, Where
from cosmic_opt.ir.model import Conditional, Constraint, IRColumn, Linear, LoweredModel, Origin, Product, Table, Weights
from cosmic_opt.ir.passes.forms import (
    Columns,
    Function,
    exponent_equations,
    factor_values,
    monomial,
    summands,
    values_by_code,
)
from cosmic_opt.ir.passes.normal_form import negate, normalise
from cosmic_opt.ir.passes.propagate import propagate
from cosmic_opt.ir.passes.rows import joint_rows
from cosmic_opt.psa.evaluate import evaluate
from cosmic_opt.psa.parameter_set import ParameterSet
from cosmic_opt.psa.quantity import Values
from cosmic_opt.psa.term import SAFE, Apply, ColumnTerm, Constant, Term, is_category, magnitude, show
from cosmic_opt.units import Unit

SMALL_TABLE = 1 << 12
"""A relation with at most so many combinations is tabulated before anything cleverer is tried."""
WIDE_TABLE = 1 << 16
"""Above so many combinations a sum of several wide terms gets helper columns instead of one table."""


def lower(parameter_set: ParameterSet) -> LoweredModel:
    """Return the lowered, propagated model of every structural rule.

    Raises:
        LimitError: a rule relates too many parameters at once to be tabulated.
    """
    return Lowering(parameter_set).run()


@dataclass(frozen=True)
class _Helper:
    """A column and the value each of its codes stands for."""

    column: int
    values: tuple[int, ...]


@dataclass
class Lowering:
    """A model under construction; `ir.objective` resumes it to give an objective its helper columns."""

    parameter_set: ParameterSet
    columns: list[IRColumn] = field(default_factory=list)
    allowed: list[NDArray[np.int32]] = field(default_factory=list)
    constraints: list[Constraint] = field(default_factory=list)
    definitions: list[Table] = field(default_factory=list)
    helpers: dict[Term, _Helper] = field(default_factory=dict)
    deferred: list[tuple[Term, Term | None, Origin]] = field(default_factory=list)
    deferring: bool = True

    @cached_property
    def terms(self) -> Columns:
        """The design columns as terms, by name."""
        return {column.name: column.term for column in self.parameter_set.columns}

    def run(self) -> LoweredModel:
        for column in self.parameter_set.columns:
            self.columns.append(IRColumn(column.name, len(column.values)))
            self.allowed.append(np.arange(len(column.values), dtype=np.int32))
        for constraint in self.parameter_set.constraints:
            if not constraint.simulated:
                origin = Origin(constraint.name, constraint.text, constraint.where)
                self.require(normalise(constraint.term), None, origin)
        self.deferring = False
        self.shrink()
        for term, guard, origin in self.deferred:
            self.require(term, guard, origin)
        return self.shrink()

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
        return self.parameter_set.positions[name]

    # --- conditions -------------------------------------------------------------------------------------------

    def require(self, term: Term, guard: Term | None, origin: Origin) -> None:
        """Add constraints that make `term` true wherever `guard` (None: always) is."""
        if isinstance(term, Constant):
            if not term.value:
                self.add(Linear((), (), 1, None, origin), guard, origin)
        elif isinstance(term, Apply) and term.operator == "and":
            for operand in term.operands:
                self.require(operand, guard, origin)
        elif isinstance(term, Apply) and term.operator == "or":
            self.require_any(term, guard, origin)
        else:
            assert isinstance(term, Apply), term
            self.require_relation(term, guard, origin)

    def require_any(self, term: Apply, guard: Term | None, origin: Origin) -> None:
        """A disjunction: a table when narrow, else its widest part under the guard that the others fail."""
        if guard is None and self.combinations(term.columns) <= SMALL_TABLE:
            self.tabulate(term, None, origin)
            return
        widest = max(term.operands, key=lambda operand: self.combinations(operand.columns))
        others = [negate(operand) for operand in term.operands if operand is not widest]
        condition = [guard, *others] if guard is not None else others
        self.require(widest, condition[0] if len(condition) == 1 else Apply("and", tuple(condition)), origin)

    def require_relation(self, term: Apply, guard: Term | None, origin: Origin) -> None:
        """A relation, in the first form that fits it."""
        operator = term.operator
        combinations = self.combinations(term.columns)
        if guard is None and len(term.columns) == 1:
            self.tabulate(term, None, origin)
        elif (operator == "==" and self.as_exponents(term, guard, origin)) or (
            operator in ("==", "<=", "<", ">=", ">") and self.as_linear(term, guard, origin)
        ):
            return
        elif combinations <= SMALL_TABLE:
            self.tabulate(term, guard, origin)
        elif operator not in ("==", "!=") and self.as_product(term, guard, origin):
            return
        elif self.deferring:
            self.deferred.append((term, guard, origin))
        else:
            self.as_wide(term, guard, origin)

    def add(self, body: Linear | Product | Table, guard: Term | None, origin: Origin) -> None:
        """Add a constraint, conditional on `guard`."""
        if guard is None:
            self.constraints.append(body)
            return
        helper = self.helper_of(guard, condition=True)
        if helper.values == (1,):
            self.constraints.append(body)
        elif helper.values != (0,):
            self.constraints.append(Conditional(helper.column, body, origin))

    # --- forms ------------------------------------------------------------------------------------------------

    def as_exponents(self, term: Apply, guard: Term | None, origin: Origin) -> bool:
        """`product == product` as one linear equation per prime; False when it has another form."""
        if any(is_category(operand) for operand in term.operands):
            return False
        left_side, right_side = monomial(term.operands[0]), monomial(term.operands[1])
        if left_side is None or right_side is None:
            return False
        (a, left), (b, right) = left_side, right_side
        if len(left) + len(right) < 2:
            return False
        equations = exponent_equations(factor_values(left, self.terms), factor_values(right, self.terms), (a, b))
        if equations is None:
            return False
        for weights, target in equations:
            self.add(self.linear(weights, target, target, origin), guard, origin)
        return True

    def as_linear(self, term: Apply, guard: Term | None, origin: Origin) -> bool:
        """A relation between sums of single-column functions; False when a term reads several columns."""
        if any(is_category(operand) for operand in term.operands):
            return False
        parts = [*summands(term.operands[0]), *summands(term.operands[1], -1)]
        if any(len(part.columns) > 1 for _, part in parts):
            return False
        constant, weights = _gather(parts, self.terms)
        low, high = _range_of(term.operator, -constant)
        self.add(self.linear(weights, low, high, origin), guard, origin)
        return True

    def as_product(self, term: Apply, guard: Term | None, origin: Origin) -> bool:
        """`product <= constant` with factors that are not negative; False for other forms."""
        for side, other, operator in (
            (term.operands[0], term.operands[1], term.operator),
            (term.operands[1], term.operands[0], {"<": ">", ">": "<", "<=": ">=", ">=": "<="}[term.operator]),
        ):
            form = monomial(side)
            if form is None or not isinstance(other, Constant) or not isinstance(other.value, int):
                continue
            constant, factors = form
            values = factor_values(factors, self.terms)
            if constant <= 0 or len(values) < 2 or min(min(row) for row in values.values()) < 0:
                continue
            low, high = _range_of(operator, other.value)
            lower = None if low is None else -(-low // constant)
            upper = None if high is None else high // constant
            names = sorted(values, key=self.position)
            columns = tuple(self.position(name) for name in names)
            self.add(Product(columns, tuple(values[name] for name in names), lower, upper, origin), guard, origin)
            return True
        return False

    def linear(self, weights: Function, low: int | None, high: int | None, origin: Origin) -> Linear:
        """Return a linear constraint; columns whose weights are all equal become part of the bounds."""
        names = [name for name in sorted(weights, key=self.position) if len(set(weights[name])) > 1]
        fixed = sum(row[0] for name, row in weights.items() if name not in names)
        rows: Weights = tuple(weights[name] for name in names)
        low, high = _shift(low, -fixed), _shift(high, -fixed)
        return Linear(tuple(self.position(name) for name in names), rows, low, high, origin)

    def as_wide(self, term: Apply, guard: Term | None, origin: Origin) -> None:
        """A relation over many combinations: one table for one wide term, else a sum of helper columns.

        Separate helpers keep the relation a sum, which the diagram and the search can take apart.
        """
        if is_category(term.operands[0]) or is_category(term.operands[1]):
            self.tabulate(term, guard, origin)
            return
        parts = [*summands(term.operands[0]), *summands(term.operands[1], -1)]
        wide = [part for _, part in parts if len(part.columns) > 1]
        rest = {name for _, part in parts if len(part.columns) == 1 for name in part.columns}
        if len(wide) == 1 and rest <= wide[0].columns:
            try:
                self.tabulate(term, guard, origin)
                return
            except LimitError:
                if not isinstance(wide[0], Apply):
                    raise
        self.as_helpers(term.operator, parts, guard, origin)

    def as_helpers(self, operator: str, parts: Sequence[tuple[int, Term]], guard: Term | None, origin: Origin) -> None:
        """Give every term that reads several columns a helper column; relate the sum of them."""
        constant, columns, rows = self.weighted_sum(parts)
        if operator != "!=":
            low, high = _range_of(operator, -constant)
            self.add(Linear(columns, rows, low, high, origin), guard, origin)
            return
        total = self.chain("+", [_Helper(c, r) for c, r in zip(columns, rows, strict=True)], origin.name)
        codes = [code for code, value in enumerate(total.values) if value != -constant]
        table = np.array(codes, dtype=np.int32).reshape(-1, 1)
        self.add(Table((total.column,), table, origin), guard, origin)

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

    # --- tables and helpers -----------------------------------------------------------------------------------

    def combinations(self, names: frozenset[str]) -> int:
        return math.prod(len(self.allowed[self.position(name)]) for name in names)

    def rows(self, columns: Sequence[int]) -> NDArray[np.int32]:
        known = [*self.constraints, *self.definitions]
        return joint_rows(columns, self.columns, self.allowed, known)

    def evaluate_rows(self, term: Term, names: Sequence[str], rows: NDArray[np.int32]) -> Values:
        arrays: Mapping[str, Values] = {
            name: self.parameter_set.column(name).array[rows[:, position]] for position, name in enumerate(names)
        }
        return evaluate(term, arrays, len(rows))

    def tabulate(self, term: Term, guard: Term | None, origin: Origin) -> None:
        """Add the table of every combination for which `term` is true."""
        names = sorted(term.columns, key=self.position)
        columns = tuple(self.position(name) for name in names)
        rows = self.rows(columns)
        keep = np.asarray(self.evaluate_rows(term, names, rows), dtype=bool)
        self.add(Table(columns, rows[keep], origin), guard, origin)

    def helper_of(self, term: Term, *, condition: bool = False) -> _Helper:
        """Return a column whose codes stand for the values of `term`; a condition gets codes 0 and 1."""
        if len(term.columns) == 1 and not condition:
            (name,) = term.columns
            return _Helper(self.position(name), values_by_code(term, self.terms[name]))
        if term in self.helpers:
            return self.helpers[term]
        helper = self.make_helper(term)
        self.helpers[term] = helper
        return helper

    def make_helper(self, term: Term) -> _Helper:
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

    def chain(self, operator: str, operands: Sequence[_Helper], name: str) -> _Helper:
        """Join helper columns pairwise with an associative operator."""
        joined = operands[0]
        for operand in operands[1:]:
            left = ColumnTerm("left", joined.values, Unit.NONE)
            right = ColumnTerm("right", operand.values, Unit.NONE)
            joined = self.join(Apply(operator, (left, right)), [joined, operand], name)
        return joined

    def combine(self, term: Apply, operands: Sequence[_Helper], constants: Sequence[Constant]) -> _Helper:
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

    def join(self, term: Apply, operands: Sequence[_Helper], name: str) -> _Helper:
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

    def define(self, inputs: Sequence[int], rows: NDArray[np.int32], values: Values, name: str) -> _Helper:
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
        return _Helper(column, tuple(distinct))


def _gather(parts: Sequence[tuple[int, Term]], columns: Columns) -> tuple[int, Function]:
    """Return the constant and, per column, the summed weight of each code."""
    constant = 0
    weights: Function = {}
    for sign, part in parts:
        if isinstance(part, Constant):
            assert isinstance(part.value, int)
            constant += sign * part.value
            continue
        (name,) = part.columns
        values = tuple(sign * value for value in values_by_code(part, columns[name]))
        old = weights.get(name, (0,) * len(values))
        weights[name] = tuple(a + b for a, b in zip(old, values, strict=True))
    return constant, weights


def _range_of(operator: str, right: int) -> tuple[int | None, int | None]:
    """Return the closed range of integers x with `x operator right`."""
    return {
        "==": (right, right),
        "<=": (None, right),
        "<": (None, right - 1),
        ">=": (right, None),
        ">": (right + 1, None),
    }[operator]


def _shift(bound: int | None, by: int) -> int | None:
    return None if bound is None else bound + by
