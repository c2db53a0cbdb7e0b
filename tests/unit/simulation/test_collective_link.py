"""The closed form of a chunked collective: hand-worked numbers, an event-driven scheduler, properties."""

import heapq
from collections import deque
from collections.abc import Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cosmic_opt.errors import InfeasibleError, SpecError
from cosmic_opt.simulation.collective import AstraSimOptions, PhaseTiming, simulate_collective
from cosmic_opt.system.collectives import ALGORITHMS, COLLECTIVES
from cosmic_opt.system.multidim import MULTIDIM
from cosmic_opt.system.network import Dimension, Network
from cosmic_opt.system.topology import TOPOLOGIES
from cosmic_opt.units import TICKS_PER_SECOND

GB = 10**9
NS = 1000
MS = 10**9
SWITCH_OF_8 = Network((Dimension("switch", 8, 50 * GB, 10 * NS),))


def fifo_finish(phases: Sequence[PhaseTiming], chunks: int) -> int:
    """Return when the last chunk ends if every dimension serves chunks in order of arrival, one at a time."""
    events = [(0, chunk, 0) for chunk in range(chunks)]
    free_at = dict.fromkeys({phase.dim for phase in phases}, 0)
    waiting = deque[tuple[int, int, int]]()
    end = 0
    while events or waiting:
        now, chunk, index = heapq.heappop(events)
        if index == len(phases):
            end = max(end, now)
            continue
        phase = phases[index]
        begin = max(now, free_at[phase.dim])
        free_at[phase.dim] = begin + (phase.serialisation_ticks or 0)
        heapq.heappush(events, (free_at[phase.dim] + (phase.latency_ticks or 0), chunk, index + 1))
    return end


@st.composite
def networks(draw: st.DrawFn) -> Network:
    dimensions = st.builds(
        Dimension,
        topology=st.sampled_from(list(TOPOLOGIES)),
        npus=st.sampled_from([1, 2, 4, 8]),
        bandwidth_bytes_per_s=st.sampled_from([25 * GB, 50 * GB, 200 * GB]),
        latency_ticks=st.integers(0, 2000 * NS),
    )
    return Network(tuple(draw(st.lists(dimensions, min_size=1, max_size=3))))


@st.composite
def calls(draw: st.DrawFn) -> tuple[Network, str, list[str], int, str, int]:
    network = draw(networks())
    count = len(network.dimensions)
    return (
        network,
        draw(st.sampled_from(COLLECTIVES)),
        draw(
            st.lists(
                st.sampled_from([name for name in ALGORITHMS if name != "in_network"]), min_size=count, max_size=count
            )
        ),
        draw(st.integers(10**6, 10**9)),
        draw(st.sampled_from(MULTIDIM)),
        draw(st.integers(1, 20)),
    )


def test_a_ring_all_reduce_of_100_mb_on_a_switch_of_eight() -> None:
    """2 · 7/8 · 100 MB at 50 GB/s and 14 steps of 10 ns."""
    result = simulate_collective(SWITCH_OF_8, "all_reduce", ["ring"], 10**8)
    assert result.time_ticks == 3_500_140_000
    assert result.phases == (PhaseTiming(0, "all_reduce", 10**8, 3_500_140_000, 14, 140 * NS, 3_500_000_000),)


def test_a_direct_all_reduce_pays_two_latencies() -> None:
    assert simulate_collective(SWITCH_OF_8, "all_reduce", ["direct"], 10**8).time_ticks == 3_500_020_000


@pytest.mark.parametrize(("shape", "times_size_over_bandwidth"), [((2, 8), 1.0), ((8, 2), 1.75)])
def test_the_first_dimension_limits_many_chunks(shape: tuple[int, int], times_size_over_bandwidth: float) -> None:
    """Dimension 0 moves 2 (n-1)/n of the buffer, dimension 1 an n-th of as much."""
    network = Network(tuple(Dimension("ring", npus, GB, 0) for npus in shape))
    result = simulate_collective(network, "all_reduce", ["ring", "ring"], 10**9, chunks=1000)
    assert result.time_ticks == pytest.approx(times_size_over_bandwidth * TICKS_PER_SECOND, rel=2e-3)


def test_chunks_of_one_dimension_share_its_bandwidth() -> None:
    one = simulate_collective(SWITCH_OF_8, "all_reduce", ["ring"], 10**8)
    assert simulate_collective(SWITCH_OF_8, "all_reduce", ["ring"], 10**8, chunks=4).time_ticks == one.time_ticks


def test_blueconnect_is_faster_than_baseline_over_two_equal_dimensions() -> None:
    network = Network((Dimension("ring", 4, GB, 0), Dimension("ring", 4, GB, 0)))
    blueconnect = simulate_collective(network, "all_reduce", ["ring", "ring"], 10**9)
    baseline = simulate_collective(network, "all_reduce", ["ring", "ring"], 10**9, multidim="baseline")
    assert blueconnect.time_ticks == int(1.875 * TICKS_PER_SECOND)
    assert baseline.time_ticks == 3 * TICKS_PER_SECOND


def test_a_group_of_one_takes_no_time() -> None:
    result = simulate_collective(Network((Dimension("ring", 1, GB, NS),)), "all_reduce", ["ring"], 10**9)
    assert (result.time_ticks, result.phases, result.bus_bandwidth_bytes_per_s) == (0, (), 0.0)


def test_a_group_that_spans_part_of_a_dimension_shares_its_links() -> None:
    """Two interleaved rings of four on a ring of eight: two hops a step, every link carries both groups."""
    network = Network((Dimension("ring", 8, GB, NS),))
    result = simulate_collective(network, "reduce_scatter", ["ring"], 10**9, extents=[4], strides=[2])
    assert result.phases[0].hops == 2 * 3
    assert result.phases[0].serialisation_ticks == 2 * 3 * TICKS_PER_SECOND // 4


@given(call=calls())
@settings(derandomize=True, deadline=None)
def test_no_first_in_first_out_service_is_faster(call: tuple[Network, str, list[str], int, str, int]) -> None:
    network, collective, algorithms, size, multidim, chunks = call
    result = simulate_collective(network, collective, algorithms, size, multidim=multidim, chunks=chunks)
    assert result.time_ticks <= fifo_finish(result.phases, chunks)
    if chunks == 1:
        assert result.time_ticks == fifo_finish(result.phases, 1)


@given(call=calls())
@settings(derandomize=True, deadline=None)
def test_bus_bandwidth_never_exceeds_the_bandwidth_of_an_npu(
    call: tuple[Network, str, list[str], int, str, int],
) -> None:
    network, collective, algorithms, size, multidim, chunks = call
    result = simulate_collective(network, collective, algorithms, size, multidim=multidim, chunks=chunks)
    involved = [network.dimensions[dim].bandwidth_bytes_per_s for dim in {phase.dim for phase in result.phases}]
    assert result.bus_bandwidth_bytes_per_s <= sum(involved) * (1 + 1e-6)


@given(call=calls(), factor=st.integers(2, 5), dim=st.integers(0, 2))
@settings(derandomize=True, deadline=None)
def test_time_never_falls_with_latency_or_size_nor_rises_with_bandwidth(
    call: tuple[Network, str, list[str], int, str, int], factor: int, dim: int
) -> None:
    network, collective, algorithms, size, multidim, chunks = call
    at = dim % len(network.dimensions)

    def time(size_bytes: int, bandwidth: int, latency: int) -> int:
        dimensions = list(network.dimensions)
        old = dimensions[at]
        dimensions[at] = Dimension(
            old.topology, old.npus, old.bandwidth_bytes_per_s * bandwidth, old.latency_ticks * latency
        )
        changed = Network(tuple(dimensions))
        return simulate_collective(
            changed, collective, algorithms, size_bytes, multidim=multidim, chunks=chunks
        ).time_ticks

    now = time(size, 1, 1)
    assert time(size, factor, 1) <= now <= time(size, 1, factor)
    assert now <= time(size * factor, 1, 1)


def test_an_algorithm_that_does_not_exist_for_the_dimension_is_infeasible() -> None:
    network = Network((Dimension("switch", 6, GB, 0),))
    with pytest.raises(InfeasibleError, match="power of two"):
        simulate_collective(network, "all_reduce", ["halving_doubling"], 10**6)


@pytest.mark.parametrize(
    "options",
    [
        {"profile": "aware"},
        {"chunks": 0},
        {"multidim": "themsi"},
        {"policy": "lifo", "profile": "astra_sim"},
        {"extents": [2, 2]},
        {"strides": [1, 1]},
        {"extents": [3]},
        {"astra_sim": AstraSimOptions()},
        {"profile": "astra_sim", "extents": [2]},
    ],
)
def test_an_option_that_means_nothing_is_refused(options: dict[str, object]) -> None:
    with pytest.raises(SpecError) as caught:
        simulate_collective(SWITCH_OF_8, "all_reduce", ["ring"], 10**6, **options)  # type: ignore[arg-type]
    assert caught.value.hint


@pytest.mark.parametrize(
    ("algorithms", "size"), [(["ring", "ring"], 1), (["tree"], 1), (["ring"], -1), (["ring"], 1.5)]
)
def test_input_that_means_nothing_is_refused(algorithms: list[str], size: int) -> None:
    with pytest.raises(SpecError):
        simulate_collective(SWITCH_OF_8, "all_reduce", algorithms, size)
