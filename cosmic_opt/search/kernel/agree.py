"""Compiled: do designs that differ only in some columns always get the same ticks and amounts?

Regions come sorted by class, and every option has a class in its dimension: members of a class differ only in the
columns in question. The first member of each class is kept, and every other compared with it.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from cosmic_opt.search.kernel.arrays import SLOTS, BoolArray, IntArray, Options, Region, Regions, pick
from cosmic_opt.simulation.analytical._jit import jit
from cosmic_opt.simulation.analytical.batch import option_vectors
from cosmic_opt.simulation.analytical.layout import INFEASIBLE, Link, Status, Whole
from cosmic_opt.simulation.analytical.tables import PhaseTables

NOWHERE = -1


class First(NamedTuple):
    """The first member of the current class of regions, and of every class of options under it.

    Attributes:
        region: int64 [2], its number and its class.
        whole: int64 [W + 1], its prepared row, then its amount.
        option: int64 [D, C], the option that is first in its class, or NOWHERE.
        vectors: int64 [D, C, K + 1], its vector, then its amount.
        of_region: int64 [D, C], the region where it was met.
    """

    region: IntArray
    whole: IntArray
    option: IntArray
    vectors: IntArray
    of_region: IntArray


@jit
def first_difference(
    tables: PhaseTables,
    options: Options,
    regions: Regions,
    rows: IntArray,
    region_class: IntArray,
    option_class: IntArray,
    compared: BoolArray,
    first: First,
    found: IntArray,
) -> bool:
    """Tell whether two members of one class differ, and where.

    Args:
        tables, options, regions: As for `bound_regions`, regions sorted by class.
        rows: int64 [n], what `found` names as a region.
        region_class: int64 [n].
        option_class: int64 [D, O].
        compared: bool [D], the dimensions to look at.
        first: Carried from call to call.
        found: Written, [5]: two regions, the dimension (NOWHERE: the regions themselves) and two options.
    """
    vector = np.empty((1, SLOTS), dtype=np.int64)
    for row in range(rows.shape[0]):
        region = pick(regions, row)
        if first.region[1] != region_class[row]:
            first.region[0], first.region[1] = rows[row], region_class[row]
            _keep(region, first)
        elif _differs(region, first):
            found[0], found[1], found[2], found[3], found[4] = first.region[0], rows[row], NOWHERE, NOWHERE, NOWHERE
            return True
        if region.whole[Whole.STATUS] != Status.OK:
            continue
        for dim in range(options.sizes.shape[0]):
            for option in range(options.sizes[dim] if compared[dim] else 0):
                if not region.mask[dim, option]:
                    continue
                one = options.inputs[dim, option : option + 1]
                option_vectors(tables, region.payload[dim], region.links[dim], one, vector)
                if _unlike(vector, options.amount[dim, option], first, dim, option_class[dim, option]):
                    own = option_class[dim, option]
                    found[0], found[1] = first.of_region[dim, own], rows[row]
                    found[2], found[3], found[4] = dim, first.option[dim, own], option
                    return True
                if first.option[dim, option_class[dim, option]] == NOWHERE:
                    first.option[dim, option_class[dim, option]] = option
                    first.of_region[dim, option_class[dim, option]] = rows[row]
    return False


@jit
def _keep(region: Region, first: First) -> None:
    for position in range(region.whole.shape[0]):
        first.whole[position] = _own(region, position)
    first.whole[region.whole.shape[0]] = region.amount
    for dim in range(first.option.shape[0]):
        for own in range(first.option.shape[1]):
            first.option[dim, own] = NOWHERE


@jit
def _own(region: Region, position: int) -> int:
    """Return an entry of the prepared row; how gradients are sharded is 0 where no group reduces any."""
    if position == Whole.ZERO_STAGE:
        for dim in range(region.links.shape[0]):
            if region.links[dim, Link.GRADIENT] >= 0:
                return int(region.whole[position])
        return 0
    return int(region.whole[position])


@jit
def _differs(region: Region, first: First) -> bool:
    """Tell whether a region's own part differs from the first of its class; two that cannot run are alike."""
    if region.whole[Whole.STATUS] != first.whole[Whole.STATUS]:
        return True
    if region.whole[Whole.STATUS] != Status.OK:
        return False
    for position in range(region.whole.shape[0]):
        if _own(region, position) != first.whole[position]:
            return True
    return bool(region.amount != first.whole[region.whole.shape[0]])


@jit
def _unlike(vector: IntArray, amount: int, first: First, dim: int, own: int) -> bool:
    """Tell whether an option differs from the first of its class; the first itself is kept."""
    if first.option[dim, own] == NOWHERE:
        for slot in range(SLOTS):
            first.vectors[dim, own, slot] = vector[0, slot]
        first.vectors[dim, own, SLOTS] = amount
        return False
    for slot in range(SLOTS):
        if first.vectors[dim, own, slot] != vector[0, slot]:
            return True
    return bool(first.vectors[dim, own, SLOTS] != amount and vector[0, 0] != INFEASIBLE)
