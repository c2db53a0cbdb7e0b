"""ASTRA-sim's congestion-aware backend: hand-worked waits, its own outputs, and a plain event simulation."""

from __future__ import annotations

import heapq
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cosmic_opt.analysis.astra_sim_rows import astra_case
from cosmic_opt.errors import InfeasibleError, LimitError, SpecError
from cosmic_opt.simulation.collective import AstraSimOptions, simulate_collective
from cosmic_opt.simulation.collective.astra_sim import AstraCase, run_case
from cosmic_opt.simulation.collective.astra_sim.aware import LinkEngine, run_aware_case
from cosmic_opt.simulation.collective.astra_sim.aware import engine as engine_module
from cosmic_opt.system.network import Dimension, Network

GOLDEN = Path(__file__).parents[2] / "golden" / "astrasim_collectives.json"
ROWS: list[dict[str, Any]] = [
    row for row in json.loads(GOLDEN.read_text(encoding="utf-8"))["cases"] if row["backend"] == "aware"
]
BYTE_PER_NS = 10**9 / 2**30
CASE = AstraCase(("ring",), (8,), (BYTE_PER_NS,), (100.0,), ("ring",), "all_reduce", 8000, endpoint_delay_ns=7)


@pytest.mark.parametrize("row", ROWS, ids=[row["id"] for row in ROWS])
def test_astra_sims_own_time_to_the_nanosecond(row: dict[str, Any]) -> None:
    timing = run_aware_case(astra_case(row))
    assert timing.time_ns == row["time_ns"]
    assert timing.first_npu_time_ns == row.get("first_npu_time_ns", row["time_ns"])


@pytest.mark.parametrize("topology", ["ring", "fully_connected"])
@pytest.mark.parametrize("collective", ["all_reduce", "reduce_scatter", "all_gather", "all_to_all"])
def test_a_ring_of_one_chunk_never_waits_for_a_link(topology: str, collective: str) -> None:
    case = replace(CASE, topologies=(topology,), collective=collective, memory_gb_per_s=3.0)
    assert run_aware_case(case).time_ns == run_case(case).time_ns


def test_a_switch_stores_and_forwards() -> None:
    """14 steps of two hops of 1000 + 100, and 15 delays."""
    assert run_aware_case(replace(CASE, topologies=("switch",))).time_ns == 14 * 2200 + 15 * 7


def test_k_chunks_at_one_time_share_the_links() -> None:
    """Two active chunks of half the size keep each link busy without a pause: 7 + 28 * 500 + 7."""
    case = replace(CASE, chunks=2, active_chunks=2, latency_ns=(0.0,))
    assert run_aware_case(case).time_ns == 7 + 28 * 500 + 7


def test_direct_on_a_ring_of_four_by_hand() -> None:
    """Offsets 1, 2, 3 in turn; 2 goes upwards behind 1. Up link: 0-1000 own, 1000-2000 for two ahead.

    The message for two ahead is at the next NPU at 1007 + 1000 + 100 and leaves at once: the link is free by then.
    """
    case = replace(CASE, npus_per_dim=(4,), algorithms=("direct",), collective="all_gather", size_bytes=1000)
    assert run_aware_case(case).time_ns == 7 + 1000 + 2 * 1100 + 7


def test_trees_share_links_too() -> None:
    case = replace(CASE, topologies=("fully_connected",), algorithms=("doubleBinaryTree",))
    assert run_aware_case(case).time_ns == run_case(case).time_ns


def plain(npus: int, topology: str, sends: list[tuple[int, int, int, int]], latency: int) -> list[int]:
    """Return the arrival of each (time, source, target, size): hop by hop at one byte per ns, first come first served.

    Of two messages that ask for a link at one time, the one goes first whose hop before began first.
    """
    free = dict[tuple[int, int], int]()
    arrivals = [0] * len(sends)
    events = [(time, number, number, source) for number, (time, source, _, _) in enumerate(sends)]
    heapq.heapify(events)
    serial = len(sends)
    while events:
        now, _, number, at = heapq.heappop(events)
        _, _, target, size = sends[number]
        if at == target:
            arrivals[number] = now
            continue
        if topology == "ring":
            ahead = (target - at) % npus
            following = (at + (1 if ahead <= npus - ahead else -1)) % npus
        else:
            following = npus if topology == "switch" and at < npus else target
        start = max(now, free.get((at, following), 0))
        free[at, following] = start + size
        heapq.heappush(events, (start + size + latency, serial, number, following))
        serial += 1
    return arrivals


@given(data=st.data(), npus=st.integers(2, 9), topology=st.sampled_from(["ring", "fully_connected", "switch"]))
@settings(derandomize=True, deadline=None)
def test_messages_arrive_as_in_a_plain_simulation(data: st.DataObject, npus: int, topology: str) -> None:
    ends = st.lists(st.integers(0, npus - 1), min_size=2, max_size=2, unique=True)
    drawn = data.draw(st.lists(st.tuples(st.integers(0, 30), ends, st.integers(1, 40)), min_size=1, max_size=30))
    sends = sorted(((time, source, target, size) for time, (source, target), size in drawn), key=lambda send: send[0])
    latency = data.draw(st.integers(0, 20))
    engine = LinkEngine(topology, npus, 1.0, float(latency))
    arrivals = dict[int, int]()
    for token, (time, source, target, size) in enumerate(sends):
        while outputs := engine.advance(time):
            arrivals.update({output.token: output.time_ns for output in outputs})
        engine.send(source, target, size, token, time)
    while outputs := engine.advance(None):
        arrivals.update({output.token: output.time_ns for output in outputs})
    expected = plain(npus, topology, sends, latency)
    assert sorted(arrivals.values()) == sorted(expected)


def test_blocks_of_a_finished_collective_are_used_again() -> None:
    from cosmic_opt.simulation.collective.astra_sim.aware.run import case_program

    engine = LinkEngine("ring", 8, 1.0, 10.0)
    program = case_program(CASE, 8)
    now, numbers, sizes = 0, set[int](), set[int]()
    for _ in range(5):
        number = engine.add(program, range(8), 2, 1)
        for position in range(8):
            engine.start(number, position, now)
        while outputs := engine.advance(None):
            now = outputs[-1].time_ns
        numbers.add(number)
        sizes.add(len(engine.state.streams))
    assert (numbers, len(sizes)) == ({0}, 1)


def test_groups_share_the_links_of_a_ring() -> None:
    """NPUs 0, 2 and 1, 3 of a ring of 4 exchange over the same links, so that both take longer than one alone."""
    case = replace(CASE, npus_per_dim=(4,), collective="all_gather", size_bytes=1000, groups=((0, 2), (1, 3)))
    alone = replace(case, groups=((0, 2),))
    assert run_aware_case(alone).time_ns == 10 + 2 * 1100 + 10
    assert run_aware_case(case).time_ns >= run_aware_case(alone).time_ns
    assert run_case(case).time_ns == run_case(alone).time_ns


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"algorithms": ("halvingDoubling",), "npus_per_dim": (6,)}, "not a power of two"),
        ({"algorithms": ("halvingDoubling",), "npus_per_dim": (6,), "collective": "all_gather"}, "has no pairs"),
        ({"algorithms": ("doubleBinaryTree",), "npus_per_dim": (6,)}, "crashes"),
        ({"algorithms": ("doubleBinaryTree",), "groups": ((0, 1),)}, "communicator group"),
        ({"endpoint_delay_ns": 0}, "endpoint delay"),
        ({"groups": ((0,),)}, "one NPU"),
    ],
)
def test_inputs_on_which_astra_sim_fails_name_the_reason(changes: dict[str, Any], reason: str) -> None:
    with pytest.raises(InfeasibleError, match=reason):
        run_aware_case(replace(CASE, **changes))


def test_several_dimensions_are_refused() -> None:
    grid = replace(
        CASE,
        topologies=("ring",) * 2,
        npus_per_dim=(2, 2),
        bandwidth_gib_per_s=(1.0,) * 2,
        latency_ns=(1.0,) * 2,
        algorithms=("ring",) * 2,
    )
    with pytest.raises(SpecError, match="one dimension"):
        run_aware_case(grid)


@pytest.mark.parametrize(
    "changes",
    [
        {"npus_per_dim": (5000,)},
        {"chunks": 2**20, "size_bytes": 2**30},
        {"npus_per_dim": (4096,), "algorithms": ("direct",), "chunks": 64, "size_bytes": 2**30},
        {"size_bytes": 2**61},
    ],
)
def test_what_is_too_large_to_simulate_is_said_so(changes: dict[str, Any]) -> None:
    with pytest.raises(LimitError) as caught:
        run_aware_case(replace(CASE, **changes))
    assert caught.value.hint


def test_too_many_messages_of_a_workload_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engine_module, "MOST_HOPS", 2)
    engine = LinkEngine("switch", 4, 1.0, 1.0)
    engine.send(0, 1, 5, 0, 0)
    with pytest.raises(LimitError, match="too large"):
        engine.send(0, 1, 5, 1, 0)


def test_the_profile_is_one_of_simulate_collective() -> None:
    network = Network((Dimension("ring", 8, 10**9, 100_000),))
    options = AstraSimOptions(endpoint_delay_ns=7)
    result = simulate_collective(
        network, "all_reduce", ["ring"], 8000, chunks=2, profile="astra_sim_aware", astra_sim=options
    )
    expected = run_aware_case(replace(CASE, chunks=2))
    assert (result.profile, result.time_ticks) == ("astra_sim_aware", expected.time_ns * 1000)
    (phase,) = result.phases
    assert 2 * phase.time_ticks == result.time_ticks
