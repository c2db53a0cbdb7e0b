"""The exact front of step time against a structural quantity, region by region."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from cosmic_opt.catalog.bind import BoundInstance
from cosmic_opt.errors import LimitError, SpecError, nearest
from cosmic_opt.ir.check import recheck
from cosmic_opt.ir.lower import lower
from cosmic_opt.psa.parameter_set import DesignBatch
from cosmic_opt.psa.quantity import Quantity
from cosmic_opt.search import kernel
from cosmic_opt.search.frontier import Frontier
from cosmic_opt.search.limits import step_limit
from cosmic_opt.search.objective import Objective
from cosmic_opt.search.score import Scorer, simulator_of
from cosmic_opt.search.space import build_space

IntArray = NDArray[np.int64]

CAPACITY = 1 << 17
CHUNK = 256


@dataclass(frozen=True)
class ParetoFront:
    """Every pair (step, amount) that no design beats in one respect without losing in the other, with a design each.

    Sorted by step: `step_ticks` rises, `amounts` (base units of `quantity`) fall. The front is proved: every region
    was closed. Where several designs share a point, one of them is shown.
    """

    quantity: Quantity
    designs: DesignBatch
    step_ticks: IntArray
    amounts: IntArray
    feasible_designs: int
    regions: int
    nodes: int


def pareto_front(instance: BoundInstance, quantity_name: str) -> ParetoFront:
    """Return the front of `step_time` against a structural quantity, both minimised.

    Raises:
        SpecError: an unknown or a simulated quantity.
        LimitError: too many structural combinations, or more than 131,000 points.
    """
    parameter_set = instance.parameter_set
    quantity = parameter_set.quantities.get(quantity_name)
    if not isinstance(quantity, Quantity):
        known = [name for name, other in parameter_set.quantities.items() if isinstance(other, Quantity)]
        raise SpecError(f"{quantity_name!r} is not a structural quantity here", hint=nearest(quantity_name, known))
    model = lower(parameter_set)
    objective = Objective(f"step_time * {quantity_name}", quantity)
    none = np.zeros(0, dtype=np.int64)
    if model.infeasible:
        empty = parameter_set.batch(np.zeros((0, len(parameter_set.columns)), dtype=np.int32))
        return ParetoFront(quantity, empty, none, none, 0, 0, 0)
    scorer = Scorer(simulator_of(instance), objective)
    space = build_space(parameter_set, model, scorer.simulator, instance.dimensions, objective)
    frontier = Frontier(space, scorer.simulator, objective, step_limit(parameter_set))
    front, nodes = explore(frontier)
    count = int(front.size[0])
    codes = [space.designs(int(row), [int(o) for o in options]) for row, *options in front.origins[:count]]
    designs = parameter_set.batch(np.array(codes, dtype=np.int32).reshape(count, len(parameter_set.columns)))
    points = front.points[:count]
    if count:
        recheck(model, parameter_set, designs.codes, "the Pareto search")
        scores = scorer.score(designs)
        assert np.array_equal(scores.evaluation.step_ticks, points[:, 0]), "points score as they were found"
        assert np.array_equal(scores.amounts, points[:, 1]), "points cost as they were found"
    return ParetoFront(
        quantity, designs, points[:, 0].copy(), points[:, 1].copy(), space.feasible.size, len(space.regions), nodes
    )


def explore(frontier: Frontier) -> tuple[kernel.Front, int]:
    """Return the front over every region of a frontier, and the boxes evaluated.

    Raises:
        LimitError: the front has too many points.
    """
    dimensions = len(frontier.space.options)
    front = kernel.Front(
        np.zeros((CAPACITY, 2), dtype=np.int64),
        np.zeros((CAPACITY, 1 + dimensions), dtype=np.int64),
        np.zeros(1, dtype=np.int64),
    )
    nodes = 0
    for start in range(0, len(frontier.order), CHUNK):
        rows = frontier.order[start : start + CHUNK]
        bounds = np.column_stack([frontier.ticks[rows], frontier.amounts[rows]])
        closed, used = kernel.explore_regions(
            frontier.simulator.tables,
            frontier.options,
            frontier.region_arrays(rows),
            rows,
            bounds,
            frontier.limit_ticks,
            np.iinfo(np.int64).max,
            front,
        )
        nodes += int(used)
        if closed < len(rows):
            raise LimitError(f"the front has more than {CAPACITY:,} points", hint="add a rule that narrows it")
    return front, nodes
