"""Count the feasible designs that differ in given columns: the distinct projections of the feasible set."""

from __future__ import annotations

import math
from collections.abc import Collection

from cosmic_opt.feasibility.diagram import Diagram, with_counts
from cosmic_opt.feasibility.feasible_set import FeasibleSet, feasible_set
from cosmic_opt.ir.model import LoweredModel


def count_projections(model: LoweredModel, dropped: Collection[int], feasible: FeasibleSet) -> int:
    """Return how many different rows the feasible designs leave when the columns `dropped` are struck out.

    Each component gets a diagram with these columns last: different paths through the columns before them are different
    projections, and each is there because it leads to a design. `feasible` is the model's own set.

    Raises:
        LimitError: in that order a diagram does not fit in memory.
    """
    if model.infeasible:
        return 0
    gone = set(dropped)
    if not any(gone & set(diagram.order) for diagram in feasible.diagrams):
        return feasible.size
    kept = set(range(model.designs)) - gone
    return math.prod(_prefixes(diagram, gone) for diagram in feasible_set(model, first=kept).diagrams)


def _prefixes(diagram: Diagram, gone: set[int]) -> int:
    """Return the number of paths down to the first column of `gone`."""
    depth = next((at for at, column in enumerate(diagram.order) if column in gone), len(diagram.order))
    if depth == 0:
        return min(1, diagram.size)
    return with_counts(diagram.order[:depth], diagram.layers[:depth], diagram.counts[0].dtype).size
