"""Compiled: the exact front of (ticks, amount) over regions.

A box whose bound is no better than a point of the front in both respects holds nothing new. The front is kept sorted
by ticks, so that its amounts fall, and one binary search answers whether a bound is dominated.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from cosmic_opt.search.kernel.arrays import IntArray, Options, Region, Regions, pick
from cosmic_opt.search.kernel.boxes import Box
from cosmic_opt.search.kernel.branch import best_split, open_region, push_halves
from cosmic_opt.simulation.analytical._jit import jit
from cosmic_opt.simulation.analytical.step import TOO_LONG
from cosmic_opt.simulation.analytical.tables import PhaseTables


class Front(NamedTuple):
    """The points found: (ticks, amount) [F, 2], where each comes from (region row, then options) [F, 1 + D].

    `size` is an array of one: how many points there are.
    """

    points: IntArray
    origins: IntArray
    size: IntArray


@jit
def _place(front: Front, ticks: int) -> int:
    """Return how many points have at most `ticks`."""
    low, high = 0, front.size[0]
    while low < high:
        middle = (low + high) // 2
        if front.points[middle, 0] <= ticks:
            low = middle + 1
        else:
            high = middle
    return low


@jit
def is_dominated(front: Front, ticks: int, amount: int) -> bool:
    """Tell whether some point of the front is at least as good in both respects."""
    place = _place(front, ticks)
    return bool(place > 0 and front.points[place - 1, 1] <= amount)


@jit
def _insert(front: Front, ticks: int, amount: int, row: int, box: Box, start: IntArray) -> None:
    """Add a point that is not dominated, and drop those it dominates."""
    size, width = front.size[0], front.origins.shape[1]
    first = _place(front, ticks)
    if first > 0 and front.points[first - 1, 0] == ticks:
        first -= 1  # same ticks, larger amount: replaced
    last = first
    while last < size and front.points[last, 1] >= amount:
        last += 1
    shift = 1 - (last - first)
    source = range(size - 1, last - 1, -1) if shift > 0 else range(last, size)
    for position in source:
        front.points[position + shift, 0] = front.points[position, 0]
        front.points[position + shift, 1] = front.points[position, 1]
        for column in range(width):
            front.origins[position + shift, column] = front.origins[position, column]
    front.points[first, 0], front.points[first, 1] = ticks, amount
    front.origins[first, 0] = row
    for dim in range(width - 1):
        front.origins[first, dim + 1] = box.kept[dim, start[dim]]
    front.size[0] = size + shift


@jit
def explore_regions(
    tables: PhaseTables,
    options: Options,
    regions: Regions,
    rows: IntArray,
    bounds: IntArray,
    limit: int,
    max_nodes: int,
    front: Front,
) -> tuple[int, int]:
    """Close regions in order; return how many were closed, and the boxes evaluated.

    Args:
        tables, options, regions: As for `solve_regions`.
        rows: int64 [n], what a point names as its region.
        bounds: int64 [n, 2], ticks and amount of each region's bound.
        limit: Longest step allowed.
        max_nodes: Boxes to evaluate at most.
        front: Extended in place; a full front stops the search.
    """
    nodes = 0
    for row in range(bounds.shape[0]):
        if is_dominated(front, bounds[row, 0], bounds[row, 1]):
            continue
        nodes += _explore(tables, options, pick(regions, row), rows[row], limit, front)
        if nodes >= max_nodes or front.size[0] + 1 >= front.points.shape[0]:
            return row, nodes
    return int(bounds.shape[0]), nodes


@jit
def _explore(tables: PhaseTables, options: Options, region: Region, row: int, limit: int, front: Front) -> int:
    """Add every new point of one region to the front; return the boxes evaluated."""
    box, stack = open_region(tables, options, region, limit)
    dimensions = options.sizes.shape[0]
    start, stop = np.empty(dimensions, dtype=np.int64), np.empty(dimensions, dtype=np.int64)
    pair = np.empty((2, 2), dtype=np.int64)
    depth, nodes = 1, 1
    while depth > 0 and front.size[0] + 1 < front.points.shape[0]:
        depth -= 1
        ticks, amount = stack.bounds[depth, 0], stack.bounds[depth, 1]
        if ticks == TOO_LONG or is_dominated(front, ticks, amount):
            continue
        single = True
        for dim in range(dimensions):
            start[dim], stop[dim] = stack.starts[depth, dim], stack.stops[depth, dim]
            single = single and stop[dim] - start[dim] == 1
        if single:
            _insert(front, ticks, amount, row, box, start)
            continue
        split, used = best_split(options, region, box, start, stop, limit, pair)
        nodes += used
        depth = push_halves(stack, depth, start, stop, split, pair)
    return nodes
