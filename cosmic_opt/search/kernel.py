"""Compiled: bounds of regions, and exact branch and bound over the network options of one region.

A region fixes every structural column. Dimension d then takes one of a list of options; an option has a vector of
ticks (`simulation.analytical.layout.Slot`), a share of the objective's amount, and a share of each linear rule
that couples dimensions. The step time is non-decreasing in every tick, so the componentwise minimum over a box
of options (a range of every dimension's list), composed, bounds every member of the box from below.

Objective values are products of two int64 and are compared exactly, as 128-bit numbers. Rows are copied by loops:
assigning a slice costs the compiler a second or two each.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from cosmic_opt.simulation.analytical._jit import jit
from cosmic_opt.simulation.analytical.batch import option_vectors
from cosmic_opt.simulation.analytical.layout import HIDDEN, INFEASIBLE, TERMS, Slot
from cosmic_opt.simulation.analytical.step import TOO_LONG, compose
from cosmic_opt.simulation.analytical.tables import PhaseTables

IntArray = NDArray[np.int64]
FloatArray = NDArray[np.float64]
BoolArray = NDArray[np.bool_]

_SLOTS = int(Slot.COUNT)
_TERMS = len(TERMS) + len(HIDDEN)
_STACK = 4096

FREE, UPPER, LOWER, KEY = 0, 1, 2, 3
"""How a coupling rule treats its share under dominance: no bound, less is better, more is better, must be equal."""


class Options(NamedTuple):
    """Every dimension's options, padded to the longest list.

    Attributes:
        inputs: int64 [D, O, 4], kernel input of each option.
        sizes: int64 [D], options of each dimension.
        amount: int64 [D, O], share of the objective's amount (0 where there is none).
        shares: int64 [C, D, O], share of each coupling rule.
        sense: int64 [C], FREE, UPPER, LOWER or KEY.
    """

    inputs: IntArray
    sizes: IntArray
    amount: IntArray
    shares: IntArray
    sense: IntArray


class Regions(NamedTuple):
    """Many regions: the fields of `Region` with a leading axis n, and the mask [G, D, O] that each has."""

    whole: IntArray
    payload: FloatArray
    links: IntArray
    masks: BoolArray
    mask_of: IntArray
    low: IntArray
    high: IntArray
    amount: IntArray


class Region(NamedTuple):
    """One region: its prepared row, which options it has, what is left of each coupling rule, fixed amount.

    Attributes:
        whole, payload, links: The simulator's prepared row.
        mask: bool [D, O].
        low, high: int64 [C], bounds on the sum of the dimensions' shares.
        amount: The part of the objective's amount that no option changes.
    """

    whole: IntArray
    payload: FloatArray
    links: IntArray
    mask: BoolArray
    low: IntArray
    high: IntArray
    amount: int


@jit
def pick(regions: Regions, row: int) -> Region:
    """Return one of many regions."""
    return Region(
        regions.whole[row],
        regions.payload[row],
        regions.links[row],
        regions.masks[regions.mask_of[row]],
        regions.low[row],
        regions.high[row],
        int(regions.amount[row]),
    )


@jit
def product_less(a: int, b: int, c: int, d: int) -> bool:
    """Tell whether a·b < c·d, exactly, for non-negative int64."""
    left, right = float(a) * float(b), float(c) * float(d)
    if left < right * (1 - 1e-12):
        return True
    if left > right * (1 + 1e-12):
        return False
    left_high, left_low = _wide(a, b)
    right_high, right_low = _wide(c, d)
    return left_high < right_high or (left_high == right_high and left_low < right_low)


@jit
def _wide(a: int, b: int) -> tuple[int, int]:
    """Return a·b as (high, low) with low in [0, 2^62)."""
    mask = (1 << 31) - 1
    a_high, a_low, b_high, b_low = a >> 31, a & mask, b >> 31, b & mask
    low = a_low * b_low
    middle_one, middle_two = a_high * b_low, a_low * b_high
    total = low + ((middle_one & mask) << 31)
    carry = total >> 62
    total = (total & ((1 << 62) - 1)) + ((middle_two & mask) << 31)
    carry += total >> 62
    return a_high * b_high + (middle_one >> 31) + (middle_two >> 31) + carry, total & ((1 << 62) - 1)


@jit
def region_bound(
    tables: PhaseTables,
    options: Options,
    region: Region,
    worst: bool,
    vectors: IntArray,
    extremes: IntArray,
    terms: IntArray,
) -> int:
    """Return the least (or, `worst`, the greatest) step ticks of the region's options, ignoring coupling rules.

    TOO_LONG stands for a region with no option that runs (worst: one that does not). `vectors` [O, K], `extremes`
    [D, K] and `terms` are working space.
    """
    for dim in range(options.sizes.shape[0]):
        size = options.sizes[dim]
        option_vectors(tables, region.payload[dim], region.links[dim], options.inputs[dim, :size], vectors)
        for slot in range(_SLOTS):
            least, greatest = INFEASIBLE, 0
            for option in range(size):
                if region.mask[dim, option]:
                    least, greatest = min(least, vectors[option, slot]), max(greatest, vectors[option, slot])
            extremes[dim, slot] = greatest if worst else least
        if extremes[dim, 0] == INFEASIBLE:
            return TOO_LONG
    return int(compose(region.whole, extremes, terms))


@jit
def least_amount(options: Options, region: Region) -> int:
    """Return the least amount the region's options allow, ignoring coupling rules."""
    total = region.amount
    for dim in range(options.sizes.shape[0]):
        best = INFEASIBLE
        for option in range(options.sizes[dim]):
            if region.mask[dim, option]:
                best = min(best, options.amount[dim, option])
        total += best
    return total


@jit
def bound_regions(
    tables: PhaseTables,
    options: Options,
    regions: Regions,
    worst: bool,
    ticks: IntArray,
    amounts: IntArray,
) -> None:
    """Fill the bound of every region: its least (`worst`: greatest) ticks, and its least amount."""
    dimensions = options.sizes.shape[0]
    vectors = np.empty((options.inputs.shape[1], _SLOTS), dtype=np.int64)
    extremes = np.empty((dimensions, _SLOTS), dtype=np.int64)
    terms = np.empty(_TERMS, dtype=np.int64)
    for row in range(ticks.shape[0]):
        region = pick(regions, row)
        ticks[row] = region_bound(tables, options, region, worst, vectors, extremes, terms)
        amounts[row] = least_amount(options, region)


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
    for slot in range(_SLOTS):
        if vectors[dim, left, slot] > vectors[dim, right, slot]:
            return False
    return True


@jit
def _front(tables: PhaseTables, options: Options, region: Region, dim: int, vectors: IntArray, kept: IntArray) -> int:
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
        for slot in range(_SLOTS):
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
    front = 0
    for position in range(count):
        option = order[position]
        beaten = False
        for other in range(front):
            if _dominates(vectors, options, dim, kept[other], option):
                beaten = True
                break
        if not beaten:
            kept[front] = option
            front += 1
    return front


class Box(NamedTuple):
    """Working arrays of the branch and bound: vectors [D, O, K], kept options [D, O] and the current minima."""

    vectors: IntArray
    kept: IntArray
    minima: IntArray
    terms: IntArray


@jit
def _range_minimum(box: Box, dim: int, start: int, stop: int) -> None:
    first = box.kept[dim, start]
    for slot in range(_SLOTS):
        box.minima[dim, slot] = box.vectors[dim, first, slot]
    for position in range(start + 1, stop):
        option = box.kept[dim, position]
        for slot in range(_SLOTS):
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


@jit
def _evaluate_box(
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


@jit
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
    dimensions, longest = options.sizes.shape[0], options.inputs.shape[1]
    box = Box(
        np.empty((dimensions, longest, _SLOTS), dtype=np.int64),
        np.empty((dimensions, longest), dtype=np.int64),
        np.empty((dimensions, _SLOTS), dtype=np.int64),
        np.empty(_TERMS, dtype=np.int64),
    )
    starts = np.zeros((_STACK, dimensions), dtype=np.int64)
    stops = np.zeros((_STACK, dimensions), dtype=np.int64)
    ticks, amounts = np.zeros(_STACK, dtype=np.int64), np.zeros(_STACK, dtype=np.int64)
    for dim in range(dimensions):
        stops[0, dim] = _front(tables, options, region, dim, box.vectors, box.kept[dim])
        if stops[0, dim] == 0:
            return -1, 0, 1
    best_ticks, best_amount, found = incumbent_ticks, incumbent_amount, False
    ticks[0], amounts[0] = _evaluate_box(options, region, box, starts[0], stops[0], limit)
    depth, nodes = 1, 1
    start, stop = np.empty(dimensions, dtype=np.int64), np.empty(dimensions, dtype=np.int64)
    pair = np.empty((2, 3), dtype=np.int64)
    while depth > 0:
        depth -= 1
        if not _interesting(ticks[depth], amounts[depth], best_ticks, best_amount, strict or found):
            continue
        split = -1
        for dim in range(dimensions):
            start[dim], stop[dim] = starts[depth, dim], stops[depth, dim]
            if stop[dim] - start[dim] > 1:
                split = dim
        if split < 0:
            best_ticks, best_amount, found = ticks[depth], amounts[depth], True
            for dim in range(dimensions):
                chosen[dim] = box.kept[dim, start[dim]]
            continue
        if nodes >= max_nodes or depth + 2 >= _STACK:
            return (best_ticks if found else -1), best_amount, -nodes
        split, used = _best_split(options, region, box, start, stop, limit, pair)
        nodes += used
        middle = (start[split] + stop[split]) // 2
        first = 1 if product_less(pair[0, 0], pair[0, 1], pair[1, 0], pair[1, 1]) else 0
        for child in (first, 1 - first):  # the more promising child is pushed last and popped first
            if pair[child, 0] != TOO_LONG:
                for dim in range(dimensions):
                    starts[depth, dim], stops[depth, dim] = start[dim], stop[dim]
                if child == 0:
                    stops[depth, split] = middle
                else:
                    starts[depth, split] = middle
                ticks[depth], amounts[depth] = pair[child, 0], pair[child, 1]
                depth += 1
    return (best_ticks if found else -1), best_amount, nodes


@jit
def _interesting(ticks: int, amount: int, best_ticks: int, best_amount: int, strict: bool) -> bool:
    """Tell whether a bound of ticks·amount may still lead to something wanted."""
    if ticks == TOO_LONG:
        return False
    if strict:
        return product_less(ticks, amount, best_ticks, best_amount)
    return not product_less(best_ticks, best_amount, ticks, amount)


@jit
def _best_split(
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
        halves[0, 0], halves[0, 1] = _evaluate_box(options, region, box, start, stop, limit)
        start[dim], stop[dim] = middle, right
        halves[1, 0], halves[1, 1] = _evaluate_box(options, region, box, start, stop, limit)
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
