"""Keep one of the codes that no constraint tells apart, and list what it stands for."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from cosmic_opt.ir.model import Conditional, Constraint, Linear, LoweredModel, Product, Rows, Table
from cosmic_opt.ir.passes.propagate import propagate

BATCH = 4096
"""About so many designs are listed at a time."""


@dataclass(frozen=True)
class Alike:
    """A model in which every design stands for all that differ from it by codes that are alike.

    Two codes of a column are alike where every constraint treats them equally, whatever the other columns are: equal
    weights, the same guard, the same rows beside them in a table. So each is feasible where the other is.

    Attributes:
        model: The model with the least code of each class.
        classes: Per design column, the codes that each code left stands for, in ascending order.
    """

    model: LoweredModel
    classes: tuple[dict[int, NDArray[np.int32]], ...]

    @classmethod
    def of(cls, model: LoweredModel) -> Alike:
        """Return the classes of a model's design columns; helper columns follow from those and stay as they are."""
        classes = tuple(_classes(model, column) for column in range(model.designs))
        kept = tuple(np.array(list(own), dtype=np.int32) for own in classes)
        return cls(propagate(replace(model, allowed=(*kept, *model.allowed[model.designs :]))), classes)

    def members(self, designs: Rows) -> Iterator[Rows]:
        """Yield all that distinct designs of the model stand for, each once, in batches."""
        yield from self._members(
            designs, [at for at, own in enumerate(self.classes) if max(map(len, own.values())) > 1]
        )

    def _members(self, designs: Rows, columns: Sequence[int]) -> Iterator[Rows]:
        """Yield the designs with each of the columns' codes replaced by every code of its class."""
        if not columns:
            yield designs
            return
        column, *rest = columns
        own = [self.classes[column][code] for code in designs[:, column].tolist()]
        sizes = np.array([len(codes) for codes in own])
        batch_of = np.cumsum(sizes) // BATCH
        for batch in np.unique(batch_of):
            chosen = np.flatnonzero(batch_of == batch)
            part = np.repeat(designs[chosen], sizes[chosen], axis=0)
            part[:, column] = np.concatenate([own[at] for at in chosen])
            yield from self._members(part, rest)


def _classes(model: LoweredModel, column: int) -> dict[int, NDArray[np.int32]]:
    """Return the allowed codes of a column that are alike, by the least of them."""
    codes = model.allowed[column].tolist()
    treated: dict[int, list[Hashable]] = {code: [] for code in codes}
    for constraint in model.all_constraints():
        for treatment in _treatments(constraint, column):
            for code in codes:
                treated[code].append(treatment.get(code))
    classes: dict[Hashable, list[int]] = defaultdict(list)
    for code in codes:
        classes[tuple(treated[code])].append(code)
    return {own[0]: np.array(own, dtype=np.int32) for own in classes.values()}


def _treatments(constraint: Constraint, column: int) -> Iterator[dict[int, Hashable]]:
    """Yield what each code of the column is to a constraint, for each place at which it reads the column."""
    match constraint:
        case Conditional(guard, body, _):
            if guard == column:
                yield {1: True}
            yield from _treatments(body, column)
        case Linear(columns, weights, _, _, _) | Product(columns, weights, _, _, _):
            for own, row in zip(columns, weights, strict=True):
                if own == column:
                    yield dict(enumerate(row))
        case Table(columns, rows, _):
            for at, own in enumerate(columns):
                if own == column:
                    yield dict(_rows_beside(rows, at))


def _rows_beside(rows: Rows, at: int) -> Iterator[tuple[int, bytes]]:
    """Yield each code in a table's column `at`, and what the table has beside it."""
    beside = np.delete(rows, at, axis=1)
    order = np.lexsort((*beside.T, rows[:, at]))
    codes, starts = np.unique(rows[order, at], return_index=True)
    ends = np.append(starts, len(rows))[1:]
    for code, start, end in zip(codes.tolist(), starts, ends, strict=True):
        yield code, beside[order[start:end]].tobytes()
