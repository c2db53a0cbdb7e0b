"""Themis inside a step: each collective as it is alone, folded exactly, and never below the closed forms."""

from __future__ import annotations

from fractions import Fraction
from math import prod

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cosmic_opt.simulation.analytical.traffic import spread_time
from cosmic_opt.simulation.events import Group, run_program, schedule_collective
from cosmic_opt.simulation.events.collective import themis_call
from cosmic_opt.simulation.events.passes import whole_program
from cosmic_opt.system.multidim import PlanPhase
from cosmic_opt.system.network import Dimension, Network
from cosmic_opt.workloads.graph import DATA
from tests.unit.simulation.events.designs import random_steps
from tests.unit.simulation.events.test_collective import groups
from tests.unit.simulation.events.test_step import nodes_of, optimizer_ticks

GB = 10**9
SLOTS = (0, 1, 2, 3)
WAYS = {"reduce_scatter": 1, "all_gather": 2, "all_reduce": 3}


def bound(group: Group, collective: str, size: int, chunks: int) -> int:
    """The closed form, its slots from the whole reducing done by each dimension alone."""
    whole = Fraction(prod(group.extents) - 1, prod(group.extents))
    rows, members = [], 0
    for dim, extent in enumerate(group.extents):
        row = [0, 0, 0, 0]
        if extent > 1:
            members |= 1 << dim
            share = whole / Fraction(extent - 1, extent)
            for place, way in ((0, "reduce_scatter"), (2, "all_gather")):
                visit = group.visit(PlanPhase(dim, way, share), Fraction(size, chunks))
                row[place : place + 2] = visit.ticks, visit.latency_ticks
        rows.append(row)
    return spread_time(np.array(rows), SLOTS, chunks, members, WAYS[collective]) if members else 0


@given(
    groups(4),
    st.sampled_from(sorted(WAYS)),
    st.integers(20, 10**7),
    st.integers(1, 20),
    st.sampled_from(("fifo", "lifo", "smallest_first")),
)
@settings(derandomize=True, deadline=None, max_examples=300)
def test_no_order_of_chunks_is_faster_than_the_bound(
    group: Group, collective: str, size: int, chunks: int, policy: str
) -> None:
    done = schedule_collective(group, collective, size, scheduler="themis", chunks=chunks, policy=policy)
    assert bound(group, collective, size, chunks) <= done.time_ticks


def test_the_fixed_order_may_be_slower_than_the_bound_but_not_faster() -> None:
    """It is one of the orders; here its first dimension does 7/8 of the work of three."""
    group = Group.whole(Network((Dimension("switch", 8, 100 * GB, 0),) * 3), ["halving_doubling"] * 3)
    least = bound(group, "all_reduce", GB, 64)
    fixed = schedule_collective(group, "all_reduce", GB, chunks=64).time_ticks
    assert least < fixed
    assert least >= 2 * Fraction(511, 512) * 10**12 / 100 / 3 - 200


@given(groups(2), st.integers(6, 10**7), st.integers(1, 6))
@settings(derandomize=True, deadline=None, max_examples=60)
def test_one_dimension_leaves_no_order_and_one_way_is_exact(group: Group, size: int, chunks: int) -> None:
    if sum(extent > 1 for extent in group.extents) != 1:
        return
    for collective in ("reduce_scatter", "all_gather"):
        done = schedule_collective(group, collective, size, scheduler="themis", chunks=chunks)
        assert bound(group, collective, size, chunks) == done.time_ticks


@given(st.lists(st.integers(0, 50), min_size=12, max_size=12), st.integers(1, 9), st.integers(1, 3))
@settings(derandomize=True, deadline=None, max_examples=100)
def test_the_bound_is_non_decreasing_in_every_slot(values: list[int], chunks: int, ways: int) -> None:
    vectors = np.array(values).reshape(3, 4)
    before = spread_time(vectors, SLOTS, chunks, 7, ways)
    for place in range(vectors.size):
        longer = vectors.copy()
        longer.flat[place] += 7
        assert spread_time(longer, SLOTS, chunks, 7, ways) >= before


def test_no_step_under_themis_is_faster_than_the_closed_form() -> None:
    for pieces in (1, 2):
        for design, simulation, analytical in random_steps(5, 60, multidim="themis", interleave=pieces):
            assert analytical <= simulation.run().step_ticks, design


@given(st.integers(0, 10**6))
@settings(derandomize=True, deadline=None, max_examples=15)
def test_the_folded_step_equals_the_whole_one_to_the_tick(seed: int) -> None:
    ((design, simulation, _),) = random_steps(seed, 1, multidim="themis")
    whole = run_program(whole_program(simulation.lowered, simulation.graph), policy=simulation.lowered.policy)
    assert simulation.run().step_ticks == whole.ticks + optimizer_ticks(simulation.lowered), design


@pytest.mark.parametrize("order", ["tp_sp_dp_pp", "dp_tp_sp_pp"])
def test_a_gradient_reduction_of_a_step_takes_as_long_as_the_collective_alone(order: str) -> None:
    fixed = {"dp": 128, "tp": 1, "sp": 1, "pp": 1, "npus_per_dim": (4, 8, 4), "chunks": 16, "zero_stage": 0}
    fixed |= {"algorithm": ("ring",) * 3, "multidim": "themis", "order": order, "micro_batch": 1}
    for design, simulation, _ in random_steps(2, 5, **fixed):
        rows = zip(design.topology, design.npus_per_dim, design.bandwidth, design.latency, strict=True)
        group = Group.whole(Network(tuple(Dimension(*row) for row in rows)), design.algorithm)
        for node in nodes_of(simulation):
            if node.group == DATA:
                done = run_program_of(group, node.size_bytes)
                assert simulation.lowered.ticks(node) in done


def run_program_of(group: Group, size: Fraction) -> set[int]:
    """The time of an all-reduce alone, planned for either order of service."""
    assert size.denominator == 1
    times = set()
    for policy in ("fifo", "lifo"):
        done = schedule_collective(group, "all_reduce", int(size), scheduler="themis", chunks=16, policy=policy)
        assert themis_call(group, "all_reduce", size, 16, policy).chunks == 16
        times.add(done.time_ticks)
    return times


def test_themis_shortens_a_step_whose_gradients_cross_equal_dimensions() -> None:
    fixed = {"dp": 128, "tp": 1, "sp": 1, "pp": 1, "npus_per_dim": (4, 8, 4), "zero_stage": 0, "micro_batch": 1}
    fixed |= {"algorithm": ("direct",) * 3, "topology": ("switch",) * 3, "bandwidth": (50 * GB,) * 3}
    fixed |= {"latency": (1000,) * 3, "overlap_gradients": 0, "chunks": 16, "recompute": "none", "order": "tp_sp_dp_pp"}
    times = []
    for name in ("blueconnect", "themis"):
        ((_, simulation, _),) = random_steps(1, 1, multidim=name, **fixed)
        times.append(simulation.run().terms["gradient synchronisation (exposed)"])
    assert times[1] < 0.6 * times[0]
