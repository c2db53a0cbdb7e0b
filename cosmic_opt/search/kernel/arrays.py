"""What the kernel's functions share: options, regions, and the exact comparison of objective values."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from cosmic_opt.simulation.analytical._jit import jit
from cosmic_opt.simulation.analytical.layout import HIDDEN, TERMS, Slot

IntArray = NDArray[np.int64]
FloatArray = NDArray[np.float64]
BoolArray = NDArray[np.bool_]

SLOTS = int(Slot.COUNT)
TERM_COUNT = len(TERMS) + len(HIDDEN)

UPPER, LOWER, KEY = 1, 2, 3
"""How a coupling rule treats its share under dominance: less is better, more is better, must be equal."""


class Options(NamedTuple):
    """Every dimension's options, padded to the longest list.

    Attributes:
        inputs: int64 [D, O, 4], kernel input of each option.
        sizes: int64 [D], options of each dimension.
        amount: int64 [D, O], share of the objective's amount (0 where there is none).
        shares: int64 [C, D, O], share of each coupling rule.
        sense: int64 [C], UPPER, LOWER or KEY.
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
    left_high, left_low = wide(a, b)
    right_high, right_low = wide(c, d)
    return left_high < right_high or (left_high == right_high and left_low < right_low)


@jit
def wide(a: int, b: int) -> tuple[int, int]:
    """Return a·b as (high, low) with low in [0, 2^62), for non-negative int64."""
    mask = (1 << 31) - 1
    a_high, a_low, b_high, b_low = a >> 31, a & mask, b >> 31, b & mask
    low = a_low * b_low
    middle_one, middle_two = a_high * b_low, a_low * b_high
    total = low + ((middle_one & mask) << 31)
    carry = total >> 62
    total = (total & ((1 << 62) - 1)) + ((middle_two & mask) << 31)
    carry += total >> 62
    return a_high * b_high + (middle_one >> 31) + (middle_two >> 31) + carry, total & ((1 << 62) - 1)
