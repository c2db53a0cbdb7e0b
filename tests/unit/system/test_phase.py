"""Phase costs against a brute-force simulation of links on a networkx digraph, and closed forms."""

from collections import Counter
from fractions import Fraction
from functools import lru_cache
from itertools import product

import networkx as nx
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cosmic_opt.errors import InfeasibleError, SpecError
from cosmic_opt.system.collectives import ALGORITHMS, COLLECTIVES
from cosmic_opt.system.network import Dimension
from cosmic_opt.system.phase import PhaseCost, dimension_cost, phase_cost, send_cost
from cosmic_opt.system.topology import TOPOLOGIES

Path = tuple[tuple[object, object], ...]

SENT = [name for name in ALGORITHMS if not ALGORITHMS.get(name).in_switch]
"""Algorithms of which every message goes from an NPU to another."""


@lru_cache
def digraph(topology: str, npus: int) -> "nx.DiGraph[object]":
    graph: nx.DiGraph[object] = nx.DiGraph()
    graph.add_nodes_from(range(npus))
    if topology == "switch":
        graph.add_edges_from([(i, "hub") for i in range(npus)] + [("hub", i) for i in range(npus)])
    elif topology == "ring":
        graph.add_edges_from([(i, (i + way) % npus) for i in range(npus) for way in (1, -1)])
    else:
        graph.add_edges_from([(i, j) for i in range(npus) for j in range(npus) if i != j])
    return graph


def reduced_in_switch(npus: int, collective: str, extent: int, stride: int) -> PhaseCost:
    """Bytes on every link of the star, NPU by NPU: what goes up is added or copied in the hub, and goes down."""
    on_link = Counter[tuple[object, object]]()
    others = Fraction(extent - 1, extent)
    up, down = {"all_reduce": (1, 1), "reduce_scatter": (others, 1 - others), "all_gather": (1 - others, others)}[
        collective
    ]
    for start, offset, rank in product(range(0, npus, extent * stride), range(stride), range(extent)):
        member = start + offset + rank * stride
        for link, share in (((member, "hub"), up), (("hub", member), down)):
            assert link in digraph("switch", npus).edges
            on_link[link] += share
    assert len(on_link) == 2 * npus
    return PhaseCost(1, max(on_link.values()))


@lru_cache
def paths(topology: str, npus: int, source: int, target: int) -> tuple[Path, ...]:
    nodes = nx.all_shortest_paths(digraph(topology, npus), source, target)
    return tuple(tuple(nx.utils.pairwise(way)) for way in nodes)


def brute_force(topology: str, algorithm: str, collective: str, npus: int, extent: int, stride: int) -> PhaseCost:
    groups = [
        [start + offset + rank * stride for rank in range(extent)]
        for start in range(0, npus, extent * stride)
        for offset in range(stride)
    ]
    links_per_npu = digraph(topology, npus).out_degree(0)
    hops, load = 0, Fraction(0)
    for step in ALGORITHMS.get(algorithm).steps(collective, extent):
        on_link, longest = Counter[tuple[object, object]](), 0
        for row in step.peers.targets(extent).tolist():
            for group, rank in product(groups, range(extent)):
                if row[rank] < 0:
                    continue
                ways = paths(topology, npus, group[rank], group[row[rank]])
                longest = max(longest, 1 if topology == "switch" else len(ways[0]))
                for way in ways:
                    for link in way:
                        on_link[link] += Fraction(1, len(ways))
        hops += step.repeat * longest
        load += step.repeat * step.share * max(on_link.values()) * links_per_npu
    return PhaseCost(hops, load)


@pytest.mark.parametrize("topology", list(TOPOLOGIES))
@pytest.mark.parametrize("algorithm", SENT)
@pytest.mark.parametrize("collective", COLLECTIVES)
def test_phase_cost_equals_a_simulation_of_every_link(topology: str, algorithm: str, collective: str) -> None:
    for npus in range(2, 17):
        if ALGORITHMS.get(algorithm).runs_on(npus):
            expected = brute_force(topology, algorithm, collective, npus, npus, 1)
            assert phase_cost(topology, algorithm, collective, npus, npus, 1) == expected


@pytest.mark.parametrize("topology", list(TOPOLOGIES))
@pytest.mark.parametrize("algorithm", SENT)
def test_groups_that_run_together_share_links_as_simulated(topology: str, algorithm: str) -> None:
    for npus in (8, 12, 16):
        for extent, stride in product(range(2, npus + 1), range(1, npus + 1)):
            if npus % (extent * stride) or not ALGORITHMS.get(algorithm).runs_on(extent):
                continue
            for collective in ("all_reduce", "all_to_all"):
                expected = brute_force(topology, algorithm, collective, npus, extent, stride)
                assert phase_cost(topology, algorithm, collective, npus, extent, stride) == expected


@pytest.mark.parametrize("npus", [2, 3, 8, 100])
@pytest.mark.parametrize(
    ("topology", "algorithm"),
    [("ring", "ring"), ("switch", "ring"), ("switch", "direct"), ("fully_connected", "direct")],
)
def test_matched_algorithms_use_the_whole_bandwidth(topology: str, algorithm: str, npus: int) -> None:
    cost = phase_cost(topology, algorithm, "all_reduce", npus, npus, 1)
    assert cost.load == Fraction(2 * (npus - 1), npus)


@pytest.mark.parametrize("collective", ["all_reduce", "reduce_scatter", "all_gather"])
def test_a_switch_that_reduces_costs_what_a_simulation_of_its_links_says(collective: str) -> None:
    for npus in (2, 3, 7, 8, 12, 16):
        for extent, stride in product(range(2, npus + 1), range(1, npus + 1)):
            if npus % (extent * stride) == 0:
                expected = reduced_in_switch(npus, collective, extent, stride)
                assert phase_cost("switch", "in_network", collective, npus, extent, stride) == expected


@pytest.mark.parametrize("npus", [2, 8, 1000])
def test_an_all_reduce_in_the_switch_sends_once_and_receives_once(npus: int) -> None:
    """Half the traffic of the end-point algorithms in the limit (FRED, arXiv 2406.19580)."""
    assert phase_cost("switch", "in_network", "all_reduce", npus, npus, 1) == PhaseCost(1, Fraction(1))


@pytest.mark.parametrize("topology", ["ring", "fully_connected"])
def test_only_a_switch_reduces(topology: str) -> None:
    with pytest.raises(InfeasibleError, match="needs a switch"):
        phase_cost(topology, "in_network", "all_reduce", 8, 8, 1)
    with pytest.raises(SpecError, match="no switch"):
        Dimension(topology, 8, 1, 0, in_network_reduction=True)


def test_a_switch_must_be_said_to_reduce() -> None:
    plain = Dimension("switch", 8, 1, 0)
    with pytest.raises(SpecError, match="does not reduce") as caught:
        dimension_cost(plain, "in_network", "all_reduce", 8, 1)
    assert "in_network_reduction" in str(caught.value)
    reducing = Dimension("switch", 8, 1, 0, in_network_reduction=True)
    assert dimension_cost(reducing, "in_network", "all_reduce", 8, 1) == PhaseCost(1, Fraction(1))


def test_a_ring_on_a_fully_connected_block_uses_two_of_its_links() -> None:
    assert phase_cost("fully_connected", "ring", "reduce_scatter", 8, 8, 1).load == Fraction(7 * 7, 2 * 8)


def test_direct_on_a_ring_crosses_many_links() -> None:
    """Eight NPUs: distances 1, 2, 3 each way and half of 4 cross every link: 1 + 2 + 3 + 4/2 = 8 eighths."""
    assert phase_cost("ring", "direct", "reduce_scatter", 8, 8, 1) == PhaseCost(4, Fraction(8, 8) * 2)


def test_halving_doubling_on_a_switch_is_optimal_in_few_steps() -> None:
    assert phase_cost("switch", "halving_doubling", "all_reduce", 16, 16, 1) == PhaseCost(8, Fraction(30, 16))


def test_an_unpipelined_double_tree_pays_its_depth() -> None:
    """On a switch of 8: a parent receives two halves on two levels and one on the last, up and down alike."""
    cost = phase_cost("switch", "double_binary_tree", "all_reduce", 8, 8, 1)
    assert cost == PhaseCost(6, 2 * (1 + 1 + Fraction(1, 2)))


@pytest.mark.parametrize("topology", list(TOPOLOGIES))
@pytest.mark.parametrize("collective", COLLECTIVES)
def test_a_group_of_one_costs_nothing(topology: str, collective: str) -> None:
    assert phase_cost(topology, "ring", collective, 8, 1, 1) == PhaseCost(0, Fraction(0))


def test_neighbouring_groups_of_a_switch_do_not_slow_each_other() -> None:
    alone = phase_cost("switch", "ring", "all_reduce", 4, 4, 1)
    assert phase_cost("switch", "ring", "all_reduce", 64, 4, 16) == alone


@given(
    topology=st.sampled_from(list(TOPOLOGIES)),
    algorithm=st.sampled_from(SENT),
    collective=st.sampled_from(COLLECTIVES),
    extent=st.integers(2, 32),
    stride=st.integers(1, 4),
    groups=st.integers(1, 3),
)
@settings(derandomize=True, deadline=None)
def test_no_phase_beats_the_bandwidth_bound(
    topology: str, algorithm: str, collective: str, extent: int, stride: int, groups: int
) -> None:
    """Every NPU has to send (n-1)/n of the buffer, twice that in an all-reduce (Patarasuk and Yuan 2009)."""
    if not ALGORITHMS.get(algorithm).runs_on(extent):
        return
    cost = phase_cost(topology, algorithm, collective, extent * stride * groups, extent, stride)
    passes = 2 if collective == "all_reduce" else 1
    assert cost.load >= Fraction(passes * (extent - 1), extent)
    assert cost.hops >= passes


def test_an_algorithm_that_does_not_exist_for_an_extent_is_infeasible() -> None:
    with pytest.raises(InfeasibleError, match="power of two"):
        phase_cost("ring", "double_binary_tree", "all_reduce", 6, 6, 1)


@pytest.mark.parametrize(("npus", "extent", "stride"), [(8, 3, 1), (8, 4, 4), (0, 1, 1), (8, 0, 1), (8, 2, -1)])
def test_groups_that_do_not_tile_the_block_are_refused(npus: int, extent: int, stride: int) -> None:
    with pytest.raises(SpecError, match="tile"):
        phase_cost("ring", "ring", "all_reduce", npus, extent, stride)


@pytest.mark.parametrize("topology", list(TOPOLOGIES))
def test_a_send_costs_what_a_simulation_of_every_link_says(topology: str) -> None:
    for npus in range(2, 13):
        links_per_npu = digraph(topology, npus).out_degree(0)
        for stride in range(1, npus):
            on_link = Counter[tuple[object, object]]()
            for source in range(npus):
                ways = paths(topology, npus, source, (source + stride) % npus)
                for way in ways:
                    for link in way:
                        on_link[link] += Fraction(1, len(ways))
            hops = 1 if topology == "switch" else len(ways[0])
            expected = PhaseCost(hops, max(on_link.values()) * links_per_npu)
            assert send_cost(topology, npus, stride) == expected
            assert send_cost(topology, npus, npus - stride) == expected


@pytest.mark.parametrize(("topology", "load"), [("ring", 2 * 2), ("fully_connected", 7), ("switch", 1)])
def test_a_send_over_two_neighbours(topology: str, load: int) -> None:
    assert send_cost(topology, 8, 2).load == load


def test_a_carry_sends_back_to_the_first_index() -> None:
    assert send_cost("ring", 16, 2, wrap_extent=4) == send_cost("ring", 16, 6)


def test_a_send_over_no_distance_costs_nothing() -> None:
    assert send_cost("ring", 8, 2, wrap_extent=1) == PhaseCost(0, Fraction(0))
    assert send_cost("ring", 8, 8) == PhaseCost(0, Fraction(0))


@pytest.mark.parametrize(("npus", "stride", "wrap"), [(0, 1, None), (8, 0, None), (8, 1, 0)])
def test_a_send_that_means_nothing_is_refused(npus: int, stride: int, wrap: int | None) -> None:
    with pytest.raises(SpecError):
        send_cost("ring", npus, stride, wrap)


@pytest.mark.parametrize("topology", list(TOPOLOGIES))
def test_routes_are_the_shortest_paths_of_the_digraph(topology: str) -> None:
    block = TOPOLOGIES.get(topology)
    for npus, source, target in ((2, 0, 1), (5, 4, 1), (8, 1, 5), (8, 7, 2)):
        expected = {
            tuple(tuple("switch" if end == "hub" else end for end in link) for link in way)
            for way in paths(topology, npus, source, target)
        }
        routes = block.routes(npus, source, target)
        assert {route.links for route in routes} == expected
        assert sum(route.share for route in routes) == 1
        ends = np.array([source]), np.array([target])
        assert block.busiest_link(npus, *ends) == max(route.share for route in routes)
