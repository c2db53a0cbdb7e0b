"""Compiled: exact branch and bound over the boxes of one region, and over regions against a shared incumbent."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from cosmic_opt.search.kernel.arrays import (
    SLOTS,
    TERM_COUNT,
    IntArray,
    Options,
    Region,
    Regions,
    pick,
    product_less,
)
from cosmic_opt.search.kernel.boxes import Box, evaluate_box, undominated
from cosmic_opt.simulation.analytical._jit import jit, jit_apart
from cosmic_opt.simulation.analytical.layout import INFEASIBLE
from cosmic_opt.simulation.analytical.step import TOO_LONG
from cosmic_opt.simulation.analytical.tables import PhaseTables

STACK = 4096


class Stack(NamedTuple):
    """Open boxes, depth first: the range of every dimension's list [S, D], and the bound (ticks, amount) [S, 2]."""

    starts: IntArray
    stops: IntArray
    bounds: IntArray


@jit_apart
def open_region(tables: PhaseTables, options: Options, region: Region, limit: int) -> tuple[Box, Stack]:
    """Return working space, and a stack that holds the box of all options worth keeping (TOO_LONG: there are none)."""
    dimensions, longest = options.sizes.shape[0], options.inputs.shape[1]
    box = Box(
        np.empty((dimensions, longest, SLOTS), dtype=np.int64),
        np.empty((dimensions, longest), dtype=np.int64),
        np.empty((dimensions, SLOTS), dtype=np.int64),
        np.empty(TERM_COUNT, dtype=np.int64),
    )
    stack = Stack(
        np.zeros((STACK, dimensions), dtype=np.int64),
        np.zeros((STACK, dimensions), dtype=np.int64),
        np.zeros((STACK, 2), dtype=np.int64),
    )
    stack.bounds[0, 0], stack.bounds[0, 1] = TOO_LONG, INFEASIBLE
    for dim in range(dimensions):
        stack.stops[0, dim] = undominated(tables, options, region, dim, box.vectors, box.kept[dim])
        if stack.stops[0, dim] == 0:
            return box, stack
    ticks, amount = evaluate_box(options, region, box, stack.starts[0], stack.stops[0], limit)
    stack.bounds[0, 0], stack.bounds[0, 1] = ticks, amount
    return box, stack


@jit_apart
def solve_region(
    tables: PhaseTables,
    options: Options,
    region: Region,
    incumbent_ticks: int,
    incumbent_amount: int,
    strict: bool,
    limit: int,
    max_nodes: int,
    chosen: IntArray,
) -> tuple[int, int, int]:
    """Find the region's best design that beats (or, not `strict`, equals) the incumbent.

    Args:
        tables, options, region: The region and its options.
        incumbent_ticks, incumbent_amount: A value to beat: their product.
        strict: Whether an equal value is of no interest.
        limit: Longest step allowed, in ticks.
        max_nodes: Boxes to evaluate at most.
        chosen: Written, [D]: the option of each dimension of the best design.

    Returns:
        (ticks, amount, nodes): the value found, or ticks -1 when nothing qualifies; nodes is negative when
        `max_nodes` stopped the search first.
    """
    box, stack = open_region(tables, options, region, limit)
    return _branch(options, region, box, stack, (incumbent_ticks, incumbent_amount), strict, limit, max_nodes, chosen)


@jit
def _branch(
    options: Options,
    region: Region,
    box: Box,
    stack: Stack,
    incumbent: tuple[int, int],
    strict: bool,
    limit: int,
    max_nodes: int,
    chosen: IntArray,
) -> tuple[int, int, int]:
    """Empty the stack, which holds the root; see `solve_region` for what comes back."""
    dimensions = options.sizes.shape[0]
    start, stop = np.empty(dimensions, dtype=np.int64), np.empty(dimensions, dtype=np.int64)
    pair = np.empty((2, 2), dtype=np.int64)
    best_ticks, best_amount, found = incumbent[0], incumbent[1], False
    depth, nodes = 1, 1
    while depth > 0:
        depth -= 1
        ticks, amount = stack.bounds[depth, 0], stack.bounds[depth, 1]
        if not _interesting(ticks, amount, best_ticks, best_amount, strict or found):
            continue
        single = True
        for dim in range(dimensions):
            start[dim], stop[dim] = stack.starts[depth, dim], stack.stops[depth, dim]
            single = single and stop[dim] - start[dim] == 1
        if single:
            best_ticks, best_amount, found = ticks, amount, True
            for dim in range(dimensions):
                chosen[dim] = box.kept[dim, start[dim]]
            continue
        if nodes >= max_nodes or depth + 2 >= STACK:
            return (best_ticks if found else -1), best_amount, -nodes
        split, used = best_split(options, region, box, start, stop, limit, pair)
        nodes += used
        depth = push_halves(stack, depth, start, stop, split, pair)
    return (best_ticks if found else -1), best_amount, nodes


@jit
def push_halves(stack: Stack, depth: int, start: IntArray, stop: IntArray, split: int, pair: IntArray) -> int:
    """Push both halves of a box, the one with the lesser bound last, so that it is popped first; return the depth."""
    middle = (start[split] + stop[split]) // 2
    first = 1 if product_less(pair[0, 0], pair[0, 1], pair[1, 0], pair[1, 1]) else 0
    for half in (first, 1 - first):
        if pair[half, 0] == TOO_LONG:
            continue
        for dim in range(start.shape[0]):
            stack.starts[depth, dim], stack.stops[depth, dim] = start[dim], stop[dim]
        if half == 0:
            stack.stops[depth, split] = middle
        else:
            stack.starts[depth, split] = middle
        stack.bounds[depth, 0], stack.bounds[depth, 1] = pair[half, 0], pair[half, 1]
        depth += 1
    return depth


@jit
def _interesting(ticks: int, amount: int, best_ticks: int, best_amount: int, strict: bool) -> bool:
    """Tell whether a bound of ticks·amount may still lead to something wanted."""
    if ticks == TOO_LONG:
        return False
    if strict:
        return product_less(ticks, amount, best_ticks, best_amount)
    return not product_less(best_ticks, best_amount, ticks, amount)


@jit_apart
def best_split(
    options: Options, region: Region, box: Box, start: IntArray, stop: IntArray, limit: int, pair: IntArray
) -> tuple[int, int]:
    """Halve the dimension whose weaker half has the highest bound; fill `pair` with both halves' bounds."""
    best, used = -1, 0
    halves = np.empty((2, 2), dtype=np.int64)
    for dim in range(start.shape[0]):
        if stop[dim] - start[dim] < 2:
            continue
        left, right, middle = start[dim], stop[dim], (start[dim] + stop[dim]) // 2
        stop[dim] = middle
        halves[0, 0], halves[0, 1] = evaluate_box(options, region, box, start, stop, limit)
        start[dim], stop[dim] = middle, right
        halves[1, 0], halves[1, 1] = evaluate_box(options, region, box, start, stop, limit)
        start[dim] = left
        used += 2
        if best < 0 or _weaker(pair, halves):
            best = dim
            for half in range(2):
                pair[half, 0], pair[half, 1] = halves[half, 0], halves[half, 1]
    return best, used


@jit
def _weaker(old: IntArray, new: IntArray) -> bool:
    """Tell whether the lesser bound of `new` exceeds the lesser bound of `old` (ties: the greater bounds)."""
    old_least = 0 if product_less(old[0, 0], old[0, 1], old[1, 0], old[1, 1]) else 1
    new_least = 0 if product_less(new[0, 0], new[0, 1], new[1, 0], new[1, 1]) else 1
    if product_less(old[old_least, 0], old[old_least, 1], new[new_least, 0], new[new_least, 1]):
        return True
    if product_less(new[new_least, 0], new[new_least, 1], old[old_least, 0], old[old_least, 1]):
        return False
    a, b = 1 - old_least, 1 - new_least
    return product_less(old[a, 0], old[a, 1], new[b, 0], new[b, 1])


@jit
def solve_regions(
    tables: PhaseTables,
    options: Options,
    regions: Regions,
    bounds: IntArray,
    incumbent: IntArray,
    limit: int,
    max_nodes: int,
    results: IntArray,
    chosen: IntArray,
) -> int:
    """Solve regions in order against a shared incumbent; return how many were closed.

    Args:
        tables, options: The problem.
        regions: In the order to solve them.
        bounds: int64 [n, 2], ticks and amount of each region's bound, ascending in their product.
        incumbent: int64 [2], ticks and amount of the value to beat; improved in place.
        limit: Longest step allowed.
        max_nodes: Boxes to evaluate over the whole call.
        results: Written, [n, 3]: ticks (-1: nothing as good as the incumbent), amount, nodes.
        chosen: Written, [n, D].
    """
    left = max_nodes
    for row in range(bounds.shape[0]):
        results[row, 0], results[row, 1], results[row, 2] = -1, 0, 0
        if product_less(incumbent[0], incumbent[1], bounds[row, 0], bounds[row, 1]):
            continue
        region = pick(regions, row)
        ticks, amount, nodes = solve_region(
            tables, options, region, incumbent[0], incumbent[1], False, limit, left, chosen[row]
        )
        results[row, 0], results[row, 1], results[row, 2] = ticks, amount, abs(nodes)
        left -= abs(nodes)
        if ticks >= 0 and product_less(ticks, amount, incumbent[0], incumbent[1]):
            incumbent[0], incumbent[1] = ticks, amount
        if nodes < 0:
            return row
    return int(bounds.shape[0])
