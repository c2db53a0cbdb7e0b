"""Choose the order in which a component's columns are eliminated, from its constraint graph."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from cosmic_opt.ir.model import LoweredModel


def elimination_order(model: LoweredModel, component: Sequence[int], first: Collection[int] = ()) -> list[int]:
    """Return the component's columns, those in `first` before the others, each helper right after its inputs.

    Greedy: the next column is the one that leaves the fewest constraints half read.
    """
    scopes = [set(k.columns) & set(component) for k in model.all_constraints()]
    scopes = [scope for scope in scopes if len(scope) > 1]
    inputs = {table.columns[-1]: set(table.columns[:-1]) & set(component) for table in model.definitions}
    order: list[int] = []
    placed: set[int] = set()

    def place(column: int) -> None:
        order.append(column)
        placed.add(column)
        for helper, needed in inputs.items():
            if helper in waiting and needed <= placed:
                waiting.discard(helper)
                place(helper)

    waiting = set(component)
    while waiting:
        designs = [column for column in waiting if column not in inputs] or list(waiting)
        preferred = [column for column in designs if column in first] or designs
        best = min(preferred, key=lambda column: (_half_read(scopes, placed | {column}), column))
        waiting.discard(best)
        place(best)
    return order


def _half_read(scopes: Sequence[set[int]], placed: set[int]) -> int:
    """Return the number of placed columns that some half-read constraint still needs."""
    open_scopes = [scope for scope in scopes if scope & placed and not scope <= placed]
    return sum(len(scope & placed) for scope in open_scopes)
