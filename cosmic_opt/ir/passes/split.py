"""Find the independent parts of a lowered model: columns that no constraint links."""

from __future__ import annotations

from itertools import pairwise

import networkx as nx

from cosmic_opt.ir.model import LoweredModel


def constraint_graph(model: LoweredModel) -> nx.Graph[int]:
    """Return the graph of columns, linked where one constraint reads both; a settled column links nothing."""
    graph: nx.Graph[int] = nx.Graph()
    graph.add_nodes_from(range(len(model.columns)))
    for constraint in model.all_constraints():
        open_columns = [column for column in constraint.columns if len(model.allowed[column]) > 1]
        for left, right in pairwise(open_columns):
            graph.add_edge(left, right)
    return graph


def components(model: LoweredModel) -> list[tuple[int, ...]]:
    """Return the columns of each independent component, ordered by their first column."""
    parts = [tuple(sorted(part)) for part in nx.connected_components(constraint_graph(model))]
    return sorted(parts)
