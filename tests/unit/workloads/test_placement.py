"""Placements: every group and every NPU exactly once; orders that place alike are one design."""

import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cosmic_opt.errors import InfeasibleError
from cosmic_opt.workloads.placement import (
    GROUPS,
    ORDERS,
    nested_extents,
    nested_placement,
    order_repeats,
    placement_strides,
    repeated_orders,
)

factors = st.integers(min_value=1, max_value=48)


def test_groups_fill_the_network_from_the_inside_out() -> None:
    # tp 8 takes dim 0 (4) and half of dim 1 (8); sp 2 the next factor; dp 64 the rest
    extents = nested_placement((8, 2, 64, 1), (4, 8, 4, 8))
    assert extents == ((4, 2, 1, 1), (1, 2, 1, 1), (1, 2, 4, 8), (1, 1, 1, 1))
    assert placement_strides(extents) == ((1, 1, 1, 1), (4, 2, 1, 1), (4, 4, 1, 1), (4, 8, 4, 8))


def test_a_factor_of_three_goes_where_it_fits() -> None:
    # 1536 = 2^9 * 3: dp = 3 * 16 meets its 3 in the outer dimension only
    extents = nested_placement((8, 1, 48, 4), (8, 16, 12))
    assert extents == ((8, 1, 1), (1, 1, 1), (1, 16, 3), (1, 1, 4))


def test_one_npu_has_a_placement() -> None:
    assert nested_placement((1, 1, 1, 1), (1,)) == ((1,), (1,), (1,), (1,))


def test_degrees_that_do_not_fill_the_network_are_refused() -> None:
    with pytest.raises(InfeasibleError, match="16 NPUs, the network has 32") as refused:
        nested_placement((8, 2), (4, 8))
    assert refused.value.hint


@settings(derandomize=True, deadline=None)
@given(matrix=st.lists(st.tuples(factors, factors, factors), min_size=1, max_size=4))
def test_extents_multiply_to_the_degrees_and_to_the_dimensions(matrix: list[tuple[int, int, int]]) -> None:
    # any grid of factors gives degrees and dimensions of the same product
    degrees = tuple(math.prod(row) for row in matrix)
    npus = tuple(math.prod(column) for column in zip(*matrix, strict=True))
    extents = nested_placement(degrees, npus)
    assert tuple(math.prod(row) for row in extents) == degrees
    assert tuple(math.prod(column) for column in zip(*extents, strict=True)) == npus


def test_many_designs_are_placed_at_once() -> None:
    degrees = np.array([[8, 1], [2, 4], [4, 16]])
    npus = np.array([[4, 4], [16, 16]])
    batch = nested_extents(degrees, npus)
    for design in range(2):
        one = nested_placement(tuple(map(int, degrees[:, design])), tuple(map(int, npus[:, design])))
        assert np.array_equal(batch[:, :, design], one)
    assert np.array_equal(npus, [[4, 4], [16, 16]])


def shapes_of(npus: int, dimensions: int, sizes: tuple[int, ...]) -> list[tuple[int, ...]]:
    return [shape for shape in itertools.product(sizes, repeat=dimensions) if math.prod(shape) == npus]


def degrees_of(npus: int) -> list[tuple[int, ...]]:
    powers = [2**exponent for exponent in range(npus.bit_length())]
    return [degrees for degrees in itertools.product(powers, repeat=len(GROUPS)) if math.prod(degrees) == npus]


def placed_by(order: str, degrees: tuple[int, ...], shape: tuple[int, ...]) -> tuple[tuple[int, ...], ...]:
    groups = [GROUPS.index(group) for group in order.split("_")]
    rows = nested_placement([degrees[group] for group in groups], shape)
    return tuple(rows[groups.index(group)] for group in range(len(GROUPS)))


def test_24_orders_of_1024_npus_give_25440_placements() -> None:
    cases = list(itertools.product(degrees_of(1024), shapes_of(1024, 4, (4, 8, 16))))
    degrees = np.array([case[0] for case in cases]).T
    npus = np.array([case[1] for case in cases]).T
    assert int((~repeated_orders(degrees, npus)).sum()) == 25_440


def test_one_order_stands_for_each_placement() -> None:
    for degrees, shape in itertools.product(degrees_of(64), shapes_of(64, 3, (2, 4, 8))):
        repeated = repeated_orders(np.array([degrees]).T, np.array([shape]).T)[:, 0]
        kept = [placed_by(order, degrees, shape) for order, again in zip(ORDERS, repeated, strict=True) if not again]
        everything = {placed_by(order, degrees, shape) for order in ORDERS}
        assert len(kept) == len(everything)
        assert set(kept) == everything


def test_groups_of_one_member_come_last_in_the_order_that_stands() -> None:
    # tp 4 fills the only dimension; sp, dp and pp have one member, so one order is left: the first of all
    repeated = repeated_orders(np.array([[4], [1], [1], [1]]), np.array([[4]]))[:, 0]
    assert [order for order, again in zip(ORDERS, repeated, strict=True) if not again] == ["tp_sp_dp_pp"]
    repeated = repeated_orders(np.array([[1], [1], [4], [1]]), np.array([[4]]))[:, 0]
    assert [order for order, again in zip(ORDERS, repeated, strict=True) if not again] == ["dp_tp_sp_pp"]


def test_the_quantity_counts_each_row_by_its_own_order() -> None:
    (term,) = order_repeats(1).terms
    columns = {"tp": [4, 4], "sp": [1, 1], "dp": [1, 1], "pp": [1, 1], "npus_per_dim[0]": [4, 4]}
    rows = {name: np.array(values) for name, values in columns.items()} | {"order": np.array([ORDERS[0], ORDERS[1]])}
    assert term.evaluate(rows).tolist() == [0, 1]


def test_no_designs_have_no_orders_to_count() -> None:
    (term,) = order_repeats(1).terms
    nothing = {name: np.zeros(0, dtype="<U11" if name == "order" else np.int64) for name in term.names}
    assert term.evaluate(nothing).shape == (0,)
