"""List the rows of codes that a few columns can take, pruned by the constraints already lowered."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from cosmic_opt.errors import LimitError
from cosmic_opt.ir.check import satisfied
from cosmic_opt.ir.model import Conditional, Constraint, IRColumn, Linear, LoweredModel, Product, Rows, Table

ROW_LIMIT = 4_000_000
"""A table with more rows is refused: tens of megabytes per column."""


def joint_rows(
    columns: Sequence[int],
    model_columns: Sequence[IRColumn],
    allowed: Sequence[NDArray[np.int32]],
    constraints: Sequence[Constraint],
    limit: int = ROW_LIMIT,
    *,
    beyond: bool = False,
) -> Rows:
    """Return every row over `columns` (in lexicographic order) that the constraints within them allow.

    With those that reach `beyond` the columns, too: they exclude what they exclude whatever the other columns are.

    Raises:
        LimitError: more than `limit` rows would be held.
    """
    relevant = [constraint for constraint in constraints if _restricts(constraint, frozenset(columns), beyond=beyond)]
    model = LoweredModel(tuple(model_columns), (), tuple(allowed), (), len(model_columns))
    rows = np.zeros((1, 0), dtype=np.int32)
    for position, column in enumerate(columns):
        codes = allowed[column]
        if len(rows) * len(codes) > 8 * limit:
            raise _too_many(columns, model_columns, limit)
        left = np.repeat(rows, len(codes), axis=0)
        right = np.tile(codes, len(rows)).reshape(-1, 1)
        rows = np.hstack([left, right]).astype(np.int32)
        done = list(columns[: position + 1])
        for constraint in relevant:
            if column in constraint.columns:
                rows = rows[_possible(constraint, model, rows, done)]
        if len(rows) > limit:
            raise _too_many(columns, model_columns, limit)
    return rows


def _too_many(columns: Sequence[int], model_columns: Sequence[IRColumn], limit: int) -> LimitError:
    names = ", ".join(model_columns[column].name for column in columns)
    return LimitError(
        f"a rule relates {names} in more than {limit:,} ways",
        hint="shorten a domain, or split the rule into rules over fewer parameters",
    )


def _restricts(constraint: Constraint, columns: frozenset[int], *, beyond: bool) -> bool:
    """Tell whether a constraint can exclude a row; one that reads a single column has shrunk that column before."""
    if columns.issuperset(constraint.columns):
        return True
    return beyond and not isinstance(constraint, Conditional) and len(columns.intersection(constraint.columns)) > 1


def _possible(
    constraint: Constraint,
    model: LoweredModel,
    rows: Rows,
    done: Sequence[int],
) -> NDArray[np.bool_]:
    """Return which rows over the columns `done` the constraint does not yet exclude."""
    full = np.zeros((len(rows), len(model.columns)), dtype=np.int32)
    full[:, list(done)] = rows
    if set(constraint.columns) <= set(done):
        return satisfied(constraint, model, full)
    if isinstance(constraint, Conditional):
        return np.ones(len(rows), dtype=bool)
    return satisfied(_of_known(constraint, done, model.allowed), model, full)


def _of_known(
    constraint: Linear | Product | Table, done: Sequence[int], allowed: Sequence[NDArray[np.int32]]
) -> Linear | Product | Table:
    """Return what a constraint demands of its columns that are `done`, whatever the codes of the others are."""
    known = [at for at, column in enumerate(constraint.columns) if column in done]
    columns = tuple(constraint.columns[at] for at in known)
    if isinstance(constraint, Table):
        return Table(columns, constraint.rows[:, known], constraint.origin)
    weights = constraint.weights if isinstance(constraint, Linear) else constraint.factors
    own = tuple(weights[at] for at in known)
    rest = [
        [weights[at][code] for code in allowed[column]]
        for at, column in enumerate(constraint.columns)
        if column not in done
    ]
    lows, highs = [min(row, default=0) for row in rest], [max(row, default=0) for row in rest]
    lower, upper, origin = constraint.lower, constraint.upper, constraint.origin
    if isinstance(constraint, Linear):
        lower = None if lower is None else lower - sum(highs)
        upper = None if upper is None else upper - sum(lows)
        return Linear(columns, own, lower, upper, origin)
    least, most = math.prod(lows), math.prod(highs)  # 0 where the others may make the product 0: nothing is demanded
    lower = None if lower is None or most == 0 else -(-lower // most)
    upper = None if upper is None or least == 0 else upper // least
    return Product(columns, own, lower, upper, origin)
