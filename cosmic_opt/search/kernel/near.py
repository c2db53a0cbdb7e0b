"""Compiled: how many designs of each region are up to a limit, which options they have, and the ones of given ranks.

A box all of whose designs count is counted at once, one without any is dropped, any other is halved. Dominance has no
part in it: a design counts though another is better in every respect. The order in which designs are met, hence their
rank, is a function of the region and the limit alone.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from cosmic_opt.search.kernel.arrays import SLOTS, IntArray, Options, Region, Regions, pick
from cosmic_opt.search.kernel.trees import (
    AMOUNT,
    IN,
    MIXED,
    Limit,
    Scratch,
    Trees,
    grow,
    judge,
    new_scratch,
    new_trees,
    plant,
    trim,
)
from cosmic_opt.simulation.analytical._jit import jit
from cosmic_opt.simulation.analytical.layout import Status, Whole
from cosmic_opt.simulation.analytical.step import compose
from cosmic_opt.simulation.analytical.tables import PhaseTables

MOST = 2**62
"""Sizes of boxes saturate here; the callers' regions hold fewer designs that count."""


class Tally(NamedTuple):
    """What a region adds to.

    Attributes:
        counted: int64 [n, 2], designs that count, and designs of boxes left open.
        uses: int64 [2, D, O], designs that count with each option: of all closed regions, and of the one left open.
        ranks: int64 [R], ranks of designs asked for within their region, ascending; empty to count only.
        starts: int64 [n + 1], which of `ranks` belong to each region; each moves on to its end.
        chosen: int64 [R, D], the options of those designs.
    """

    counted: IntArray
    uses: IntArray
    ranks: IntArray
    starts: IntArray
    chosen: IntArray


@jit
def count_regions(
    tables: PhaseTables,
    options: Options,
    regions: Regions,
    limit: Limit,
    max_nodes: int,
    enough: int,
    tally: Tally,
) -> tuple[int, int]:
    """Count region after region; return how many were closed, and the boxes evaluated.

    With ranks, each region is left as soon as its designs are found.

    Args:
        tables, options, regions: As for `bound_regions`.
        limit: What counts.
        max_nodes: Boxes to evaluate at most (a region's root is always evaluated).
        enough: Stop as soon as more designs than these are counted.
        tally: Written; `uses` is added to.
    """
    trees, scratch = new_trees(options), new_scratch(options)
    nodes = total = 0
    for row in range(tally.counted.shape[0]):
        region, left = pick(regions, row), (max_nodes - nodes, enough - total)
        nodes += _count(tables, options, region, limit, left, row, tally, trees, scratch)
        total += tally.counted[row, 0]
        if tally.ranks.shape[0]:
            continue
        if tally.counted[row, 1] > 0:
            return row, nodes
        if nodes >= max_nodes or total > enough:
            return row + 1, nodes
    return int(tally.counted.shape[0]), nodes


@jit
def _count(
    tables: PhaseTables,
    options: Options,
    region: Region,
    limit: Limit,
    left: tuple[int, int],
    row: int,
    tally: Tally,
    trees: Trees,
    scratch: Scratch,
) -> int:
    """Count one region within `left` boxes, or until more than `left` designs; return the boxes evaluated."""
    tally.counted[row, 0] = tally.counted[row, 1] = 0
    if region.whole[Whole.STATUS] != Status.OK or not plant(tables, options, region, trees):
        return 0
    dimensions = options.sizes.shape[0]
    stack = np.zeros((trees.left.shape[1] * dimensions + 2, dimensions), dtype=np.int64)
    verdict = judge(region, trees, stack[0], limit, scratch)
    if verdict == MIXED:
        if not trim(region, trees, limit, scratch):
            return 1
        grow(region, trees, scratch)
    changes = np.zeros((dimensions, options.amount.shape[1] + 1), dtype=np.int64)
    box = np.zeros(dimensions, dtype=np.int64)
    depth, nodes = 1, 0
    searching = tally.ranks.shape[0] > 0
    while depth > 0 and tally.counted[row, 0] <= left[1] and (nodes < left[0] or nodes == 0):
        if searching and tally.starts[row] == tally.starts[row + 1]:
            break
        depth -= 1
        nodes += 1
        for dim in range(dimensions):
            box[dim] = stack[depth, dim]
        verdict = judge(region, trees, box, limit, scratch)
        if verdict == IN:
            _take(trees, box, row, tally, changes)
        elif verdict == MIXED:
            depth = _halve(region, trees, box, stack, depth, scratch)
    for level in range(depth):
        for dim in range(dimensions):
            box[dim] = stack[level, dim]
        tally.counted[row, 1] = min(MOST, tally.counted[row, 1] + _size(trees, box))
    _settle(trees, changes, tally.uses[min(depth, 1)])
    return nodes


@jit
def _halve(region: Region, trees: Trees, box: IntArray, stack: IntArray, depth: int, scratch: Scratch) -> int:
    """Push both halves of a box that was just judged MIXED, cut where the objective spreads most; return the depth."""
    best, farthest = -1, -1.0
    for dim in range(box.shape[0]):
        node = box[dim]
        if trees.left[dim, node] == 0:
            continue
        for slot in range(SLOTS):
            scratch.fast[dim, slot] = trees.high[dim, node, slot]
        ticks = float(compose(region.whole, scratch.fast, scratch.terms))
        for slot in range(SLOTS):
            scratch.fast[dim, slot] = trees.low[dim, node, slot]
        spread = trees.high[dim, node, AMOUNT] - trees.low[dim, node, AMOUNT]
        effect = ticks * (region.amount + scratch.least[AMOUNT] + spread)
        if effect > farthest:
            best, farthest = dim, effect
    for half in range(1, -1, -1):
        for dim in range(box.shape[0]):
            stack[depth, dim] = box[dim]
        stack[depth, best] = trees.left[best, box[best]] + half
        depth += 1
    return depth


@jit
def _size(trees: Trees, box: IntArray) -> int:
    """Return the designs of a box."""
    size, estimate = 1, 1.0
    for dim in range(box.shape[0]):
        width = trees.last[dim, box[dim]] - trees.first[dim, box[dim]]
        size, estimate = size * width, estimate * width
    return size if estimate < MOST else MOST


@jit
def _take(trees: Trees, box: IntArray, row: int, tally: Tally, changes: IntArray) -> None:
    """Count a box, and write out those of its designs whose ranks are asked for."""
    size, before = _size(trees, box), tally.counted[row, 0]
    for dim in range(box.shape[0]):
        first, last = trees.first[dim, box[dim]], trees.last[dim, box[dim]]
        changes[dim, first] += size // (last - first)
        changes[dim, last] -= size // (last - first)
    at = tally.starts[row]
    while at < tally.starts[row + 1] and tally.ranks[at] < before + size:
        rest = tally.ranks[at] - before
        for dim in range(box.shape[0]):
            first, last = trees.first[dim, box[dim]], trees.last[dim, box[dim]]
            tally.chosen[at, dim] = trees.order[dim, first + rest % (last - first)]
            rest //= last - first
        at += 1
    tally.starts[row] = at
    tally.counted[row, 0] = before + size


@jit
def _settle(trees: Trees, changes: IntArray, uses: IntArray) -> None:
    """Add up `changes` along `order`, and add the result to the uses of the options."""
    for dim in range(changes.shape[0]):
        running = 0
        for position in range(trees.last[dim, 0]):
            running += changes[dim, position]
            uses[dim, trees.order[dim, position]] += running
