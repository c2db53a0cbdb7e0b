"""Where parallel groups lie on network dimensions: extents, the orders that generate them, strides.

`extents[g][d]` is how far group g reaches into dimension d. Its product over d is the degree of g, its product over
g the NPUs of d. The nested placement fills dimensions from the innermost outward, one group after another; another
filling order gives other extents, and free extents are design columns themselves. Inside a dimension the strides of
the groups follow `GROUPS` whatever the filling order.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from cosmic_opt.errors import InfeasibleError
from cosmic_opt.psa.quantity import IntArray, Quantity, QuantityTerm, Values
from cosmic_opt.units import Unit

GROUPS = ("tp", "sp", "dp", "pp")
"""The parallel groups in the order of the nested placement, innermost network dimension first."""

ORDERS = tuple("_".join(order) for order in itertools.permutations(GROUPS))
"""Every filling order, lexicographic in the positions of `GROUPS`; the first is the nested placement's."""

_POSITIONS = tuple(itertools.permutations(range(len(GROUPS))))
_CASES_AT_ONCE = 8192

ORDER_REPEATS = "order_repeats"
"""A quantity: 1 where another order gives the same extents and stands for them, else 0."""


def nested_extents(degrees: IntArray, npus_per_dim: IntArray) -> IntArray:
    """Return the extents of many designs whose groups fill the network in the order given.

    Groups fill the network in the order given, from the innermost dimension outward. A group takes from a
    dimension the greatest common divisor of what it still needs and what is still free: for every prime, the
    lesser exponent.

    Args:
        degrees: Shape (groups, designs).
        npus_per_dim: Shape (dimensions, designs), innermost first.

    Returns:
        Shape (groups, dimensions, designs). `extents[g].prod(axis=0)` is the degree of group g, and
        `extents[:, d].prod(axis=0)` the NPUs of dimension d, wherever both have the same product.
    """
    free = npus_per_dim.copy()
    extents = np.ones((len(degrees), *npus_per_dim.shape), dtype=np.int64)
    for group, degree in enumerate(degrees):
        needed = degree.copy()
        for dimension in range(len(free)):
            taken = np.gcd(needed, free[dimension])
            extents[group, dimension] = taken
            needed //= taken
            free[dimension] //= taken
    return extents


def nested_placement(degrees: Sequence[int], npus_per_dim: Sequence[int]) -> tuple[tuple[int, ...], ...]:
    """Return `extents[g][d]`, how far each group reaches into each dimension; see `nested_extents`.

    Raises:
        InfeasibleError: the degrees and the dimensions have different products.
    """
    if math.prod(degrees) != math.prod(npus_per_dim):
        raise InfeasibleError(
            f"degrees {tuple(degrees)} need {math.prod(degrees)} NPUs, the network has {math.prod(npus_per_dim)}",
            hint="the product of the parallel degrees equals the number of NPUs",
        )
    columns = (np.array(values, dtype=np.int64).reshape(-1, 1) for values in (degrees, npus_per_dim))
    extents = nested_extents(*columns)
    return tuple(tuple(int(extent) for extent in row) for row in extents[:, :, 0])


def placement_strides(extents: Sequence[Sequence[int]]) -> tuple[tuple[int, ...], ...]:
    """Return `strides[g][d]`: the distance inside dimension d between neighbours of group g.

    It is the product of the extents of the groups before it.
    """
    strides = [[1] * len(extents[0])] if extents else []
    for row in extents[:-1]:
        strides.append([stride * extent for stride, extent in zip(strides[-1], row, strict=True)])
    return tuple(tuple(row) for row in strides)


def order_repeats(dimensions: int) -> Quantity:
    """Return the quantity that marks an order whose extents another order stands for.

    Of the orders that give equal extents one is canonical: groups of degree 1 last, then the first of `ORDERS`.
    """
    numbers = (*GROUPS, *(f"npus_per_dim[{dimension}]" for dimension in range(dimensions)))

    def evaluate(values: Mapping[str, Values]) -> IntArray:
        return _order_repeats(np.stack([values[name] for name in numbers]), values["order"])

    term = QuantityTerm((*numbers, "order"), evaluate)
    return Quantity(ORDER_REPEATS, Unit.NONE, (term,), "1 where another filling order gives the same extents")


def _order_repeats(numbers: Values, orders: Values) -> IntArray:
    """Return 1 for each design whose order is not canonical; equal degrees and shapes are placed once."""
    if not len(orders):
        return np.zeros(0, dtype=np.int64)
    cases, case = np.unique(numbers.astype(np.int64), axis=1, return_inverse=True)
    repeated = np.concatenate(
        [
            repeated_orders(cases[: len(GROUPS), part], cases[len(GROUPS) :, part])
            for start in range(0, cases.shape[1], _CASES_AT_ONCE)
            for part in [slice(start, start + _CASES_AT_ONCE)]
        ],
        axis=1,
    )
    codes = np.zeros(len(orders), dtype=np.int64)
    for code, order in enumerate(ORDERS):
        codes[orders == order] = code
    return repeated[codes, case.reshape(-1)].astype(np.int64)


def repeated_orders(degrees: IntArray, npus_per_dim: IntArray) -> NDArray[np.bool_]:
    """Return which of `ORDERS` are not canonical, [orders, designs]; arguments as of `nested_extents`."""
    placed = np.stack([_extents_by_order(degrees, npus_per_dim, order) for order in _POSITIONS])
    normal = np.stack([_degree_one_last(degrees, order) for order in _POSITIONS])
    repeated = ~normal
    for later in range(1, len(ORDERS)):
        for earlier in range(later):
            same = (placed[earlier] == placed[later]).all(axis=(0, 1))
            repeated[later] |= normal[earlier] & same
    return repeated


def _extents_by_order(degrees: IntArray, npus_per_dim: IntArray, order: Sequence[int]) -> IntArray:
    """Return the extents of an order of positions in `GROUPS`, [groups, dimensions, designs], groups as in `GROUPS`."""
    extents = nested_extents(degrees[list(order)], npus_per_dim)
    placed = np.empty_like(extents)
    placed[list(order)] = extents
    return placed


def _degree_one_last(degrees: IntArray, order: Sequence[int]) -> NDArray[np.bool_]:
    """Tell, per design, whether no group of several members follows one of degree 1."""
    several = degrees[list(order)] > 1
    return np.asarray((several[1:] <= several[:-1]).all(axis=0))
