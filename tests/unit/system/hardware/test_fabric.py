"""Collectives on real fabrics: closed forms on a fabric with round constants, and properties of shipped ones."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cosmic_opt.catalog.hardware import load_device
from cosmic_opt.errors import SpecError
from cosmic_opt.system.hardware import KindFactors, Protocol, collective_s
from cosmic_opt.system.hardware.collective import wire_bytes
from tests.unit.system.hardware.devices import ALONE, DEVICE, FABRIC, LIBRARY, with_fabric, with_library

NAMES = ("a100-80", "h100-sxm", "h200-sxm", "b200", "b300", "gb200", "gb300", "mi300x", "tpu-v5p", "trn2", "l40s")
KINDS = ("all_reduce", "all_gather", "reduce_scatter", "all_to_all", "send")


def time(fabric: object, kind: str, gpus: int, size: float, **options: object) -> float:
    return float(collective_s(fabric, kind, gpus, size, **options))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("kind", "sent"),
    [("all_reduce", 1.5e9), ("all_gather", 0.75e9), ("reduce_scatter", 0.75e9), ("all_to_all", 0.75e9), ("send", 1e9)],
)
def test_a_bulk_collective_is_latency_plus_start_up_plus_its_bytes(kind: str, sent: float) -> None:
    hops = 0 if kind in ("all_to_all", "send") else 3
    assert time(FABRIC, kind, 4, 1e9) == pytest.approx(1e-6 + hops * 1e-7 + 3e-6 + sent / 50e9)


def test_a_device_stands_for_its_fabric() -> None:
    assert time(DEVICE, "all_reduce", 4, 1e9) == time(FABRIC, "all_reduce", 4, 1e9)


def test_one_rank_and_no_bytes_take_no_time() -> None:
    assert collective_s(FABRIC, "all_reduce", [1, 4], [1e9, 0]).tolist() == [0, 0]


def test_the_fastest_protocol_wins() -> None:
    low_latency = Protocol("LL", 0.1, 0.0, True)
    fabric = with_library(protocols=(low_latency, *LIBRARY.protocols))
    # without start-up at a tenth of the rate: better below 3 us * 50 GB/s / 9 of traffic
    assert time(fabric, "all_reduce", 4, 1e3) == pytest.approx(1.3e-6 + 1.5e3 / 5e9, rel=1e-3)
    assert time(fabric, "all_reduce", 4, 1e9) == pytest.approx(time(FABRIC, "all_reduce", 4, 1e9), rel=1e-3)


def test_pairs_leave_the_low_latency_protocol_above_their_limit() -> None:
    low_latency = Protocol("LL", 0.1, 0.0, True)
    fabric = with_library(protocols=(low_latency, *LIBRARY.protocols))
    assert time(fabric, "all_to_all", 4, 4e2) == pytest.approx(1e-6 + 3e2 / 5e9, rel=1e-3)
    # 20 kB per peer: twice the limit, although 60 kB at a tenth of the rate would take as long as the start-up
    assert time(fabric, "all_to_all", 4, 8e4) == pytest.approx(1e-6 + 3e-6 + 6e4 / 50e9, rel=1e-3)


def test_pairs_never_use_a_protocol_of_rings() -> None:
    rings_only = Protocol("LL128", 1.0, 0.0, False)
    fabric = with_library(protocols=(rings_only, *LIBRARY.protocols))
    assert time(fabric, "all_gather", 4, 1e9) < time(FABRIC, "all_gather", 4, 1e9)
    assert time(fabric, "all_to_all", 4, 1e9) == time(FABRIC, "all_to_all", 4, 1e9)


def test_copying_the_own_block_costs_a_share_of_a_step() -> None:
    fabric = with_library(kinds={"all_gather": replace(ALONE, copy=0.5)})
    # n - 1 = 3 steps of S/4 on the wire, half a step for the copy
    assert time(fabric, "all_gather", 4, 1e9) == pytest.approx(4.3e-6 + 3.5 * 0.25e9 / 50e9)
    assert time(fabric, "all_gather", 2, 1e9) == pytest.approx(4.1e-6 + 1.5 * 0.5e9 / 50e9)


def test_links_that_outrun_the_copy_slow_all_to_all_alone() -> None:
    fabric = with_fabric(all_to_all_copy=1.0)
    assert time(fabric, "all_to_all", 4, 1e9) == pytest.approx(4e-6 + 4 * 0.25e9 / 50e9)
    assert time(fabric, "all_gather", 4, 1e9) == time(FABRIC, "all_gather", 4, 1e9)


def test_reduction_in_the_switch_moves_the_payload_once() -> None:
    fabric = with_fabric(in_switch_fraction=0.5)
    assert time(fabric, "all_reduce", 8, 1e9) == pytest.approx(1e-6 + 7e-7 + 6e-6 + 1.125e9 / 50e9)


def test_reduction_in_the_switch_helps_above_four_ranks_only() -> None:
    fabric = with_fabric(in_switch_fraction=0.5)
    for ranks in (2, 3, 4):
        assert time(fabric, "all_reduce", ranks, 1e9) == time(FABRIC, "all_reduce", ranks, 1e9)
    for ranks in (5, 8):
        assert time(fabric, "all_reduce", ranks, 1e9) < time(FABRIC, "all_reduce", ranks, 1e9)


def test_reduction_in_the_switch_can_be_forbidden_and_is_for_all_reduce_only() -> None:
    fabric = with_fabric(in_switch_fraction=0.5)
    assert time(fabric, "all_reduce", 8, 1e9, in_switch=False) == time(FABRIC, "all_reduce", 8, 1e9)
    assert time(fabric, "all_gather", 8, 1e9) == time(FABRIC, "all_gather", 8, 1e9)


def test_the_switch_cannot_be_asked_for_where_there_is_none() -> None:
    with pytest.raises(SpecError, match="does not reduce inside its switch"):
        collective_s(FABRIC, "all_reduce", 8, 1e9, in_switch=True)


def test_an_unknown_collective_is_refused_with_the_nearest() -> None:
    with pytest.raises(SpecError, match="unknown collective 'alltoall'"):
        collective_s(FABRIC, "alltoall", 8, 1e9)


def test_a_device_without_a_fabric_is_refused() -> None:
    with pytest.raises(SpecError, match="has no fabric"):
        collective_s(replace(DEVICE, fabric=None), "all_reduce", 8, 1e9)


def test_fully_connected_ranks_use_only_the_links_to_their_group() -> None:
    fabric = with_fabric(peer_share=1 / 7)
    assert time(fabric, "all_gather", 2, 1e9) == pytest.approx(4.1e-6 + 0.5e9 / (50e9 / 7))
    assert time(fabric, "all_gather", 8, 1e9) == pytest.approx(time(FABRIC, "all_gather", 8, 1e9))
    assert time(fabric, "send", 8, 1e9) == pytest.approx(4e-6 + 1e9 / (50e9 / 7))


def test_rails_use_every_network_card_of_a_node() -> None:
    # 16 ranks in 2 nodes of 8: bus min(50, 8 * 10 * 0.5 = 40) GB/s
    expected = 1e-5 + 2e-5 + 1.7e-6 + 2 * 15 / 16 * 1e9 / 40e9
    assert time(FABRIC, "all_reduce", 16, 1e9) == pytest.approx(expected)


def test_without_rails_one_card_carries_the_group() -> None:
    fabric = with_fabric(rail_parallel=False)
    expected = 1e-5 + 2e-5 + 1.7e-6 + 2 * 15 / 16 * 1e9 / 5e9
    assert time(fabric, "all_reduce", 16, 1e9) == pytest.approx(expected)


def test_one_rank_per_node_has_one_card_and_no_link() -> None:
    expected = 1e-5 + 2 * 2e-5 + 2 * 3 / 4 * 1e9 / 5e9
    assert time(FABRIC, "all_reduce", 4, 1e9, gpus_per_node=1) == pytest.approx(expected)


def test_all_to_all_across_nodes_is_limited_by_the_bytes_that_leave() -> None:
    assert time(FABRIC, "all_to_all", 16, 1e9) == pytest.approx(3e-5 + 0.5e9 / 5e9)
    fast = time(FABRIC, "all_to_all", 16, 1e9, nic_bytes_per_s=1e15)
    assert fast == pytest.approx(3e-5 + time(FABRIC, "all_to_all", 8, 0.5e9))


def test_a_send_across_nodes_uses_one_card() -> None:
    assert time(FABRIC, "send", 2, 1e9, gpus_per_node=1) == pytest.approx(3e-5 + 1e9 / 5e9)


def test_a_domain_can_be_larger_than_a_tray() -> None:
    assert time(FABRIC, "all_gather", 16, 1e9, domain=72) == pytest.approx(1e-6 + 15e-7 + 3e-6 + 15 / 16 * 1e9 / 50e9)


def test_wire_bytes_are_those_of_nccl_tests() -> None:
    ranks, size = np.array(4.0), np.array(1e9)
    assert [float(wire_bytes(kind, ranks, size)) for kind in KINDS] == [1.5e9, 0.75e9, 0.75e9, 0.75e9, 1e9]


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("kind", KINDS)
@given(gpus=st.integers(2, 64), size=st.integers(1, 10**10), factor=st.floats(1.0, 8.0), more=st.integers(1, 10**9))
@settings(derandomize=True, deadline=None, max_examples=20)
def test_more_bytes_are_never_faster_and_more_bandwidth_never_slower(
    name: str, kind: str, gpus: int, size: int, factor: float, more: int
) -> None:
    fabric = load_device(name).fabric
    assert fabric is not None
    base = time(fabric, kind, gpus, size)
    assert time(fabric, kind, gpus, size + more) >= base * (1 - 1e-12)
    links = replace(fabric, link_bytes_per_s=fabric.link_bytes_per_s * factor)
    cards = replace(fabric, nic_bytes_per_s=fabric.nic_bytes_per_s * factor)
    for better in (links, cards):
        assert time(better, kind, gpus, size) <= base * (1 + 1e-12)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("kind", KINDS)
def test_tiny_collectives_cost_the_latency_floor(name: str, kind: str) -> None:
    fabric = load_device(name).fabric
    assert fabric is not None
    ranks = min(8, fabric.gpus_per_domain)
    floor = time(fabric, kind, ranks, 1)
    assert 0.8e-6 < floor < 60e-6
    assert time(fabric, kind, ranks, 1024) == pytest.approx(floor, rel=0.15)


@pytest.mark.parametrize(
    "name", [name for name in NAMES if name not in ("l40s", "mi300x")]
)  # PCIe, and a mesh of pairs
@pytest.mark.parametrize("kind", KINDS)
@given(size=st.integers(10**4, 10**10))
@settings(derandomize=True, deadline=None, max_examples=30)
def test_a_group_beyond_the_domain_is_slower_than_one_inside_it_at_equal_degree(
    name: str, kind: str, size: int
) -> None:
    fabric = load_device(name).fabric
    assert fabric is not None
    inside = time(fabric, kind, 2, size)
    assert time(fabric, kind, 2, size, gpus_per_node=1) > inside


@pytest.mark.parametrize("name", ["mi300x", "mi325x", "mi355x"])
def test_two_gpus_of_a_mesh_share_one_of_seven_links_and_eight_share_all(name: str) -> None:
    fabric = load_device(name).fabric
    assert fabric is not None
    two, eight = (time(fabric, "send", 2, 10**10), time(fabric, "all_gather", 8, 10**10))
    assert 10**10 / two == pytest.approx(fabric.link_bytes_per_s / 7 * fabric.efficiency, rel=1e-3)
    assert 7 / 8 * 10**10 / eight == pytest.approx(fabric.link_bytes_per_s * fabric.efficiency * 7 / 7.445, rel=2e-3)


def test_a_pair_of_a_mesh_gathers_much_no_faster_than_through_its_network_cards_and_eight_do() -> None:
    """One link of 64 GB/s at 0.816, less the copy of the own block, against a card of 50 GB/s at 0.8."""
    fabric = load_device("mi300x").fabric
    inside, outside = (time(fabric, "all_gather", 2, 10**10, gpus_per_node=node) for node in (2, 1))
    assert inside / outside == pytest.approx(50 * 0.8 / (64 * 0.816 / 1.445), rel=2e-3)
    assert time(fabric, "all_gather", 2, 10**5, gpus_per_node=1) > 3 * time(fabric, "all_gather", 2, 10**5)
    eight, over = (time(fabric, "all_gather", 8, 10**10, gpus_per_node=node) for node in (8, 1))
    assert over > 8 * eight


@pytest.mark.parametrize("name", ["h100-sxm", "h200-sxm", "b200", "b300"])
def test_large_all_reduces_of_eight_gain_from_the_switch(name: str) -> None:
    device = load_device(name)
    with_switch, ring = (time(device, "all_reduce", 8, 8e9, in_switch=flag) for flag in (True, False))
    assert 1.15 < ring / with_switch < 1.5


def test_a_kind_of_one_pair_limit_is_a_kind_of_sends() -> None:
    library = load_device("h100-sxm").fabric
    assert library is not None
    pairs = {name for name, kind in library.library.kinds.items() if kind.pair_limit_bytes is not None}
    assert pairs == {"all_to_all", "send"}
    assert KindFactors(1, 1, 1, 0, None) == ALONE


def test_arrays_give_what_scalars_give() -> None:
    device = load_device("gb300")
    gpus, sizes = np.array([2, 8, 72, 144]), np.array([1e3, 1e6, 1e9, 1e9])
    for kind in KINDS:
        together = collective_s(device, kind, gpus, sizes).tolist()
        assert together == pytest.approx([time(device, kind, int(n), s) for n, s in zip(gpus, sizes, strict=True)])
