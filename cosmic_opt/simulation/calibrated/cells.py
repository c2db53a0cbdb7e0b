"""Designs that differ only in dp, pp or ZeRO stage share their layer: it is computed once for each distinct cell."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import fields

import numpy as np
from numpy.typing import NDArray

from cosmic_opt.simulation.calibrated.job import Recompute, TrainingDesigns

LAYER_COLUMNS = ("tp", "cp", "ep", "interleave", "micro_batch", "capacity")
"""With recompute, all a layer, its collectives and the head depend on."""
MOST_SPAN = 1 << 12
"""Whole numbers no further apart are their own ranks; others are sorted."""
MOST_CODES = 1 << 20
"""Rows of at most so many combinations of ranks are found by place, more by sorting."""

Places = NDArray[np.intp]
Ranks = NDArray[np.int64]


def distinct_cells(designs: TrainingDesigns) -> tuple[TrainingDesigns, Places]:
    """Return one design per distinct layer, with dp = pp = 1, and for each design the index of its own."""
    columns = [getattr(designs, name) for name in LAYER_COLUMNS]
    shares = [getattr(designs.recompute, each.name) for each in fields(Recompute)]
    first, index = distinct_rows([*columns, *shares])
    chosen = {name: column[first] for name, column in zip(LAYER_COLUMNS, columns, strict=True)}
    again = Recompute(*(share[first] for share in shares))
    return TrainingDesigns.of(**chosen, recompute=again), index


def distinct_rows(columns: Iterable[NDArray[np.float64] | NDArray[np.int64]]) -> tuple[Places, Places]:
    """Return the first row of each distinct one, in the order of their values, and for each row the place of its own.

    Args:
        columns: At least one, of n numbers each.
    """
    code, size = np.zeros(1, dtype=np.int64), 1
    for column in columns:
        rank, span = _ranks(column)
        if size * span > np.iinfo(np.int64).max:
            values, code = np.unique(code, return_inverse=True)
            size = len(values)
        code, size = code * span + rank, size * span
    if size > MOST_CODES:
        _, first, index = np.unique(code, return_index=True, return_inverse=True)
        return first, index
    first = np.full(size, -1, dtype=np.intp)
    first[code[::-1]] = np.arange(len(code))[::-1]
    present = first >= 0
    return first[present], (np.cumsum(present) - 1)[code]


def _ranks(column: NDArray[np.float64] | NDArray[np.int64]) -> tuple[Ranks, int]:
    """Return a number below `size` for each value, in the order of values, equal for equal ones."""
    low, high = (column.min(), column.max()) if len(column) else (0, 0)
    if low == high:
        return np.zeros(column.shape, dtype=np.int64), 1
    whole = column.astype(np.int64)
    span = int(high - low) + 1
    if span <= MOST_SPAN and np.array_equal(whole, column):
        return whole - int(low), span
    values, rank = np.unique(column, return_inverse=True)
    return rank.astype(np.int64), len(values)
