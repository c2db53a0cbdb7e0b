"""Compiled: bounds of whole regions."""

from __future__ import annotations

import numpy as np

from cosmic_opt.search.kernel.arrays import (
    SLOTS,
    TERM_COUNT,
    BoolArray,
    IntArray,
    Options,
    Region,
    Regions,
    pick,
    product_less,
)
from cosmic_opt.simulation.analytical._jit import jit, jit_apart
from cosmic_opt.simulation.analytical.batch import option_vectors
from cosmic_opt.simulation.analytical.layout import INFEASIBLE, Slot, Status, Whole
from cosmic_opt.simulation.analytical.step import TOO_LONG, compose
from cosmic_opt.simulation.analytical.tables import PhaseTables

_DATA = range(Slot.GRADIENT_UP_LATENCY, Slot.SEND_STEP)
_LEFT_OUT = np.array([slot.name.endswith("LATENCY") or slot in _DATA for slot in Slot if slot is not Slot.COUNT])
"""Which slots a blocking bound leaves out: latencies, and all of data parallelism."""


@jit_apart
def region_bound(
    tables: PhaseTables,
    options: Options,
    region: Region,
    extreme: BoolArray,
    worst: bool,
    vector: IntArray,
    extremes: IntArray,
    terms: IntArray,
) -> int:
    """Return the least (or, `worst`, the greatest) step ticks of the region's options, ignoring coupling rules.

    TOO_LONG stands for a region with no option that runs (worst: one that does not). `extreme` [D, O] are the options
    among which every slot has its extreme; `vector` [1, K], `extremes` [D, K] and `terms` are working space.
    """
    if region.whole[Whole.STATUS] != Status.OK or not _fill_extremes(
        tables, options, region, extreme, worst, vector, extremes
    ):
        return TOO_LONG
    return int(compose(region.whole, extremes, terms))


@jit
def _fill_extremes(
    tables: PhaseTables,
    options: Options,
    region: Region,
    extreme: BoolArray,
    worst: bool,
    vector: IntArray,
    extremes: IntArray,
) -> bool:
    """Fill `extremes` [D, K] with every slot's extreme; tell whether each dimension has an option that runs."""
    for dim in range(options.sizes.shape[0]):
        for slot in range(SLOTS):
            extremes[dim, slot] = 0 if worst else INFEASIBLE
        for option in range(options.sizes[dim]):
            if not extreme[dim, option]:
                continue
            one = options.inputs[dim, option : option + 1]
            option_vectors(tables, region.payload[dim], region.links[dim], one, vector)
            for slot in range(SLOTS):
                if worst:
                    extremes[dim, slot] = max(extremes[dim, slot], vector[0, slot])
                else:
                    extremes[dim, slot] = min(extremes[dim, slot], vector[0, slot])
        if extremes[dim, 0] == INFEASIBLE:
            return False
    return True


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
def silent_bounds(options: Options, regions: Regions, ticks: IntArray, amounts: IntArray) -> None:
    """Fill the step of every region without any communication (0 where it cannot be said), and its least amount."""
    silence = np.zeros((options.sizes.shape[0], SLOTS), dtype=np.int64)
    terms = np.empty(TERM_COUNT, dtype=np.int64)
    for row in range(ticks.shape[0]):
        region = pick(regions, row)
        amounts[row] = least_amount(options, region)
        ticks[row] = 0
        if region.whole[Whole.STATUS] == Status.OK:
            ticks[row] = compose(region.whole, silence, terms)


@jit
def blocking_bounds(
    tables: PhaseTables, options: Options, regions: Regions, extreme: BoolArray, most_chunks: int, ticks: IntArray
) -> None:
    """Fill a lower bound of the step of each region and of all that differ from it in overlap and in more chunks.

    A collective takes at least all that its chunks do on one dimension, which grows with their number only by rounding:
    so it is served on its busiest dimension alone, without latency and less what `most_chunks` roundings lose. Traffic
    of data parallelism, which may hide, is left out. `extreme` is as in `bound_regions`.
    """
    vector = np.empty((1, SLOTS), dtype=np.int64)
    extremes = np.empty((options.sizes.shape[0], SLOTS), dtype=np.int64)
    terms = np.empty(TERM_COUNT, dtype=np.int64)
    whole = np.empty(regions.whole.shape[1], dtype=np.int64)
    for row in range(ticks.shape[0]):
        region = pick(regions, row)
        own = extreme[regions.mask_of[row]]
        ticks[row] = TOO_LONG
        if region.whole[Whole.STATUS] == Status.OK and _fill_extremes(
            tables, options, region, own, False, vector, extremes
        ):
            for place in range(whole.shape[0]):
                whole[place] = region.whole[place]
            whole[Whole.OVERLAP_GRADIENTS] = 1
            _keep_busiest(extremes, most_chunks)
            ticks[row] = compose(whole, extremes, terms)


@jit
def _keep_busiest(extremes: IntArray, most_chunks: int) -> None:
    """Leave of the collectives of blocking groups what their busiest dimension serves, and all of the sends."""
    for up, down in ((Slot.TENSOR_UP, Slot.TENSOR_DOWN), (Slot.SEQUENCE_UP, Slot.SEQUENCE_DOWN)):
        busiest = 0
        for dim in range(extremes.shape[0]):
            if extremes[dim, up] + extremes[dim, down] > extremes[busiest, up] + extremes[busiest, down]:
                busiest = dim
        for dim in range(extremes.shape[0]):
            for slot in (up, down):
                served = extremes[dim, slot]
                lost = most_chunks + 1 + (served >> 48)  # half a tick a chunk, and of floating point
                extremes[dim, slot] = max(0, served - lost) if dim == busiest else 0
    for place in range(SLOTS):
        if _LEFT_OUT[place]:
            for dim in range(extremes.shape[0]):
                extremes[dim, place] = 0


@jit
def bound_regions(
    tables: PhaseTables,
    options: Options,
    regions: Regions,
    extreme: BoolArray,
    worst: bool,
    incumbent: IntArray,
    ticks: IntArray,
    amounts: IntArray,
) -> None:
    """Fill the bound of every region: its least (`worst`: greatest) ticks, and its least amount.

    A region that is worse than the incumbent [ticks, amount] even without any communication gets that lower bound.
    `extreme` [G, D, O] goes with `regions.masks`: a part of each that holds every slot's extreme.
    """
    vector = np.empty((1, SLOTS), dtype=np.int64)
    extremes = np.empty((options.sizes.shape[0], SLOTS), dtype=np.int64)
    terms = np.empty(TERM_COUNT, dtype=np.int64)
    for row in range(ticks.shape[0]):
        region = pick(regions, row)
        amounts[row] = least_amount(options, region)
        if not worst and region.whole[Whole.STATUS] == Status.OK:
            for dim in range(extremes.shape[0]):
                for slot in range(SLOTS):
                    extremes[dim, slot] = 0
            ticks[row] = compose(region.whole, extremes, terms)
            if product_less(incumbent[0], incumbent[1], ticks[row], amounts[row]):
                continue
        own = extreme[regions.mask_of[row]]
        ticks[row] = region_bound(tables, options, region, own, worst, vector, extremes, terms)
