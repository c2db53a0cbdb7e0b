"""The reference meaning of a rule: vectorised NumPy over a batch. Every engine must agree with it, always."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cosmic_opt.errors import SpecError
from cosmic_opt.psa.parameter_set import Constraint, DesignBatch
from cosmic_opt.psa.quantity import Values
from cosmic_opt.psa.term import SAFE, Apply, ColumnTerm, Constant, QuantityPart, Simulated, Term, magnitude

BoolArray = NDArray[np.bool_]


def evaluate(term: Term, columns: Mapping[str, Values], rows: int) -> Values:
    """Return the value of `term` for each of `rows` designs; a condition gives 0 or 1.

    Integers are exact: where a number may pass 2^62, Python integers replace int64.
    """
    return _evaluate(term, columns, rows, wide=magnitude(term) >= SAFE)


def holds(constraint: Constraint, batch: DesignBatch) -> BoolArray:
    """Return which designs satisfy the rule; a rule on a simulated quantity is not this function's to judge."""
    columns = batch.value_columns(constraint.term.columns)
    return np.asarray(evaluate(constraint.term, columns, len(batch)), dtype=bool)


def feasible(batch: DesignBatch) -> BoolArray:
    """Return which designs satisfy every structural rule."""
    verdict = np.ones(len(batch), dtype=bool)
    for constraint in batch.parameter_set.constraints:
        if not constraint.simulated:
            verdict &= holds(constraint, batch)
    return verdict


def _evaluate(term: Term, columns: Mapping[str, Values], rows: int, *, wide: bool) -> Values:
    match term:
        case Constant(value, _):
            return np.full(rows, value, dtype=object if wide and isinstance(value, int) else None)
        case ColumnTerm(name, values, _):
            array = columns[name]
            return array.astype(object) if wide and isinstance(values[0], int) else array
        case QuantityPart():
            given = {name: np.full(rows, value) for name, value in term.given}
            arguments = {**{name: columns[name] for name in term.columns}, **given}
            result: Values = term.term.evaluate(arguments)
            return result.astype(object) if wide else result
        case Simulated():
            raise SpecError(f"{term.name!r} is simulated: only solve, enumerate and sample can check it")
        case Apply(operator, operands, _):
            parts = [_evaluate(operand, columns, rows, wide=wide) for operand in operands]
            return _apply(operator, parts)


def _apply(operator: str, parts: list[Values]) -> Values:
    if operator in _FOLDS:
        result = parts[0]
        for part in parts[1:]:
            result = _FOLDS[operator](result, part)
        return result
    if operator == "neg":
        return np.asarray(-parts[0])
    if operator == "not":
        return _truth(parts[0]) ^ 1
    return np.asarray(_PAIRS[operator](parts[0], parts[1]))


def _truth(values: Values) -> NDArray[np.int64]:
    return np.asarray(values, dtype=bool).astype(np.int64)


_FOLDS: dict[str, Any] = {
    "+": np.add,
    "*": np.multiply,
    "min": np.minimum,
    "max": np.maximum,
    "and": lambda left, right: _truth(left) & _truth(right),
    "or": lambda left, right: _truth(left) | _truth(right),
}
_PAIRS: dict[str, Any] = {
    "//": lambda left, right: left // right,
    "%": lambda left, right: left % right,
    "==": lambda left, right: _truth(left == right),
    "!=": lambda left, right: _truth(left != right),
    "<=": lambda left, right: _truth(left <= right),
    "<": lambda left, right: _truth(left < right),
    ">=": lambda left, right: _truth(left >= right),
    ">": lambda left, right: _truth(left > right),
    "implies": lambda left, right: (_truth(left) ^ 1) | _truth(right),
}
