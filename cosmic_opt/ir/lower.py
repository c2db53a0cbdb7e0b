"""Lower the rules of a parameter set to the intermediate form, keeping the feasible set exactly.

Rules are taken apart at 'and'; a relation becomes, in this order of preference: a filter of one column, a sum of
prime exponents, a linear relation, a product, a table over its columns, or a linear relation between helper columns.
'or' and 'implies' become tables when narrow and conditionals otherwise.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from cosmic_opt.errors import LimitError
from cosmic_opt.ir.draft import Draft, Helper
from cosmic_opt.ir.model import Conditional, Linear, LoweredModel, Origin, Product, Table, Weights
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
from cosmic_opt.psa.parameter_set import ParameterSet
from cosmic_opt.psa.term import Apply, Constant, Term, is_category

SMALL_TABLE = 1 << 12
"""A relation with at most so many combinations is tabulated before anything cleverer is tried."""


def lower(parameter_set: ParameterSet) -> LoweredModel:
    """Return the lowered, propagated model of every structural rule.

    Raises:
        LimitError: a rule relates too many parameters at once to be tabulated.
    """
    return Lowering(Draft.of(parameter_set)).run()


@dataclass
class Lowering:
    """The rules of a parameter set, taken apart into constraints of a draft."""

    draft: Draft
    deferred: list[tuple[Term, Term | None, Origin]] = field(default_factory=list)
    deferring: bool = True

    def run(self) -> LoweredModel:
        """Lower every rule; what is wide waits until the others have left it fewer rows."""
        for constraint in self.draft.parameter_set.constraints:
            if not constraint.simulated:
                origin = Origin(constraint.name, constraint.text, constraint.where)
                self.require(normalise(constraint.term), None, origin)
        self.deferring = False
        self.draft.shrink()
        for term, guard, origin in self.deferred:
            self.require(term, guard, origin)
        return self.draft.shrink()

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
        if guard is None and self.draft.combinations(term.columns) <= SMALL_TABLE:
            self.tabulate(term, None, origin)
            return
        widest = max(term.operands, key=lambda operand: self.draft.combinations(operand.columns))
        others = [negate(operand) for operand in term.operands if operand is not widest]
        condition = [guard, *others] if guard is not None else others
        self.require(widest, condition[0] if len(condition) == 1 else Apply("and", tuple(condition)), origin)

    def require_relation(self, term: Apply, guard: Term | None, origin: Origin) -> None:
        """A relation, in the first form that fits it."""
        operator = term.operator
        combinations = self.draft.combinations(term.columns)
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

    def tabulate(self, term: Term, guard: Term | None, origin: Origin) -> None:
        """Add the table of every combination for which `term` is true."""
        self.add(self.draft.table_of(term, origin), guard, origin)

    def tabulate_wide(self, term: Term, guard: Term | None, origin: Origin) -> None:
        """Add the table of a term of many combinations, of which the other rules leave fewer."""
        self.add(self.draft.wide_table_of(term, origin), guard, origin)

    def add(self, body: Linear | Product | Table, guard: Term | None, origin: Origin) -> None:
        """Add a constraint, conditional on `guard`."""
        if guard is None:
            self.draft.constraints.append(body)
            return
        helper = self.draft.helper_of(guard, condition=True)
        if helper.values == (1,):
            self.draft.constraints.append(body)
        elif helper.values != (0,):
            self.draft.constraints.append(Conditional(helper.column, body, origin))

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
        terms = self.draft.terms
        equations = exponent_equations(factor_values(left, terms), factor_values(right, terms), (a, b))
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
        constant, weights = _gather(parts, self.draft.terms)
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
            values = factor_values(factors, self.draft.terms)
            if constant <= 0 or len(values) < 2 or min(min(row) for row in values.values()) < 0:
                continue
            low, high = _range_of(operator, other.value)
            lower = None if low is None else -(-low // constant)
            upper = None if high is None else high // constant
            names = sorted(values, key=self.draft.position)
            columns = tuple(self.draft.position(name) for name in names)
            self.add(Product(columns, tuple(values[name] for name in names), lower, upper, origin), guard, origin)
            return True
        return False

    def linear(self, weights: Function, low: int | None, high: int | None, origin: Origin) -> Linear:
        """Return a linear constraint; columns whose weights are all equal become part of the bounds."""
        names = [name for name in sorted(weights, key=self.draft.position) if len(set(weights[name])) > 1]
        fixed = sum(row[0] for name, row in weights.items() if name not in names)
        rows: Weights = tuple(weights[name] for name in names)
        low, high = _shift(low, -fixed), _shift(high, -fixed)
        return Linear(tuple(self.draft.position(name) for name in names), rows, low, high, origin)

    def as_wide(self, term: Apply, guard: Term | None, origin: Origin) -> None:
        """A relation over many combinations: one table where one term reads all its columns, else a sum of helpers.

        Separate helpers keep the relation a sum, which the diagram and the search can take apart. A quantity's term
        that reads every column has no parts, and its helper's table as many rows as the relation's own.
        """
        if is_category(term.operands[0]) or is_category(term.operands[1]):
            self.tabulate_wide(term, guard, origin)
            return
        parts = [*summands(term.operands[0]), *summands(term.operands[1], -1)]
        wide = [part for _, part in parts if len(part.columns) > 1]
        whole = [part for part in wide if part.columns == term.columns]
        indivisible = any(not isinstance(part, Apply) for part in whole)
        if indivisible or (whole and len(wide) == 1):
            try:
                self.tabulate_wide(term, guard, origin)
                return
            except LimitError:
                if indivisible:
                    raise
        self.as_helpers(term.operator, parts, guard, origin)

    def as_helpers(self, operator: str, parts: Sequence[tuple[int, Term]], guard: Term | None, origin: Origin) -> None:
        """Give every term that reads several columns a helper column; relate the sum of them."""
        constant, columns, rows = self.draft.weighted_sum(parts)
        if operator != "!=":
            low, high = _range_of(operator, -constant)
            self.add(Linear(columns, rows, low, high, origin), guard, origin)
            return
        total = self.draft.chain("+", [Helper(c, r) for c, r in zip(columns, rows, strict=True)], origin.name)
        codes = [code for code, value in enumerate(total.values) if value != -constant]
        table = np.array(codes, dtype=np.int32).reshape(-1, 1)
        self.add(Table((total.column,), table, origin), guard, origin)


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
