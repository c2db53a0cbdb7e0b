"""ASTRA-sim's congestion-unaware backend: hand-worked times, its own outputs, and a message-level replay."""

import json
import math
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cosmic_opt.analysis.astra_sim_rows import astra_case
from cosmic_opt.simulation.collective import AstraSimOptions, simulate_collective
from cosmic_opt.simulation.collective.astra_sim import AstraCase, run_case
from cosmic_opt.simulation.collective.astra_sim.algorithms import (
    Costs,
    halving_doubling_finish,
    halving_doubling_messages,
    ring_finish,
)
from cosmic_opt.simulation.collective.astra_sim.direct import direct_finish
from cosmic_opt.simulation.collective.astra_sim.edges import Edges, Fabric
from cosmic_opt.simulation.collective.astra_sim.plan import cut
from cosmic_opt.simulation.collective.astra_sim.trees import tree_finish
from cosmic_opt.system.network import Dimension, Network

GOLDEN = Path(__file__).parents[2] / "golden" / "astrasim_collectives.json"
ROWS: list[dict[str, Any]] = [
    row for row in json.loads(GOLDEN.read_text(encoding="utf-8"))["cases"] if row["backend"] == "unaware"
]
GIB = 2**30
RING_OF_8 = AstraCase(("ring",), (8,), (50.0,), (500.0,), ("ring",), "all_reduce", 2**20)
GRID = replace(
    RING_OF_8,
    topologies=("ring", "fully_connected", "switch"),
    npus_per_dim=(2, 8, 4),
    bandwidth_gib_per_s=(200.0, 100.0, 50.0),
    latency_ns=(50.0, 500.0, 2000.0),
    algorithms=("ring", "direct", "halvingDoubling"),
)


def message_ns(hops: int, latency_ns: float, size_bytes: int, gib_per_s: float) -> int:
    return math.floor(hops * latency_ns + size_bytes / (gib_per_s * GIB / 1e9))


@pytest.mark.parametrize("row", ROWS, ids=[row["id"] for row in ROWS])
def test_astra_sims_own_time_to_the_nanosecond(row: dict[str, Any]) -> None:
    timing = run_case(astra_case(row))
    assert timing.time_ns == row["time_ns"]
    assert timing.first_npu_time_ns == row.get("first_npu_time_ns", row["time_ns"])


def test_a_ring_all_reduce_is_its_closed_form() -> None:
    """2(n-1) T + (2n-1) d + (n-1) P."""
    case = replace(RING_OF_8, memory_gb_per_s=50.0)
    size = 2**20 // 8
    expected = 14 * message_ns(1, 500.0, size, 50.0) + 15 * 10 + 7 * 3 * (size // 50)
    assert run_case(case).time_ns == expected


def test_a_window_of_one_sends_to_one_peer_after_the_other() -> None:
    """On a switch all distances are equal: R T + (R + 1) d with R = 7 rounds."""
    case = replace(RING_OF_8, topologies=("switch",), algorithms=("direct1",), collective="all_to_all")
    assert run_case(case).time_ns == 7 * message_ns(2, 500.0, 2**17, 50.0) + 8 * 10


def test_halving_doubling_rounds_odd_sizes_down_at_every_level() -> None:
    """15 bytes: 7, 3 going down; 3 is halved once more and doubled, so 2, 4 going up."""
    sizes = [(1, 7), (2, 3), (2, 2), (1, 4)]
    case = replace(
        RING_OF_8,
        npus_per_dim=(4,),
        bandwidth_gib_per_s=(0.01,),
        algorithms=("halvingDoubling",),
        size_bytes=15,
    )
    expected = sum(message_ns(hops, 500.0, size, 0.01) for hops, size in sizes) + 5 * 10
    assert run_case(case).time_ns == expected


def test_one_queue_with_k_servers_runs_k_chunks_at_one_time() -> None:
    one = run_case(replace(RING_OF_8, size_bytes=2**14)).time_ns
    case = replace(RING_OF_8, size_bytes=7 * 2**14, chunks=7, active_chunks=2)
    assert run_case(case).time_ns == 4 * one


@pytest.mark.parametrize(
    ("size", "splits", "collective", "count", "chunk"),
    [
        (2**20, 3, "all_reduce", 4, 349525),
        (0, 4, "all_reduce", 4, 8),
        (31, 4, "all_to_all", 4, 8),
        (31, 4, "all_gather", 5, 7),
        (32, 4, "reduce_scatter", 4, 8),
    ],
)
def test_chunks_are_equal_and_have_a_least_size(
    size: int, splits: int, collective: str, count: int, chunk: int
) -> None:
    chunks = cut(replace(RING_OF_8, size_bytes=size, chunks=splits, collective=collective))
    assert (chunks.count, chunks.size_bytes) == (count, chunk)


def test_only_the_lowest_differing_dimension_is_charged() -> None:
    fabric = Fabric(("ring", "switch"), (4, 4), (1.0, 2.0), (10.0, 100.0))
    assert fabric.edges((0, 5)).ahead_ns(1, 0).tolist() == [10, 10]
    assert fabric.edges((0, 2)).ahead_ns(1, 0).tolist() == [20, 20]
    assert fabric.edges((0, 8)).ahead_ns(1, 0).tolist() == [200, 200]


def test_a_fifth_dimension_takes_no_part_by_default() -> None:
    five = AstraCase(("ring",) * 5, (2,) * 5, (50.0,) * 5, (100.0,) * 5, ("ring",) * 5, "all_reduce", 2**20)
    named = replace(five, involved_dims=(True,) * 4 + (False,))
    assert run_case(five).time_ns == run_case(named).time_ns
    assert run_case(replace(five, involved_dims=(True,) * 5)).time_ns > run_case(five).time_ns


def test_a_list_of_algorithms_that_is_too_short_drops_dimensions() -> None:
    short = replace(GRID, algorithms=("ring", "direct"))
    assert run_case(short).time_ns == run_case(replace(GRID, involved_dims=(True, True, False))).time_ns


def test_a_group_of_every_npu_keeps_the_hierarchy() -> None:
    assert run_case(replace(GRID, groups=(tuple(range(64)),))).time_ns == run_case(GRID).time_ns


def test_a_smaller_group_is_a_flat_ring_with_a_fixed_delay() -> None:
    group = replace(GRID, groups=((0, 1),), endpoint_delay_ns=100)
    expected = 2 * message_ns(1, 50.0, 2**19, 200.0) + 3 * 10
    assert run_case(group).time_ns == expected


def test_a_tree_runs_an_all_reduce_for_any_collective() -> None:
    tree = replace(RING_OF_8, algorithms=("doubleBinaryTree",))
    times = {
        run_case(replace(tree, collective=kind)).time_ns for kind in ("all_reduce", "reduce_scatter", "all_gather")
    }
    assert len(times) == 1


def test_trees_in_two_dimensions_finish_npus_at_different_times() -> None:
    case = replace(GRID, algorithms=("doubleBinaryTree", "doubleBinaryTree", "ring"), chunks=4)
    timing = run_case(case)
    assert timing.first_npu_time_ns <= timing.time_ns


Algorithm = Callable[[str, Edges, int, Costs, Any], Any]


def direct_with_all_peers(collective: str, edges: Edges, data: int, costs: Costs, starts: Any) -> Any:
    return direct_finish(collective, edges, data, costs, starts, edges.members - 1, subgroup=False)


def direct_with_two(collective: str, edges: Edges, data: int, costs: Costs, starts: Any) -> Any:
    return direct_finish(collective, edges, data, costs, starts, 2, subgroup=False)


@given(
    algorithm=st.sampled_from([ring_finish, halving_doubling_finish, direct_with_all_peers, direct_with_two]),
    collective=st.sampled_from(["all_reduce", "reduce_scatter", "all_gather"]),
    levels=st.integers(1, 4),
    data=st.integers(1, 10**6),
    delay=st.integers(1, 100),
)
@settings(derandomize=True, deadline=None)
def test_folding_equal_npus_into_one_changes_nothing(
    algorithm: Algorithm, collective: str, levels: int, data: int, delay: int
) -> None:
    count = 1 << levels
    whole = Fabric(("ring",), (count,), (3.0,), (70.5,)).edges(range(count))
    costs = Costs(delay, 40.0)
    apart = algorithm(collective, whole, data, costs, np.zeros(count, dtype=np.int64))
    folded = algorithm(collective, whole.folded(), data, costs, np.zeros(1, dtype=np.int64))
    assert set(apart.tolist()) == set(folded.tolist())


@st.composite
def uneven(draw: st.DrawFn, counts: st.SearchStrategy[int]) -> tuple[Edges, Any, Costs, int]:
    """Draw members of a ring in any order, so that edges differ, and start times."""
    count = draw(counts)
    members = draw(st.permutations(range(16)))[:count]
    fabric = Fabric(("ring", "switch"), (4, 4), (3.0, 0.5), (70.5, 400.0))
    starts = np.array(draw(st.lists(st.integers(0, 3000), min_size=count, max_size=count)), dtype=np.int64)
    return fabric.edges(members), starts, Costs(draw(st.integers(1, 50)), 20.0), draw(st.integers(1, 5000))


@given(drawn=uneven(st.integers(2, 9)), collective=st.sampled_from(["all_reduce", "all_gather", "all_to_all"]))
@settings(derandomize=True, deadline=None)
def test_an_uneven_ring_goes_on_when_it_has_sent_and_received(
    drawn: tuple[Edges, Any, Costs, int], collective: str
) -> None:
    edges, starts, costs, data = drawn
    count = edges.members
    size = data if collective == "all_gather" else data // count
    steps = {"all_reduce": 2 * (count - 1), "all_gather": count - 1, "all_to_all": count * (count - 1) // 2}[collective]
    sent = [[int(start) + costs.delay_ns] for start in starts]
    for step in range(steps):
        reduction = costs.reduction_ns(size) if collective == "all_reduce" and step < count - 1 else 0
        for npu in range(count):
            before = (npu - 1) % count
            arrival = sent[before][step] + int(edges.ahead_ns(1, size)[before])
            sent[npu].append(max(arrival, sent[npu][step]) + costs.delay_ns + reduction)
    assert ring_finish(collective, edges, data, costs, starts).tolist() == [times[-1] for times in sent]


@given(drawn=uneven(st.sampled_from([2, 4, 8])))
@settings(derandomize=True, deadline=None)
def test_uneven_halving_pairs_wait_for_each_other(drawn: tuple[Edges, Any, Costs, int]) -> None:
    edges, starts, costs, data = drawn
    count = edges.members
    levels = count.bit_length() - 1
    ready = [int(start) + costs.delay_ns for start in starts]
    for level in range(levels):
        size = data >> (level + 1)
        reduction = costs.reduction_ns(size >> 1) if level < levels - 1 else 0
        pairs = [npu ^ (1 << level) for npu in range(count)]
        arrivals = [ready[pair] + int(edges.ahead_ns(npu - pair, size)[pair]) for npu, pair in enumerate(pairs)]
        ready = [max(mine, arrival) + costs.delay_ns + reduction for mine, arrival in zip(ready, arrivals, strict=True)]
    assert halving_doubling_finish("reduce_scatter", edges, data, costs, starts).tolist() == ready


@given(drawn=uneven(st.integers(2, 9)), collective=st.sampled_from(["reduce_scatter", "all_gather", "all_to_all"]))
@settings(derandomize=True, deadline=None)
def test_an_uneven_exchange_ends_with_its_last_message(drawn: tuple[Edges, Any, Costs, int], collective: str) -> None:
    edges, starts, costs, data = drawn
    count = edges.members
    size = data if collective == "all_gather" else data // count
    reduction = costs.reduction_ns(size) if collective == "reduce_scatter" else 0
    times = [edges.ahead_ns(offset, size).tolist() for offset in range(count)]
    sent = [int(start) + costs.delay_ns for start in starts]
    expected = [
        max(max(sent[(npu - j) % count] + times[j][(npu - j) % count], sent[npu]) for j in range(1, count))
        + costs.delay_ns
        + reduction
        for npu in range(count)
    ]
    assert direct_with_all_peers(collective, edges, data, costs, starts).tolist() == expected


@pytest.mark.parametrize("count", [3, 5, 8, 13])
@pytest.mark.parametrize("memory", [math.inf, 100.0])
def test_a_direct_all_reduce_on_a_ring_leaves_at_the_first_flush(count: int, memory: float) -> None:
    """With a_k the sorted arrivals, g_k = a_k + d + P and flushes at g_k >= last a: end = max(leave + T) + d."""
    edges = Fabric(("ring",), (count,), (2.0,), (300.0,)).edges(range(count), rows=1)
    costs = Costs(10, memory)
    data = 1000 * count
    times = [int(edges.ahead_ns(offset, 1000)[0]) for offset in range(1, count)]
    arrivals = sorted(10 + time for time in times)
    flushes = [
        arrival + 10 + costs.reduction_ns(1000)
        for arrival in arrivals
        if arrival + 10 + costs.reduction_ns(1000) >= arrivals[-1]
    ]
    ready = [arrival + 10 + costs.reduction_ns(1000) for arrival in arrivals]
    leaves = [min(flush for flush in flushes if flush >= at) for at in ready]
    expected = max(leave + time for leave, time in zip(leaves, times, strict=True)) + 10
    zero = np.zeros(1, dtype=np.int64)
    assert direct_with_all_peers("all_reduce", edges, data, costs, zero).tolist() == [expected]


@pytest.mark.parametrize("window", [1, 2, 3, 5])
def test_a_window_pays_a_delay_per_round_and_reduces_every_second_one(window: int) -> None:
    """Equal distances, R = ceil((n-1)/W): all-reduce 2 R T + (2R + 1) d + ceil(R/2) P."""
    edges = Fabric(("switch",), (8,), (2.0,), (300.0,)).edges(range(8), rows=1)
    costs, rounds = Costs(10, 4.0), math.ceil(7 / window)
    time = int(edges.ahead_ns(1, 1000)[0])
    zero = np.zeros(1, dtype=np.int64)

    def finish(collective: str, data: int) -> int:
        return int(direct_finish(collective, edges, data, costs, zero, window, subgroup=False)[0])

    reductions = math.ceil(rounds / 2) * costs.reduction_ns(1000)
    assert finish("all_gather", 1000) == rounds * time + (rounds + 1) * 10
    assert finish("reduce_scatter", 8000) == rounds * time + (rounds + 1) * 10 + reductions
    assert finish("all_reduce", 8000) >= 2 * rounds * time


def test_a_tree_of_four_by_hand() -> None:
    """First tree: 0 above 2 above 1 and 3. T = 100, d = 10, P = 3 · 5."""
    edges = Fabric(("fully_connected",), (4,), (1.0,), (0.0,)).edges(range(4))
    costs = Costs(10, 20.0)
    starts = np.array([0, 0, 0, 40])
    finish = tree_finish(edges, 100, costs, starts, root_is_first=True)
    at_two = 40 + 10 + 100 + 25
    at_root = at_two + 100 + 25
    down_two = at_root + 100 + 25
    assert finish.tolist() == [at_root, down_two + 110, down_two, down_two + 110]
    mirrored = tree_finish(edges, 100, costs, starts[::-1], root_is_first=False)
    assert mirrored.tolist() == finish.tolist()[::-1]


def test_an_all_gather_by_halving_doubling_on_six_npus_runs_too_few_levels() -> None:
    case = replace(RING_OF_8, npus_per_dim=(6,), algorithms=("halvingDoubling",), collective="all_gather")
    expected = message_ns(3, 500.0, 2**20, 50.0) + message_ns(1, 500.0, 2**21, 50.0) + 3 * 10
    assert run_case(case).time_ns == expected


def test_the_profile_converts_bandwidth_from_bytes_per_second() -> None:
    network = Network((Dimension("ring", 8, 50 * GIB, 500_000),))
    result = simulate_collective(network, "all_reduce", ["ring"], 2**20, profile="astra_sim")
    assert result.time_ticks == run_case(RING_OF_8).time_ns * 1000
    assert result.phases[0].time_ticks == result.time_ticks


def test_the_profile_takes_the_shard_of_an_all_gather() -> None:
    network = Network((Dimension("ring", 8, 50 * GIB, 500_000),))
    result = simulate_collective(network, "all_gather", ["ring"], 2**20, profile="astra_sim")
    assert result.bus_bandwidth_bytes_per_s == pytest.approx(7 * 2**20 * 1e12 / result.time_ticks)


def test_direct_gets_more_than_the_bandwidth_for_want_of_contention() -> None:
    network = Network((Dimension("switch", 8, 50 * GIB, 0),))
    result = simulate_collective(network, "all_reduce", ["direct"], 2**30, profile="astra_sim")
    assert result.bus_bandwidth_bytes_per_s > 3 * 50 * GIB


def test_options_reach_the_case() -> None:
    network = Network((Dimension("ring", 8, 50 * GIB, 500_000),))
    options = AstraSimOptions(active_chunks=2, endpoint_delay_ns=100, memory_gb_per_s=50.0, groups=((0, 1, 2, 3),))
    result = simulate_collective(
        network, "all_reduce", ["ring"], 2**20, chunks=4, profile="astra_sim", astra_sim=options
    )
    assert result.npus == 4
    assert result.chunks == 4
    assert result.first_npu_time_ticks <= result.time_ticks


def test_halving_doubling_doubles_from_its_floored_smallest_size() -> None:
    """By hand, as HalvingDoubling.cc: 1,007 bytes are 503, 251, 125, 62; doubled from 62."""
    sends = halving_doubling_messages("all_reduce", 8, 1007)
    assert sends == [(1, 503), (2, 251), (4, 125), (4, 124), (2, 248), (1, 496)]
