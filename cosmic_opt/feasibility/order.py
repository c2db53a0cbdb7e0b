"""Choose the order in which a component's columns are eliminated, from its constraint graph.

The width of a diagram at a layer is the number of distinct things the rest still needs to know: a partial sum for
each half-read relation and the codes that half-read tables read. The order closes one constraint after another,
always the one after which a bound on that number is least; where columns of one constraint are left, likewise.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

import networkx as nx

from cosmic_opt.ir.model import Conditional, Constraint, Linear, LoweredModel, Product, Table


def elimination_order(model: LoweredModel, component: Sequence[int], first: Collection[int] = ()) -> list[int]:
    """Return the component's columns, those in `first` before the others, each helper right after its inputs."""
    return _Elimination(model, component, first).run()


@dataclass(frozen=True)
class _Scope:
    """The columns of a constraint, and what it keeps while half read.

    It keeps the code of each `coded` column, and one partial sum over the `summed` columns: of each of them, how many
    values it has and how far apart they are, in steps of the sum.
    """

    columns: frozenset[int]
    coded: frozenset[int]
    summed: Mapping[int, tuple[int, int]]

    def log_sums(self, placed: Collection[int]) -> float:
        """Return log2 of a bound on the distinct partial sums over the columns placed."""
        combinations, width = 0.0, 0
        for column, (values, spread) in self.summed.items():
            if column in placed:
                combinations += math.log2(values)
                width += spread
        return min(combinations, math.log2(1 + width))


class _Elimination:
    def __init__(self, model: LoweredModel, component: Sequence[int], first: Collection[int]) -> None:
        self.first = frozenset(first)
        self.waiting, self.placed = set(component), set[int]()
        self.order: list[int] = []
        inside = frozenset(component)
        self.log_size = {column: math.log2(max(1, len(model.allowed[column]))) for column in component}
        scopes = (_scope(constraint, model, inside) for constraint in model.all_constraints())
        self.scopes = [scope for scope in scopes if len(scope.columns) > 1]
        self.inputs = {table.columns[-1]: inside.intersection(table.columns[:-1]) for table in model.definitions}
        self.readers = _constraint_graph(component, self.scopes)

    def run(self) -> list[int]:
        while self.waiting:
            block = self.next_block()
            while block := block & self.waiting:
                self.place(min(block, key=lambda column: (self.growth((column,)), column)))
        return self.order

    def place(self, column: int) -> None:
        """Place a column, then every helper whose inputs are placed: it adds nothing to know."""
        self.waiting.discard(column)
        self.placed.add(column)
        self.order.append(column)
        for helper, needed in self.inputs.items():
            if helper in self.waiting and needed <= self.placed:
                self.place(helper)

    def next_block(self) -> frozenset[int]:
        """Return the columns left of the constraint to close next; a half-read one where there is one."""
        designs = {column for column in self.waiting if column not in self.inputs} or self.waiting
        eligible = (designs & self.first) or designs
        blocks = [
            (scope.columns.intersection(eligible), scope.columns.isdisjoint(self.placed)) for scope in self.scopes
        ]
        started = [block for block, untouched in blocks if block and not untouched]
        candidates = started or [block for block, _ in blocks if block] or [frozenset({min(eligible)})]
        return min(candidates, key=self.preference)

    def preference(self, block: frozenset[int]) -> tuple[float, int, list[int]]:
        """Return what makes one block come before another: growth, then few columns, then the first ones."""
        return self.growth(block), len(block), sorted(block)

    def growth(self, block: Collection[int]) -> float:
        """Return by how much, in log2, the bound on what must be known grows when `block` is placed."""
        after = self.placed.union(block)
        touched = {at for column in block for at in self.readers[column]}
        total = 0.0
        for at in touched:
            scope = self.scopes[at]
            total += self._sums(scope, after) - self._sums(scope, self.placed)
        for column in {column for at in touched for column in self.scopes[at].coded}:
            total += self.log_size[column] * (self._known(column, after) - self._known(column, self.placed))
        return total

    @staticmethod
    def _sums(scope: _Scope, placed: Collection[int]) -> float:
        return 0.0 if scope.columns.issubset(placed) else scope.log_sums(placed)

    def _known(self, column: int, placed: Collection[int]) -> bool:
        """Tell whether a half-read constraint needs the code of the column."""
        readers = (self.scopes[at] for at in self.readers[column])
        return column in placed and any(
            column in scope.coded and not scope.columns.issubset(placed) for scope in readers
        )


def _constraint_graph(component: Iterable[int], scopes: Sequence[_Scope]) -> dict[int, list[int]]:
    """Return the constraints around each column, from the bipartite graph of columns and constraints."""
    graph: nx.Graph[tuple[str, int]] = nx.Graph()
    graph.add_nodes_from(("column", column) for column in component)
    graph.add_edges_from((("column", c), ("scope", at)) for at, scope in enumerate(scopes) for c in scope.columns)
    return {column: sorted(at for _, at in graph["column", column]) for column in component}


def _scope(constraint: Constraint, model: LoweredModel, inside: frozenset[int]) -> _Scope:
    body = constraint.body if isinstance(constraint, Conditional) else constraint
    coded = {constraint.column} if isinstance(constraint, Conditional) else set()
    summed = {}
    if isinstance(body, Table):
        coded |= inside.intersection(body.columns)
    else:
        summed = _summed(body, model, inside)
    return _Scope(inside.intersection(constraint.columns), inside & coded, summed)


def _summed(body: Linear | Product, model: LoweredModel, inside: frozenset[int]) -> dict[int, tuple[int, int]]:
    """Return, per column, the number of its values and their spread; factors count by their number alone."""
    weights = body.weights if isinstance(body, Linear) else body.factors
    values = {
        column: sorted({row[code] for code in model.allowed[column]})
        for column, row in zip(body.columns, weights, strict=True)
        if column in inside
    }
    if isinstance(body, Product):
        return {column: (len(own), math.prod(map(len, values.values()))) for column, own in values.items()}
    step = math.gcd(*(value - own[0] for own in values.values() for value in own)) or 1
    return {column: (len(own), (own[-1] - own[0]) // step) for column, own in values.items() if own}
