"""Compiled: the options of one region that matter, and the bound of a box (a range of every dimension's list)."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from cosmic_opt.search.kernel.arrays import KEY, LOWER, SLOTS, UPPER, IntArray, Options, Region
from cosmic_opt.simulation.analytical._jit import jit, jit_apart
from cosmic_opt.simulation.analytical.batch import option_vectors
from cosmic_opt.simulation.analytical.layout import INFEASIBLE
from cosmic_opt.simulation.analytical.step import TOO_LONG, compose
from cosmic_opt.simulation.analytical.tables import PhaseTables


@jit
def _dominates(vectors: IntArray, options: Options, dim: int, left: int, right: int) -> bool:
    """Tell whether option `left` is at least as good as `right` in everything that matters."""
    if options.amount[dim, left] > options.amount[dim, right]:
        return False
    for rule in range(options.sense.shape[0]):
        ours, theirs, sense = options.shares[rule, dim, left], options.shares[rule, dim, right], options.sense[rule]
        if sense == KEY and ours != theirs:
            return False
        if (sense == UPPER and ours > theirs) or (sense == LOWER and ours < theirs):
            return False
    for slot in range(SLOTS):
        if vectors[dim, left, slot] > vectors[dim, right, slot]:
            return False
    return True


@jit_apart
def undominated(
    tables: PhaseTables, options: Options, region: Region, dim: int, vectors: IntArray, kept: IntArray
) -> int:
    """Write the options no other dominates, by amount then work; return how many. Equal ones keep the first."""
    count = 0
    order = np.empty(options.sizes[dim], dtype=np.int64)
    work = np.empty(options.sizes[dim])
    size = options.sizes[dim]
    option_vectors(tables, region.payload[dim], region.links[dim], options.inputs[dim, :size], vectors[dim])
    for option in range(size):
        if not region.mask[dim, option] or vectors[dim, option, 0] == INFEASIBLE:
            continue
        total = 0.0
        for slot in range(SLOTS):
            total += vectors[dim, option, slot]
        work[option] = total
        order[count] = option
        count += 1
    for position in range(1, count):  # insertion sort by (amount, work, option)
        option = order[position]
        back = position - 1
        while back >= 0 and (
            options.amount[dim, order[back]] > options.amount[dim, option]
            or (options.amount[dim, order[back]] == options.amount[dim, option] and work[order[back]] > work[option])
        ):
            order[back + 1] = order[back]
            back -= 1
        order[back + 1] = option
    best = 0
    for position in range(count):
        option = order[position]
        beaten = False
        for other in range(best):
            if _dominates(vectors, options, dim, kept[other], option):
                beaten = True
                break
        if not beaten:
            kept[best] = option
            best += 1
    return best


class Box(NamedTuple):
    """Working arrays of the branch and bound: vectors [D, O, K], kept options [D, O] and the current minima."""

    vectors: IntArray
    kept: IntArray
    minima: IntArray
    terms: IntArray


@jit
def _range_minimum(box: Box, dim: int, start: int, stop: int) -> None:
    first = box.kept[dim, start]
    for slot in range(SLOTS):
        box.minima[dim, slot] = box.vectors[dim, first, slot]
    for position in range(start + 1, stop):
        option = box.kept[dim, position]
        for slot in range(SLOTS):
            if box.vectors[dim, option, slot] < box.minima[dim, slot]:
                box.minima[dim, slot] = box.vectors[dim, option, slot]


@jit
def _box_amount(options: Options, region: Region, box: Box, start: IntArray, stop: IntArray) -> int:
    """Return the least amount of a box: lists are sorted by amount."""
    total = region.amount
    for dim in range(start.shape[0]):
        total += options.amount[dim, box.kept[dim, start[dim]]]
    return total


@jit
def _coupled(options: Options, region: Region, box: Box, start: IntArray, stop: IntArray) -> bool:
    """Tell whether every coupling rule can still hold in the box (for a single design: holds)."""
    for rule in range(options.sense.shape[0]):
        low = high = 0
        for dim in range(start.shape[0]):
            least = most = options.shares[rule, dim, box.kept[dim, start[dim]]]
            for position in range(start[dim] + 1, stop[dim]):
                share = options.shares[rule, dim, box.kept[dim, position]]
                least, most = min(least, share), max(most, share)
            low += least
            high += most
        if low > region.high[rule] or high < region.low[rule]:
            return False
    return True


@jit_apart
def evaluate_box(
    options: Options, region: Region, box: Box, start: IntArray, stop: IntArray, limit: int
) -> tuple[int, int]:
    """Return (ticks, amount) bounds of a box; (TOO_LONG, INFEASIBLE) when a rule or the step limit excludes it."""
    if not _coupled(options, region, box, start, stop):
        return TOO_LONG, INFEASIBLE
    for dim in range(start.shape[0]):
        _range_minimum(box, dim, start[dim], stop[dim])
    ticks = compose(region.whole, box.minima, box.terms)
    if ticks > limit:
        return TOO_LONG, INFEASIBLE
    return ticks, _box_amount(options, region, box, start, stop)
