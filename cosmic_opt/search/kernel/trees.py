"""Compiled: the options of one region as a tree per dimension, with the extremes of every part of it.

A node is a range of a dimension's options. It is halved along whatever sets its options apart most, in terms of the
objective; a node whose options nothing sets apart is a leaf. No option that can run is left out, so that designs can
be counted.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from cosmic_opt.search.kernel.arrays import SLOTS, TERM_COUNT, FloatArray, IntArray, Options, Region, wide
from cosmic_opt.simulation.analytical._jit import jit
from cosmic_opt.simulation.analytical.batch import option_vectors
from cosmic_opt.simulation.analytical.layout import INFEASIBLE
from cosmic_opt.simulation.analytical.step import compose
from cosmic_opt.simulation.analytical.tables import PhaseTables

OUT, MIXED, IN = 0, 1, 2
"""What a box holds: no design that counts, perhaps some, or nothing else."""
AMOUNT, SHARES = SLOTS, SLOTS + 1
"""Where the entries of an option go on after its ticks: the amount, then a share of each coupling rule."""


class Limit(NamedTuple):
    """A design counts up to this step in ticks, and up to this objective value: high · 2^62 + low."""

    ticks: int
    high: int
    low: int


class Trees(NamedTuple):
    """One tree per dimension; node 0 is the root.

    Attributes:
        entries: int64 [D, O, E], ticks, amount and shares of each option.
        order: int64 [D, O], the options of a node side by side.
        first, last: int64 [D, N], a node's range of `order`.
        left: int64 [D, N], its first half (the second is the next node); 0 for a leaf.
        low, high: int64 [D, N, E], the extremes of the entries in a node.
    """

    entries: IntArray
    order: IntArray
    first: IntArray
    last: IntArray
    left: IntArray
    low: IntArray
    high: IntArray


class Scratch(NamedTuple):
    """Extremes of a box: ticks [D, K], and sums of the other entries [E]; and the parts of a step."""

    fast: IntArray
    slow: IntArray
    least: IntArray
    most: IntArray
    terms: IntArray


@jit
def new_trees(options: Options) -> Trees:
    """Return working space for the trees of any region."""
    dimensions, longest = options.amount.shape
    entries = SHARES + options.shares.shape[0]
    nodes = 2 * longest
    return Trees(
        np.zeros((dimensions, longest, entries), dtype=np.int64),
        np.zeros((dimensions, longest), dtype=np.int64),
        np.zeros((dimensions, nodes), dtype=np.int64),
        np.zeros((dimensions, nodes), dtype=np.int64),
        np.zeros((dimensions, nodes), dtype=np.int64),
        np.zeros((dimensions, nodes, entries), dtype=np.int64),
        np.zeros((dimensions, nodes, entries), dtype=np.int64),
    )


@jit
def new_scratch(options: Options) -> Scratch:
    """Return working space for judging boxes."""
    dimensions, entries = options.sizes.shape[0], SHARES + options.shares.shape[0]
    return Scratch(
        np.zeros((dimensions, SLOTS), dtype=np.int64),
        np.zeros((dimensions, SLOTS), dtype=np.int64),
        np.zeros(entries, dtype=np.int64),
        np.zeros(entries, dtype=np.int64),
        np.zeros(TERM_COUNT, dtype=np.int64),
    )


@jit
def exceeds(ticks: int, amount: int, limit: Limit) -> bool:
    """Tell whether a step or its objective value is beyond the limit."""
    if ticks > limit.ticks:
        return True
    high, low = wide(ticks, amount)
    return bool(high > limit.high or (high == limit.high and low > limit.low))


@jit
def judge(region: Region, trees: Trees, box: IntArray, limit: Limit, scratch: Scratch) -> int:
    """Return OUT, MIXED or IN for the box of one node per dimension; a single design is OUT or IN."""
    for entry in range(SLOTS, trees.low.shape[2]):
        scratch.least[entry] = scratch.most[entry] = 0
        for dim in range(box.shape[0]):
            scratch.least[entry] += trees.low[dim, box[dim], entry]
            scratch.most[entry] += trees.high[dim, box[dim], entry]
    sure = True
    for rule in range(region.low.shape[0]):
        least, most = scratch.least[SHARES + rule], scratch.most[SHARES + rule]
        if least > region.high[rule] or most < region.low[rule]:
            return OUT
        sure = sure and least >= region.low[rule] and most <= region.high[rule]
    for dim in range(box.shape[0]):
        for slot in range(SLOTS):
            scratch.fast[dim, slot] = trees.low[dim, box[dim], slot]
            scratch.slow[dim, slot] = trees.high[dim, box[dim], slot]
    ticks = int(compose(region.whole, scratch.fast, scratch.terms))
    if exceeds(ticks, region.amount + scratch.least[AMOUNT], limit):
        return OUT
    if not sure:
        return MIXED
    ticks = int(compose(region.whole, scratch.slow, scratch.terms))
    return MIXED if exceeds(ticks, region.amount + scratch.most[AMOUNT], limit) else IN


@jit
def plant(tables: PhaseTables, options: Options, region: Region, trees: Trees) -> bool:
    """Make every root from the options that can run; tell whether each dimension has some."""
    vector = np.empty((1, SLOTS), dtype=np.int64)
    for dim in range(options.sizes.shape[0]):
        count = 0
        for option in range(options.sizes[dim]):
            if not region.mask[dim, option]:
                continue
            one = options.inputs[dim, option : option + 1]
            option_vectors(tables, region.payload[dim], region.links[dim], one, vector)
            if vector[0, 0] == INFEASIBLE:
                continue
            for slot in range(SLOTS):
                trees.entries[dim, option, slot] = vector[0, slot]
            trees.entries[dim, option, AMOUNT] = options.amount[dim, option]
            for rule in range(options.shares.shape[0]):
                trees.entries[dim, option, SHARES + rule] = options.shares[rule, dim, option]
            trees.order[dim, count] = option
            count += 1
        if count == 0:
            return False
        _enter(trees, dim, 0, 0, count)
    return True


@jit
def _enter(trees: Trees, dim: int, node: int, first: int, last: int) -> None:
    """Make a leaf of a range of `order`."""
    trees.first[dim, node], trees.last[dim, node], trees.left[dim, node] = first, last, 0
    for entry in range(trees.entries.shape[2]):
        least = most = trees.entries[dim, trees.order[dim, first], entry]
        for position in range(first + 1, last):
            value = trees.entries[dim, trees.order[dim, position], entry]
            least, most = min(least, value), max(most, value)
        trees.low[dim, node, entry], trees.high[dim, node, entry] = least, most


@jit
def trim(region: Region, trees: Trees, limit: Limit, scratch: Scratch) -> bool:
    """Drop options with which even the best of the others is out; tell whether each dimension keeps some.

    The roots must be the only nodes.
    """
    dimensions = trees.order.shape[0]
    box = np.zeros(dimensions, dtype=np.int64)
    for dim in range(dimensions):
        count, last = 0, trees.last[dim, 0]
        box[dim] = 1
        for position in range(last):
            option = trees.order[dim, position]
            for entry in range(trees.entries.shape[2]):
                trees.low[dim, 1, entry] = trees.high[dim, 1, entry] = trees.entries[dim, option, entry]
            if judge(region, trees, box, limit, scratch) != OUT:
                trees.order[dim, count] = option
                count += 1
        box[dim] = 0
        if count == 0:
            return False
        if count < last:
            _enter(trees, dim, 0, 0, count)
    return True


@jit
def grow(region: Region, trees: Trees, scratch: Scratch) -> None:
    """Halve every node until nothing sets its options apart. The roots must be the only nodes."""
    weights = np.zeros(trees.entries.shape[2])
    for dim in range(trees.order.shape[0]):
        _weigh(region, trees, dim, scratch, weights)
        node, count = 0, 1
        while node < count:
            entry = _widest(trees, dim, node, weights)
            if entry >= 0:
                middle = _part(trees, dim, node, entry)
                _enter(trees, dim, count, trees.first[dim, node], middle)
                _enter(trees, dim, count + 1, middle, trees.last[dim, node])
                trees.left[dim, node] = count
                count += 2
            node += 1


@jit
def _weigh(region: Region, trees: Trees, dim: int, scratch: Scratch, weights: FloatArray) -> None:
    """Write how much the objective moves, per unit of each entry, from one end of the root box towards the other."""
    for other in range(trees.order.shape[0]):
        for slot in range(SLOTS):
            scratch.fast[other, slot], scratch.slow[other, slot] = trees.low[other, 0, slot], trees.high[other, 0, slot]
    least = most = region.amount
    for other in range(trees.order.shape[0]):
        least, most = least + trees.low[other, 0, AMOUNT], most + trees.high[other, 0, AMOUNT]
    fast = float(compose(region.whole, scratch.fast, scratch.terms))
    slow = float(compose(region.whole, scratch.slow, scratch.terms))
    for slot in range(SLOTS):
        low, high = trees.low[dim, 0, slot], trees.high[dim, 0, slot]
        weights[slot] = 0.0
        if low < high:
            scratch.fast[dim, slot], scratch.slow[dim, slot] = high, low
            up = float(compose(region.whole, scratch.fast, scratch.terms)) - fast
            down = slow - float(compose(region.whole, scratch.slow, scratch.terms))
            scratch.fast[dim, slot], scratch.slow[dim, slot] = low, high
            weights[slot] = (up * least + down * most) / (high - low)
    weights[AMOUNT] = fast + slow
    for entry in range(SHARES, weights.shape[0]):
        width = trees.high[dim, 0, entry] - trees.low[dim, 0, entry]
        weights[entry] = (slow * most - fast * least) / max(width, 1)


@jit
def _widest(trees: Trees, dim: int, node: int, weights: FloatArray) -> int:
    """Return the entry along which a node's options lie farthest apart; -1 when they are all alike."""
    best, farthest = -1, -1.0
    for entry in range(weights.shape[0]):
        width = trees.high[dim, node, entry] - trees.low[dim, node, entry]
        if width > 0 and width * weights[entry] > farthest:
            best, farthest = entry, width * weights[entry]
    return best


@jit
def _part(trees: Trees, dim: int, node: int, entry: int) -> int:
    """Bring the options with the smaller half of the entry's range to the front; return where the others begin."""
    middle = trees.low[dim, node, entry] + (trees.high[dim, node, entry] - trees.low[dim, node, entry]) // 2
    front = trees.first[dim, node]
    for position in range(front, trees.last[dim, node]):
        option = trees.order[dim, position]
        if trees.entries[dim, option, entry] <= middle:
            trees.order[dim, position], trees.order[dim, front] = trees.order[dim, front], option
            front += 1
    return int(front)
