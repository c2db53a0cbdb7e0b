"""Ranks and groups of a placed design: every NPU once, and neighbours both ways."""

from __future__ import annotations

from itertools import product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cosmic_opt.errors import InfeasibleError
from cosmic_opt.interop.export_groups import MEMBERS, CommunicatorGroups, Placement, extents_of
from cosmic_opt.workloads.graph import CONTEXT, DATA, TENSOR
from cosmic_opt.workloads.placement import GROUPS, ORDERS

PLACED = Placement((4, 4), ((2, 1), (1, 1), (2, 1), (1, 4)))


@st.composite
def placements(draw: st.DrawFn) -> Placement:
    """Draw extents in one to three dimensions; at most 256 NPUs."""
    dims = draw(st.integers(1, 3))
    extents = tuple(tuple(draw(st.sampled_from([1, 1, 2, 3])) for _ in range(dims)) for _ in GROUPS)
    npus = [1] * dims
    for group, dim in product(range(len(GROUPS)), range(dims)):
        npus[dim] *= extents[group][dim]
    placed = Placement(tuple(npus), extents)
    return placed if placed.npus <= 256 else Placement((1,) * dims, ((1,) * dims,) * len(GROUPS))


def test_tensor_neighbours_lie_side_by_side_and_replicas_behind_them() -> None:
    assert PLACED.offsets(TENSOR) == (0, 1)
    assert PLACED.offsets(DATA) == (0, 2)
    assert PLACED.offsets(CONTEXT) == (0,)
    assert [PLACED.stage(rank) for rank in (0, 3, 4, 15)] == [0, 0, 1, 3]
    assert PLACED.neighbour(1, 1) == 5
    assert PLACED.whole_dims(TENSOR) is None


def test_a_group_of_all_npus_spans_every_dimension() -> None:
    assert Placement((4, 1, 2), ((1, 1, 1), (1, 1, 1), (4, 1, 2), (1, 1, 1))).whole_dims(DATA) == (True, True)


@given(placed=placements())
@settings(derandomize=True, deadline=None, max_examples=150)
def test_coordinates_name_every_npu_once(placed: Placement) -> None:
    names = {tuple(placed.coordinate(rank, group) for group in GROUPS) for rank in range(placed.npus)}
    assert len(names) == placed.npus


@given(placed=placements())
@settings(derandomize=True, deadline=None, max_examples=150)
def test_the_groups_of_a_role_part_the_npus(placed: Placement) -> None:
    for role in MEMBERS:
        seen = []
        for rank in range(placed.npus):
            first = placed.first(rank, role)
            members = [first + offset for offset in placed.offsets(role)]
            assert rank in members
            if rank == first:
                seen += members
        assert sorted(seen) == list(range(placed.npus))
        assert len(placed.offsets(role)) == placed.degree(role)


@given(placed=placements(), data=st.data())
@settings(derandomize=True, deadline=None, max_examples=150)
def test_the_way_to_the_next_stage_and_back_leads_home(placed: Placement, data: st.DataObject) -> None:
    rank = data.draw(st.integers(0, placed.npus - 1))
    stages = max(placed.stage(other) for other in range(placed.npus)) + 1
    if placed.stage(rank) + 1 < stages:
        there = placed.neighbour(rank, 1)
        assert placed.stage(there) == placed.stage(rank) + 1
        assert placed.neighbour(there, -1) == rank
        others = [group for group in GROUPS if group != "pp"]
        assert all(placed.coordinate(there, group) == placed.coordinate(rank, group) for group in others)


@given(placed=placements())
@settings(derandomize=True, deadline=None, max_examples=100)
def test_names_of_groups_are_equally_long_numbers(placed: Placement) -> None:
    groups = CommunicatorGroups.of(placed)
    assert len({len(name) for name in groups.members}) <= 1
    assert all(int(name) > 0 for name in groups.members)
    for (role, rank), name in groups.names.items():
        assert groups.name(rank, role) == name
        assert groups.members[name][0] == rank


@pytest.mark.parametrize("order", ORDERS)
def test_every_order_fills_the_dimensions(order: str) -> None:
    degrees = {"tp": 4, "sp": 2, "dp": 8, "pp": 1}
    extents = extents_of({"order": order, **degrees}, (4, 16))
    for group, row in zip(GROUPS, extents, strict=True):
        assert row[0] * row[1] == degrees[group]
    assert [extents[0][d] * extents[1][d] * extents[2][d] * extents[3][d] for d in (0, 1)] == [4, 16]


def test_free_extents_are_taken_as_they_are() -> None:
    design = {f"extent[{group},{dim}]": 1 for group in GROUPS for dim in (0, 1)} | {
        "extent[dp,0]": 4,
        "extent[tp,1]": 2,
    }
    assert extents_of(design, (4, 2)) == ((1, 2), (1, 1), (4, 1), (1, 1))


def test_degrees_that_do_not_fill_the_network_are_refused() -> None:
    with pytest.raises(InfeasibleError):
        extents_of({"order": ORDERS[0], "tp": 2, "sp": 1, "dp": 1, "pp": 1}, (4,))
