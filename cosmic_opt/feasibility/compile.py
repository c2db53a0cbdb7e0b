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

SETTLED = np.iinfo(np.int64).min
"""Stands for a partial sum or product that can no longer matter."""

IntArray = NDArray[np.int64]
Field = tuple[str, int]
"""("code", column) or ("total", position of the constraint)."""

ARC_BYTES = 20
"""What a finished arc holds: parent, code and child."""


@dataclass(frozen=True)
class CompileLimit:
    """How far one diagram may grow: arcs of a layer, and bytes of all layers with the one at work."""

    arcs: int = 30_000_000
    size_bytes: int = 4 << 30


class TooWideError(LimitError):
    """A diagram outgrew its limit when the column called `column` was added."""

    def __init__(self, column: str, needed: str) -> None:
        super().__init__(f"counting needs {needed} at {column!r}", hint="fix a parameter or drop a rule")
        self.column = column


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

    def fan_out(self, nodes: IntArray) -> tuple[IntArray, IntArray]:
        """Return every arc that leaves one of `nodes`: the position of its node in `nodes`, and the arc."""
        starts = np.searchsorted(self.parent, np.arange(self.parents + 1))
        fan = starts[nodes + 1] - starts[nodes]
        rows = np.repeat(np.arange(len(nodes)), fan)
        offset = np.arange(len(rows)) - np.repeat(np.cumsum(fan) - fan, fan)
        return rows, starts[nodes[rows]] + offset


def compile_layers(model: LoweredModel, order: Sequence[int], limit: CompileLimit | None = None) -> list[Layer]:
    """Return the layers of the component whose columns are `order`, in that order.

    Raises:
        TooWideError: the diagram would outgrow `limit`.
        LimitError: a sum outgrows 62 bits.
    """
    frontier = Frontier(model, order, limit or CompileLimit())
    return [frontier.advance(position) for position in range(len(order))]


class Frontier:
    """The states after the columns placed so far; `advance` adds the next column."""

    def __init__(self, model: LoweredModel, order: Sequence[int], limit: CompileLimit) -> None:
        inside = {column for column in order if len(model.allowed[column]) > 1}
        self.model = model
        self.order = order
        self.limit = limit
        self.constraints = [k for k in model.all_constraints() if set(k.columns) & inside]
        self.summed = {("total", k) for k in range(len(self.constraints))}
        self.summed |= {("code", k.column) for k in self.constraints if isinstance(k, Conditional)}
        self.forgotten: set[int] = set()
        self.place = {column: position for position, column in enumerate(order)}
        self.settled_codes = {
            column: int(codes[0]) for column, codes in enumerate(model.allowed) if column not in self.place
        }
        self.last = [max((self.place[c] for c in k.columns if c in self.place), default=-1) for k in self.constraints]
        self.fields: list[Field] = []
        self.states: IntArray = np.zeros((1, 0), dtype=np.int64)
        self.arcs = 0
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
                    hint="use a larger unit, or fewer parameters in the rule; count --solver exhaustive needs neither",
                )

    def advance(self, position: int) -> Layer:
        """Add the column at `position` and return its layer.

        Raises:
            TooWideError: the diagram would outgrow its limit.
        """
        column = self.order[position]
        codes = self.model.allowed[column]
        nodes = len(self.states)
        self._check_growth(column, nodes * len(codes))
        parent = np.repeat(np.arange(nodes, dtype=np.int64), len(codes))
        code = np.tile(codes, nodes)
        known: dict[Field, IntArray] = {("code", column): code.astype(np.int64)}
        for tables in (False, True):  # sums first: they drop most arcs, and read few fields
            for at, field in enumerate(self.fields):
                if field not in known and (tables or field in self.summed):
                    known[field] = self.states[parent, at]
            keep = np.ones(len(parent), dtype=bool)
            for k, constraint in enumerate(self.constraints):
                if column in constraint.columns and k not in self.forgotten and _looked_up(constraint) == tables:
                    self._apply(k, constraint, position, known, keep)
            parent, code = parent[keep], code[keep]
            known = {field: values[keep] for field, values in known.items()}
        layer = self.close(position, parent, code, known)
        self.arcs += len(layer.parent)
        return layer

    def close(self, position: int, parent: IntArray, code: NDArray[np.int32], known: dict[Field, IntArray]) -> Layer:
        """Make equal rows of what the rest still needs one state; return the layer of arcs into the states."""
        nodes = len(self.states)
        self.fields = [field for field in known if self._needed(field, position)]
        columns = [known[field] for field in self.fields]
        rows = np.column_stack(columns) if columns else np.zeros((len(parent), 0), dtype=np.int64)
        self.states, child = distinct_rows(rows)
        return Layer(self.order[position], parent, code, child, nodes, len(self.states))

    def _check_growth(self, column: int, arcs: int) -> None:
        at_work = arcs * 8 * (2 * len(self.fields) + 6)
        if arcs > self.limit.arcs:
            raise TooWideError(self.model.columns[column].name, f"more than {self.limit.arcs:,} arcs")
        if self.arcs * ARC_BYTES + at_work > self.limit.size_bytes:
            raise TooWideError(self.model.columns[column].name, f"more than {self.limit.size_bytes:,} bytes")

    def _needed(self, field: Field, position: int) -> bool:
        kind, number = field
        if kind == "total":
            return self.last[number] > position and number not in self.forgotten
        return any(
            self.last[k] > position and k not in self.forgotten and self.reads_code(constraint, number)
            for k, constraint in enumerate(self.constraints)
        )

    @staticmethod
    def reads_code(constraint: Constraint, column: int) -> bool:
        """Tell whether the constraint reads the code of a column, beyond its weight in a running total."""
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


def _looked_up(constraint: Constraint) -> bool:
    """Tell whether an arc is looked up in a table; else a running total says whether it may stay."""
    return isinstance(constraint.body if isinstance(constraint, Conditional) else constraint, Table)


def _weights(body: Linear | Product) -> tuple[tuple[int, ...], ...]:
    return body.weights if isinstance(body, Linear) else body.factors


def _span(body: Linear | Product, total: IntArray, low: int, high: int) -> tuple[IntArray, IntArray]:
    """Return the least and greatest final totals."""
    if isinstance(body, Product):
        return total * low, total * high
    return total + low, total + high


def distinct_rows(states: IntArray) -> tuple[IntArray, IntArray]:
    """Return the distinct rows in lexicographic order, and for each row the number of its distinct row."""
    if states.shape[1] == 0:
        return np.zeros((min(1, len(states)), 0), dtype=np.int64), np.zeros(len(states), dtype=np.int64)
    key = np.zeros(len(states), dtype=np.int64)
    for column in range(states.shape[1]):
        values, inverse = np.unique(states[:, column], return_inverse=True)
        _, key = np.unique(key * len(values) + inverse, return_inverse=True)
    _, first, child = np.unique(key, return_index=True, return_inverse=True)
    return states[first], child.astype(np.int64)
