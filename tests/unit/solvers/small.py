"""Lowered models written by hand."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from cosmic_opt.errors import Where
from cosmic_opt.ir.model import Constraint, IRColumn, LoweredModel, Origin, Table

ORIGIN = Origin("budget", "a + b <= 3", Where("model.yaml", 7, "constraints.budget"))


def model_of(sizes: Iterable[int], *constraints: Constraint) -> LoweredModel:
    """Return a model with one design column per size, every code allowed."""
    sizes = tuple(sizes)
    columns = tuple(IRColumn(f"c{at}", size) for at, size in enumerate(sizes))
    allowed = tuple(np.arange(size, dtype=np.int32) for size in sizes)
    return LoweredModel(columns, constraints, allowed, (), len(sizes))


def table(columns: tuple[int, ...], *rows: tuple[int, ...]) -> Table:
    """Return a table constraint."""
    return Table(columns, np.array(rows, dtype=np.int32).reshape(-1, len(columns)), ORIGIN)
