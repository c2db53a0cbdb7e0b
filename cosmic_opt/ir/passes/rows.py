"""List the rows of codes that a few columns can take, pruned by the constraints already lowered."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from cosmic_opt.errors import LimitError
from cosmic_opt.ir.check import satisfied
from cosmic_opt.ir.model import Constraint, IRColumn, Linear, LoweredModel, Rows

ROW_LIMIT = 4_000_000
"""A table with more rows is refused: tens of megabytes per column."""


def joint_rows(
    columns: Sequence[int],
    model_columns: Sequence[IRColumn],
    allowed: Sequence[NDArray[np.int32]],
    constraints: Sequence[Constraint],
    limit: int = ROW_LIMIT,
) -> Rows:
    """Return every row over `columns` (in lexicographic order) that the constraints within them allow.

    Raises:
        LimitError: more than `limit` rows would be held.
    """
    relevant = [constraint for constraint in constraints if set(constraint.columns) <= set(columns)]
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
                rows = rows[_possible(constraint, model, rows, done, allowed)]
        if len(rows) > limit:
            raise _too_many(columns, model_columns, limit)
    return rows


def _too_many(columns: Sequence[int], model_columns: Sequence[IRColumn], limit: int) -> LimitError:
    names = ", ".join(model_columns[column].name for column in columns)
    return LimitError(
        f"a rule relates {names} in more than {limit:,} ways",
        hint="shorten a domain, or split the rule into rules over fewer parameters",
    )


def _possible(
    constraint: Constraint,
    model: LoweredModel,
    rows: Rows,
    done: Sequence[int],
    allowed: Sequence[NDArray[np.int32]],
) -> NDArray[np.bool_]:
    """Return which rows over the columns `done` the constraint does not yet exclude."""
    full = np.zeros((len(rows), len(model.columns)), dtype=np.int32)
    full[:, list(done)] = rows
    if set(constraint.columns) <= set(done):
        return satisfied(constraint, model, full)
    if not isinstance(constraint, Linear):
        return np.ones(len(rows), dtype=bool)
    total = np.zeros(len(rows), dtype=object)
    low = high = 0
    for column, weights in zip(constraint.columns, constraint.weights, strict=True):
        if column in done:
            total += np.array(weights, dtype=object)[full[:, column]]
        else:
            rest = [weights[code] for code in allowed[column]]
            low, high = low + min(rest, default=0), high + max(rest, default=0)
    verdict = np.ones(len(rows), dtype=bool)
    if constraint.lower is not None:
        verdict &= np.asarray(total + high >= constraint.lower, dtype=bool)
    if constraint.upper is not None:
        verdict &= np.asarray(total + low <= constraint.upper, dtype=bool)
    return verdict
