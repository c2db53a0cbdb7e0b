"""One collective by events: the analytical closed form without contention, never below it with."""

from __future__ import annotations

from fractions import Fraction

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cosmic_opt.errors import SpecError
from cosmic_opt.simulation.collective import simulate_collective
from cosmic_opt.simulation.events import POLICIES, SCHEDULERS, Group, schedule_collective
from cosmic_opt.system.network import Dimension, Network

GB = 10**9
SUITS = {"ring": "ring", "fully_connected": "direct", "switch": "halving_doubling"}
COLLECTIVES = ("all_reduce", "reduce_scatter", "all_gather", "all_to_all")


@st.composite
def groups(draw: st.DrawFn, most: int = 3) -> Group:
    dimensions = []
    for _ in range(draw(st.integers(1, most))):
        topology = draw(st.sampled_from(sorted(SUITS)))
        npus = draw(st.sampled_from((1, 2, 4, 8)))
        dimensions.append(Dimension(topology, npus, draw(st.integers(1, 9)) * GB, draw(st.integers(0, 9)) * 1000))
    return Group.whole(Network(tuple(dimensions)), [SUITS[dimension.topology] for dimension in dimensions])


def closed_form(group: Group, collective: str, size: int, multidim: str, chunks: int) -> int:
    done = simulate_collective(group.network, collective, group.algorithms, size, multidim=multidim, chunks=chunks)
    return done.time_ticks


@given(groups(), st.sampled_from(COLLECTIVES), st.sampled_from(("baseline", "blueconnect")), st.integers(0, 10**7))
@settings(derandomize=True, deadline=None, max_examples=150)
def test_one_chunk_takes_exactly_the_closed_form(group: Group, collective: str, multidim: str, size: int) -> None:
    done = schedule_collective(group, collective, size, scheduler=multidim)
    assert done.time_ticks == closed_form(group, collective, size, multidim, 1)


@given(groups(1), st.sampled_from(COLLECTIVES), st.integers(9, 10**7), st.integers(1, 9), st.sampled_from(POLICIES))
@settings(derandomize=True, deadline=None, max_examples=100)
def test_chunks_on_one_dimension_take_exactly_the_closed_form(
    group: Group, collective: str, size: int, chunks: int, policy: str
) -> None:
    done = schedule_collective(group, collective, size, chunks=chunks, policy=policy)
    assert done.time_ticks == closed_form(group, collective, size, "blueconnect", chunks)


@given(
    groups(),
    st.sampled_from(COLLECTIVES),
    st.sampled_from(("baseline", "blueconnect")),
    st.integers(9, 10**7),
    st.integers(1, 9),
    st.sampled_from(POLICIES),
)
@settings(derandomize=True, deadline=None, max_examples=200)
def test_no_service_order_is_faster_than_the_closed_form(
    group: Group, collective: str, multidim: str, size: int, chunks: int, policy: str
) -> None:
    done = schedule_collective(group, collective, size, scheduler=multidim, chunks=chunks, policy=policy)
    assert done.time_ticks >= closed_form(group, collective, size, multidim, chunks)


@given(groups(), st.sampled_from(SCHEDULERS), st.integers(1, 9), st.sampled_from(POLICIES))
@settings(derandomize=True, deadline=None, max_examples=150)
def test_every_dimension_carries_the_volume_of_its_phases(
    group: Group, scheduler: str, chunks: int, policy: str
) -> None:
    """Whole-chunk phases of 2 (n - 1) / n of what reaches the dimension; the busy time is that over bandwidth."""
    size = 10**6
    done = schedule_collective(group, "all_reduce", size, scheduler=scheduler, chunks=chunks, policy=policy)
    for dim, dimension in enumerate(group.network.dimensions):
        phases = [phase for route in done.routes for phase in route if phase.dim == dim]
        times = chunks if len(done.routes) == 1 else 1
        load = times * sum((group.load_bytes(phase, Fraction(size, chunks)) for phase in phases), Fraction(0))
        rounding = times * len(phases)
        assert abs(done.busy_ticks[dim] - load * 10**12 / dimension.bandwidth_bytes_per_s) <= rounding


@given(groups(), st.integers(1, 6))
@settings(derandomize=True, deadline=None, max_examples=60)
def test_themis_moves_no_more_than_all_orders_need_and_ends_after_the_busiest_dimension(
    group: Group, chunks: int
) -> None:
    done = schedule_collective(group, "all_reduce", 10**6, scheduler="themis", chunks=chunks, policy="smallest_first")
    assert done.time_ticks >= max(done.busy_ticks)
    for route in done.routes:
        order = [phase.dim for phase in route]
        assert order == order[::-1]


def test_themis_beats_the_fixed_order_where_dimensions_are_equally_fast() -> None:
    dims = tuple(Dimension("switch", 8, 100 * GB, 700_000) for _ in range(3))
    group = Group.whole(Network(dims), ["halving_doubling"] * 3)
    times = [
        schedule_collective(group, "all_reduce", GB, scheduler=name, chunks=64, policy="smallest_first").time_ticks
        for name in ("blueconnect", "themis")
    ]
    assert times[1] * 2 < times[0]


def test_a_size_or_name_that_means_nothing_is_refused() -> None:
    group = Group.whole(Network((Dimension("ring", 4, GB, 0),)), ["ring"])
    with pytest.raises(SpecError, match="unknown scheduler"):
        schedule_collective(group, "all_reduce", 1, scheduler="thmis")
    with pytest.raises(SpecError, match="size_bytes"):
        schedule_collective(group, "all_reduce", -1)
    with pytest.raises(SpecError, match="all_to_all"):
        schedule_collective(group, "all_to_all", 1, scheduler="themis")
