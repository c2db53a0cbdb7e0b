"""Compiled: bounds of whole regions."""

from __future__ import annotations

import numpy as np

from cosmic_opt.search.kernel.arrays import SLOTS, TERM_COUNT, IntArray, Options, Region, Regions, pick
from cosmic_opt.simulation.analytical._jit import jit
from cosmic_opt.simulation.analytical.batch import option_vectors
from cosmic_opt.simulation.analytical.layout import INFEASIBLE, Status, Whole
from cosmic_opt.simulation.analytical.step import TOO_LONG, compose
from cosmic_opt.simulation.analytical.tables import PhaseTables


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
    if region.whole[Whole.STATUS] != Status.OK:
        return TOO_LONG
    for dim in range(options.sizes.shape[0]):
        size = options.sizes[dim]
        option_vectors(tables, region.payload[dim], region.links[dim], options.inputs[dim, :size], vectors)
        for slot in range(SLOTS):
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
    vectors = np.empty((options.inputs.shape[1], SLOTS), dtype=np.int64)
    extremes = np.empty((dimensions, SLOTS), dtype=np.int64)
    terms = np.empty(TERM_COUNT, dtype=np.int64)
    for row in range(ticks.shape[0]):
        region = pick(regions, row)
        ticks[row] = region_bound(tables, options, region, worst, vectors, extremes, terms)
        amounts[row] = least_amount(options, region)
