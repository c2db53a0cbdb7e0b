"""Shrink the codes of every column to those some constraint does not exclude, to a fixed point."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from cosmic_opt.ir.model import Conditional, Constraint, Linear, LoweredModel, Product, Table

Allowed = list[NDArray[np.int32]]


def propagate(model: LoweredModel) -> LoweredModel:
    """Return the model with shrunk columns, filtered tables, and without constraints that always hold."""
    allowed: Allowed = list(model.allowed)
    definitions, constraints = list(model.definitions), list(model.constraints)
    changed = True
    while changed and all(len(codes) for codes in allowed):
        sizes = [len(codes) for codes in allowed]
        definitions = [_filter(table, allowed) for table in definitions]
        constraints = [_narrow(constraint, allowed) for constraint in constraints]
        for constraint in (*definitions, *constraints):
            _shrink(constraint, allowed)
        changed = sizes != [len(codes) for codes in allowed]
    if all(len(codes) for codes in allowed):
        constraints = [constraint for constraint in constraints if not _always(constraint, allowed)]
    return replace(model, allowed=tuple(allowed), definitions=tuple(definitions), constraints=tuple(constraints))


def _filter(table: Table, allowed: Allowed) -> Table:
    keep = np.ones(len(table.rows), dtype=bool)
    for position, column in enumerate(table.columns):
        keep &= np.isin(table.rows[:, position], allowed[column])
    return table if keep.all() else replace(table, rows=table.rows[keep])


def _narrow(constraint: Constraint, allowed: Allowed) -> Constraint:
    """Drop table rows that cannot occur; replace a conditional whose guard is settled to true by its body."""
    if isinstance(constraint, Table):
        return _filter(constraint, allowed)
    if not isinstance(constraint, Conditional):
        return constraint
    body = _filter(constraint.body, allowed) if isinstance(constraint.body, Table) else constraint.body
    if list(allowed[constraint.column]) == [1]:
        return body
    return constraint if body is constraint.body else replace(constraint, body=body)


def _shrink(constraint: Constraint, allowed: Allowed) -> None:
    match constraint:
        case Table(columns, rows, _):
            if not columns and len(rows) == 0:
                _empty(allowed)
            for position, column in enumerate(columns):
                allowed[column] = np.intersect1d(allowed[column], rows[:, position]).astype(np.int32)
        case Linear(columns, weights, lower, upper, _):
            _shrink_sum(columns, weights, lower, upper, allowed)
        case Product(columns, factors, lower, upper, _):
            _shrink_product(columns, factors, lower, upper, allowed)
        case Conditional(column, body, _):
            if not _possible(body, allowed):
                allowed[column] = allowed[column][allowed[column] != 1]


def _empty(allowed: Allowed) -> None:
    allowed[0] = allowed[0][:0]


def _ends(columns: Sequence[int], weights: Sequence[Sequence[int]], allowed: Allowed) -> tuple[list[int], list[int]]:
    """Return the least and the greatest allowed weight of each column."""
    lows, highs = [], []
    for column, row in zip(columns, weights, strict=True):
        values = [row[code] for code in allowed[column]]
        lows.append(min(values, default=0))
        highs.append(max(values, default=0))
    return lows, highs


def _shrink_sum(
    columns: Sequence[int],
    weights: Sequence[Sequence[int]],
    lower: int | None,
    upper: int | None,
    allowed: Allowed,
) -> None:
    lows, highs = _ends(columns, weights, allowed)
    low, high = sum(lows), sum(highs)
    if (upper is not None and low > upper) or (lower is not None and high < lower):
        _empty(allowed)
        return
    for position, (column, row) in enumerate(zip(columns, weights, strict=True)):
        least, most = low - lows[position], high - highs[position]
        keep = [
            (upper is None or least + row[code] <= upper) and (lower is None or most + row[code] >= lower)
            for code in allowed[column]
        ]
        allowed[column] = allowed[column][np.array(keep, dtype=bool)]


def _shrink_product(
    columns: Sequence[int],
    factors: Sequence[Sequence[int]],
    lower: int | None,
    upper: int | None,
    allowed: Allowed,
) -> None:
    for position, (column, row) in enumerate(zip(columns, factors, strict=True)):
        lows, highs = _ends(columns, factors, allowed)
        least = most = 1
        for other, (low, high) in enumerate(zip(lows, highs, strict=True)):
            if other != position:
                least, most = least * low, most * high
        keep = [
            (upper is None or least * row[code] <= upper) and (lower is None or most * row[code] >= lower)
            for code in allowed[column]
        ]
        allowed[column] = allowed[column][np.array(keep, dtype=bool)]


def _bounds(constraint: Linear | Product, allowed: Allowed) -> tuple[int, int]:
    weights = constraint.weights if isinstance(constraint, Linear) else constraint.factors
    lows, highs = _ends(constraint.columns, weights, allowed)
    if isinstance(constraint, Linear):
        return sum(lows), sum(highs)
    low = high = 1
    for least, most in zip(lows, highs, strict=True):
        low, high = low * least, high * most
    return low, high


def _possible(body: Linear | Product | Table, allowed: Allowed) -> bool:
    """Tell whether bounds (or rows) leave the body a chance."""
    if isinstance(body, Table):
        return len(_filter(body, allowed).rows) > 0
    low, high = _bounds(body, allowed)
    return (body.upper is None or low <= body.upper) and (body.lower is None or high >= body.lower)


def _always(constraint: Constraint, allowed: Allowed) -> bool:
    """Tell whether every combination of allowed codes satisfies the constraint."""
    if isinstance(constraint, Conditional):
        return 1 not in allowed[constraint.column] or _always(constraint.body, allowed)
    if isinstance(constraint, Table):
        combinations = 1
        for column in constraint.columns:
            combinations *= len(allowed[column])
        return len(_filter(constraint, allowed).rows) == combinations
    low, high = _bounds(constraint, allowed)
    return (constraint.lower is None or low >= constraint.lower) and (
        constraint.upper is None or high <= constraint.upper
    )
