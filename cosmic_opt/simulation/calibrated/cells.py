"""Designs that differ only in dp, pp or ZeRO stage share their layer: it is computed once for each distinct cell."""

from __future__ import annotations

from dataclasses import fields

import numpy as np
from numpy.typing import NDArray

from cosmic_opt.simulation.calibrated.job import FloatArray, Recompute, TrainingDesigns

LAYER_COLUMNS = ("tp", "cp", "ep", "interleave", "micro_batch", "capacity")
"""With recompute, all a layer, its collectives and the head depend on."""


def distinct_cells(designs: TrainingDesigns) -> tuple[TrainingDesigns, NDArray[np.intp]]:
    """Return one design per distinct layer, with dp = pp = 1, and for each design the index of its own."""
    columns = [getattr(designs, name) for name in LAYER_COLUMNS]
    shares = [getattr(designs.recompute, each.name) for each in fields(Recompute)]
    code = np.zeros(designs.tp.shape, dtype=np.int64)
    for column in (*columns, *shares):
        rank, size = _ranks(column)
        code = code * size + rank
    _, first, index = np.unique(code, return_index=True, return_inverse=True)
    chosen = {name: column[first] for name, column in zip(LAYER_COLUMNS, columns, strict=True)}
    again = Recompute(*(share[first] for share in shares))
    return TrainingDesigns.of(**chosen, recompute=again), index


def _ranks(column: FloatArray) -> tuple[NDArray[np.int64], int]:
    """Return a number below `size` for each value, equal for equal values."""
    low, high = column.min(), column.max()
    if low == high:
        return np.zeros(column.shape, dtype=np.int64), 1
    whole = column.astype(np.int64)
    span = int(high - low) + 1
    if span <= 4096 and np.array_equal(whole, column):
        return whole - int(low), span
    values, rank = np.unique(column, return_inverse=True)
    return rank.astype(np.int64), len(values)
