"""Compile one component of a lowered model into a layered decision diagram by a forward frontier.

Columns are added one at a time. A state is what the rest of the component still needs to know: the partial sum or
product of each open constraint and the codes of columns that an open table reads. Equal states are one node. This is
variable elimination run forward; its width is the number of states of a layer.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from cosmic_opt.errors import LimitError
from cosmic_opt.ir.check import satisfied
from cosmic_opt.ir.model import Conditional, Constraint, Linear, LoweredModel, Product, Table

ARC_LIMIT = 30_000_000
"""A layer that would hold more arcs is refused: about a gigabyte."""

SETTLED = np.iinfo(np.int64).min
"""Stands for a partial sum or product that can no longer matter."""

IntArray = NDArray[np.int64]
Field = tuple[str, int]
"""("code", column) or ("total", position of the constraint)."""


@dataclass(frozen=True)
class Layer:
    """The arcs that choose one column, sorted by (parent, code)."""

    column: int
    parent: IntArray
    code: NDArray[np.int32]
    child: IntArray
    parents: int
    children: int

    def take(self, keep: NDArray[np.bool_]) -> Layer:
        """Return the layer with only the arcs to keep; nodes keep their numbers."""
        return replace(self, parent=self.parent[keep], code=self.code[keep], child=self.child[keep])


def compile_layers(model: LoweredModel, order: Sequence[int]) -> list[Layer]:
    """Return the layers of the component whose columns are `order`, in that order.

    Raises:
        LimitError: a layer outgrows memory, or a sum outgrows 62 bits.
    """
    inside = {column for column in order if len(model.allowed[column]) > 1}
    constraints = [constraint for constraint in model.all_constraints() if set(constraint.columns) & inside]
    frontier = _Frontier(model, order, constraints)
    return [frontier.advance(position) for position in range(len(order))]


class _Frontier:
    def __init__(self, model: LoweredModel, order: Sequence[int], constraints: Sequence[Constraint]) -> None:
        self.model = model
        self.order = order
        self.constraints = constraints
        self.place = {column: position for position, column in enumerate(order)}
        self.settled_codes = {
            column: int(codes[0]) for column, codes in enumerate(model.allowed) if column not in self.place
        }
        self.last = [max((self.place[c] for c in k.columns if c in self.place), default=-1) for k in constraints]
        self.fields: list[Field] = []
        self.states: IntArray = np.zeros((1, 0), dtype=np.int64)
        self._check_range()

    def _check_range(self) -> None:
        for constraint in self.constraints:
            body = constraint.body if isinstance(constraint, Conditional) else constraint
            if isinstance(body, Table):
                continue
            total = 1
            for row in _weights(body):
                largest = max(map(abs, row), default=0)
                total = total * max(1, largest) if isinstance(body, Product) else total + largest
            if total >= 2**62:
                raise LimitError(
                    f"rule {constraint.origin.name!r} adds numbers beyond 2^62",
                    where=constraint.origin.where,
                    hint="use a larger unit, or fewer parameters in the rule",
                )

    def advance(self, position: int) -> Layer:
        """Add the column at `position` and return its layer."""
        column = self.order[position]
        codes = self.model.allowed[column]
        nodes = len(self.states)
        if nodes * len(codes) > ARC_LIMIT:
            name = self.model.columns[column].name
            raise LimitError(
                f"counting needs more than {ARC_LIMIT:,} arcs at {name!r}", hint="fix a parameter or drop a rule"
            )
        parent = np.repeat(np.arange(nodes, dtype=np.int64), len(codes))
        code = np.tile(codes, nodes)
        known = {field: self.states[parent, at] for at, field in enumerate(self.fields)}
        known["code", column] = code.astype(np.int64)
        keep = np.ones(len(parent), dtype=bool)
        for k, constraint in enumerate(self.constraints):
            if column in constraint.columns:
                self._apply(k, constraint, position, known, keep)
        parent, code = parent[keep], code[keep]
        fields = [field for field in known if self._needed(field, position)]
        states = (
            np.column_stack([known[field][keep] for field in fields])
            if fields
            else np.zeros((len(parent), 0), dtype=np.int64)
        )
        self.states, child = _distinct(states)
        self.fields = fields
        return Layer(column, parent, code, child, nodes, len(self.states))

    def _needed(self, field: Field, position: int) -> bool:
        kind, number = field
        if kind == "total":
            return self.last[number] > position
        return any(
            self.last[k] > position and self._reads_code(constraint, number)
            for k, constraint in enumerate(self.constraints)
        )

    @staticmethod
    def _reads_code(constraint: Constraint, column: int) -> bool:
        if isinstance(constraint, Conditional):
            return column == constraint.column or (
                isinstance(constraint.body, Table) and column in constraint.body.columns
            )
        return isinstance(constraint, Table) and column in constraint.columns

    def _apply(
        self, k: int, constraint: Constraint, position: int, known: dict[Field, IntArray], keep: NDArray[np.bool_]
    ) -> None:
        """Update the running total of a constraint and drop the arcs it excludes."""
        body = constraint.body if isinstance(constraint, Conditional) else constraint
        if isinstance(body, Table):
            if self.last[k] == position:
                keep &= self._satisfied(constraint, known, len(keep))
            return
        total, settled = self._total(k, body, position, known, len(keep))
        low, high = self._rest(body, position)
        least, most = _span(body, total, low, high)
        possible, always = np.ones(len(keep), dtype=bool), np.ones(len(keep), dtype=bool)
        if body.upper is not None:
            possible &= least <= body.upper
            always &= most <= body.upper
        if body.lower is not None:
            possible &= most >= body.lower
            always &= least >= body.lower
        active = np.ones(len(keep), dtype=bool)
        if isinstance(constraint, Conditional):
            guard = self._code(constraint.column, known, len(keep))
            active = np.zeros(len(keep), dtype=bool) if guard is None else guard == 1
            if guard is not None:
                always |= guard != 1
        keep &= ~active | possible | settled
        total[always | settled] = SETTLED
        known["total", k] = total

    def _total(
        self, k: int, body: Linear | Product, position: int, known: dict[Field, IntArray], rows: int
    ) -> tuple[IntArray, NDArray[np.bool_]]:
        """Return the running total including this layer's column, and where it no longer matters."""
        product = isinstance(body, Product)
        weights = _weights(body)
        start = int(product)
        for column, row in zip(body.columns, weights, strict=True):
            if column in self.settled_codes:
                value = row[self.settled_codes[column]]
                start = start * value if product else start + value
        total = known["total", k].copy() if ("total", k) in known else np.full(rows, start, dtype=np.int64)
        settled = total == SETTLED
        column = self.order[position]
        if column in body.columns:
            own = np.array(weights[body.columns.index(column)], dtype=np.int64)[known["code", column]]
            total[~settled] = total[~settled] * own[~settled] if product else total[~settled] + own[~settled]
        return total, settled

    def _rest(self, body: Linear | Product, position: int) -> tuple[int, int]:
        """Return the least and greatest contribution of the columns still to come."""
        product = isinstance(body, Product)
        low = high = int(product)
        for column, row in zip(body.columns, _weights(body), strict=True):
            if self.place.get(column, -1) > position:
                values = [row[code] for code in self.model.allowed[column]]
                low = low * min(values) if product else low + min(values)
                high = high * max(values) if product else high + max(values)
        return low, high

    def _code(self, column: int, known: dict[Field, IntArray], rows: int) -> IntArray | None:
        if column in self.settled_codes:
            return np.full(rows, self.settled_codes[column], dtype=np.int64)
        return known.get(("code", column))

    def _satisfied(self, constraint: Constraint, known: dict[Field, IntArray], rows: int) -> NDArray[np.bool_]:
        full = np.zeros((rows, len(self.model.columns)), dtype=np.int32)
        for column in constraint.columns:
            codes = self._code(column, known, rows)
            assert codes is not None, column
            full[:, column] = codes
        return satisfied(constraint, self.model, full)


def _weights(body: Linear | Product) -> tuple[tuple[int, ...], ...]:
    return body.weights if isinstance(body, Linear) else body.factors


def _span(body: Linear | Product, total: IntArray, low: int, high: int) -> tuple[IntArray, IntArray]:
    """Return the least and greatest final totals."""
    if isinstance(body, Product):
        return total * low, total * high
    return total + low, total + high


def _distinct(states: IntArray) -> tuple[IntArray, IntArray]:
    """Return the distinct rows, and for each row the number of its distinct row."""
    if states.shape[1] == 0:
        return np.zeros((min(1, len(states)), 0), dtype=np.int64), np.zeros(len(states), dtype=np.int64)
    key = np.zeros(len(states), dtype=np.int64)
    for column in range(states.shape[1]):
        values, inverse = np.unique(states[:, column], return_inverse=True)
        _, key = np.unique(key * len(values) + inverse, return_inverse=True)
    _, first, child = np.unique(key, return_index=True, return_inverse=True)
    return states[first], child.astype(np.int64)
