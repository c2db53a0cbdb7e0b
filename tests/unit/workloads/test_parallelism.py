"""Stages and placements: every layer and every NPU exactly once."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cosmic_opt.errors import InfeasibleError, SpecError
from cosmic_opt.workloads.parallelism import (
    Parallelism,
    layers_of_stage,
    nested_extents,
    nested_placement,
    placement_strides,
    stage_layers,
)

factors = st.integers(min_value=1, max_value=48)


@pytest.mark.parametrize(
    ("layers", "pp", "stages"),
    [
        (96, 1, (96,)),
        (96, 8, (12,) * 8),
        (126, 16, (7, *(8,) * 14, 7)),
        (10, 4, (2, 3, 3, 2)),
        (9, 4, (2, 2, 3, 2)),
        (11, 4, (3, 3, 3, 2)),
        (3, 2, (2, 1)),
        (2, 4, (0, 1, 1, 0)),
    ],
)
def test_left_over_layers_go_to_the_middle_then_to_the_first_stage(
    layers: int, pp: int, stages: tuple[int, ...]
) -> None:
    assert stage_layers(layers, pp) == stages


@settings(derandomize=True, deadline=None)
@given(layers=st.integers(0, 300), pp=st.integers(1, 320))
def test_stages_sum_to_the_layers_and_differ_by_at_most_one(layers: int, pp: int) -> None:
    stages = stage_layers(layers, pp)
    assert len(stages) == pp
    assert sum(stages) == layers
    assert max(stages) - min(stages) <= 1
    assert stages[-1] == min(stages)


@settings(derandomize=True, deadline=None)
@given(layers=st.integers(0, 300), pp=st.integers(1, 64))
def test_the_vectorised_closed_form_equals_the_list(layers: int, pp: int) -> None:
    stage = np.arange(pp)
    assert tuple(layers_of_stage(layers, np.full(pp, pp), stage)) == stage_layers(layers, pp)


def test_no_stages_are_refused() -> None:
    with pytest.raises(SpecError, match="0 stages"):
        stage_layers(12, 0)


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


def test_world_size_is_the_product_of_the_degrees() -> None:
    cut = Parallelism(dp=32, tp=4, pp=1, sp=8)
    assert cut.npus == 1024
    assert cut.degrees == (4, 8, 32, 1)


def test_a_degree_of_zero_is_refused() -> None:
    with pytest.raises(SpecError, match="pp is 0"):
        Parallelism(dp=1, tp=1, pp=0, sp=1)
