"""Replay of traced workloads: ASTRA-sim's issue rule by hand, its own outputs, and two engines that agree."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cosmic_opt.analysis.astra_sim_rows import replay_machine
from cosmic_opt.errors import InfeasibleError
from cosmic_opt.interop import read_workload
from cosmic_opt.simulation.collective.astra_sim import run_case
from cosmic_opt.simulation.replay import Kind, Operation, RemoteMemory, ReplayMachine, TraceWorkload, replay
from tests.unit.simulation.replaying import (
    ALGORITHMS,
    GIB_PER_BYTE_NS,
    PAIR,
    compute,
    finishes,
    gather,
    receive,
    send,
    workloads,
)

GOLDEN = Path(__file__).parents[2] / "golden"
ROWS: list[dict[str, Any]] = json.loads((GOLDEN / "astrasim_workloads.json").read_text(encoding="utf-8"))["cases"]
WORKLOADS: dict[str, TraceWorkload] = {}


@pytest.mark.parametrize("row", ROWS, ids=[row["id"] for row in ROWS])
def test_astra_sims_own_times_to_the_nanosecond(row: dict[str, Any]) -> None:
    name = row["workload"]
    if name not in WORKLOADS:
        WORKLOADS[name] = read_workload(GOLDEN / "traces" / f"{name}.tar.xz")
    result = replay(WORKLOADS[name], replay_machine(row))
    exposed = [npu.exposed_communication_ns for npu in result.npus]
    assert result.time_ns == row["time_ns"]
    assert result.first_npu_time_ns == row["first_npu_time_ns"]
    assert (max(exposed), min(exposed)) == (row["exposed_comm_ns_max"], row["exposed_comm_ns_min"])
    assert max(npu.compute_ns for npu in result.npus) == row["compute_busy_ns_max"]
    busy = [npu.communication_ns for npu in result.npus]
    assert (max(busy), min(busy)) == (row["comm_busy_ns_max"], row["comm_busy_ns_min"])


def test_an_all_gather_follows_the_computation_it_needs() -> None:
    """(n - 1) T + n d with T = 100 + 50 and d = 5, after 2 us."""
    rank = [compute(1, 2), gather(2, 50, 1)]
    assert finishes(rank, rank) == [2000 + 160] * 2


def test_computation_hides_communication_but_two_collectives_do_not_overlap() -> None:
    rank = [compute(1, 2), gather(2, 50), gather(3, 50)]
    result = replay(TraceWorkload((tuple(rank),) * 2, {}), PAIR)
    assert result.time_ns == 2000
    assert result.npus[0].exposed_communication_ns == 0
    assert finishes(rank[1:], rank[1:]) == [320, 320]


def test_two_computations_do_not_overlap_but_the_cpu_runs_beside_them() -> None:
    assert finishes([compute(1, 2), compute(2, 3), compute(3, 4, cpu=True)], []) == [5000, 0]


def test_cpu_time_is_not_gpu_computation() -> None:
    result = replay(TraceWorkload(((compute(1, 3, cpu=True),), ()), {}), PAIR)
    assert result.npus[0].exposed_communication_ns == 3000


def test_an_operation_without_a_recorded_time_takes_one_nanosecond() -> None:
    assert finishes([compute(1, 0)], []) == [1, 0]


def test_ready_operations_are_issued_by_number_not_by_order_in_the_file() -> None:
    """Operation 9 stands first, but 4 is issued first; 5 then waits for it."""
    machine = replace(PAIR, remote_memory=RemoteMemory("PER_NPU_MEMORY_EXPANSION", 10, 1.0))
    rank = [
        Operation(id=9, kind=Kind.MEMORY, size_bytes=1000),
        Operation(id=4, kind=Kind.MEMORY, size_bytes=1),
        compute(5, 1, 4),
    ]
    assert finishes(rank, [], machine=machine) == [1021, 0]


def test_a_collective_starts_when_its_last_member_issues_it() -> None:
    """A ring of two: the early member has sent; the late one receives at once and both wait for its message."""
    assert finishes([gather(1, 50)], [compute(1, 2), gather(2, 50, 1)]) == [2000 + 5 + 150 + 5, 2000 + 5 + 5]


def test_a_send_holds_the_slot_until_arrival_and_a_receive_holds_none() -> None:
    """NPU 0 sends 50 B and 20 B in turn, 150 and 120 ns; NPU 1 has both receives open and sends meanwhile."""
    first = [send(1, 1, 50), send(2, 1, 20), receive(3, 1, 10)]
    second = [receive(1, 0, 50), receive(2, 0, 20), send(3, 0, 10)]
    assert finishes(first, second) == [270, 270]


@pytest.mark.parametrize("profile", ["astra_sim", "astra_sim_aware"])
def test_of_two_completions_at_one_time_the_one_scheduled_first_counts_first(profile: str) -> None:
    """At 1000 ns a computation frees operation 3 before the all-gather, scheduled 5 ns ago, frees 9 and the slot."""
    machine = replace(PAIR, latency_ns=(940.0,), profile=profile)
    rank = [compute(1, 1), gather(2, 50), gather(3, 50, 1), gather(9, 990, 2)]
    last = [gather(2, 50), gather(3, 50), gather(9, 990)]
    assert finishes(rank, last, machine=machine) == [1000 + 1000 + 1940] * 2


def test_communication_is_under_way_while_a_receive_is_open() -> None:
    ranks = ((compute(1, 2), send(2, 1, 50, 1)), (receive(1, 0, 50),))
    times = replay(TraceWorkload(ranks, {}), PAIR).npus
    assert [npu.communication_ns for npu in times] == [150, 2150]


def test_a_message_waits_for_its_receive() -> None:
    assert finishes([send(1, 1, 50)], [compute(1, 2), receive(2, 0, 50, 1)]) == [150, 2000]


def test_messages_with_one_tag_and_size_match_in_order() -> None:
    first = [send(1, 1, 50), compute(2, 1, 1), send(3, 1, 50, 2)]
    second = [receive(1, 0, 50), compute(2, 3, 1), receive(3, 0, 50)]
    assert finishes(first, second) == [150 + 1000 + 150, 150 + 3000]


def test_the_roofline_takes_the_slower_of_peak_and_memory() -> None:
    """10^6 FLOP at 1 TFLOP/s take 1000 ns; at 1 B/ns 4000 B take 4000 ns."""
    machine = replace(PAIR, peak_tflops=1.0, memory_gb_per_s=1.0)
    small, large = (Operation(id=1, kind=Kind.COMPUTE, flops=10**6, size_bytes=size) for size in (10, 4000))
    assert finishes([small], [large], machine=machine) == [1000, 4000]


def test_operations_without_type_pass_their_dependencies_on_at_the_next_completion() -> None:
    """Operation 2 is free at 0 by 1, but nothing looks before 3 ends."""
    skipped = Operation(id=1, kind=Kind.SKIPPED)
    assert finishes([skipped, compute(2, 1, 1, cpu=True), compute(3, 5)], []) == [6000, 0]


def test_nothing_wakes_an_npu_after_a_skipped_operation_alone() -> None:
    machine = replace(PAIR, peak_tflops=1.0, memory_gb_per_s=1.0)
    empty = Operation(id=1, kind=Kind.COMPUTE, flops=10)
    with pytest.raises(InfeasibleError, match="nothing wakes NPU 0 for operation 2"):
        finishes([empty, gather(2, 8, 1)], [gather(1, 8)], machine=machine)
    assert finishes([empty], [], machine=machine) == [0, 0]


def test_remote_memory_is_per_npu_or_one_queue_and_takes_the_communication_slot() -> None:
    """10 + floor(25 / 2) ns each."""
    load = Operation(id=1, kind=Kind.MEMORY, size_bytes=25)
    pair = replace(PAIR, remote_memory=RemoteMemory("PER_NPU_MEMORY_EXPANSION", 10, 2.0))
    assert finishes([load, gather(2, 50)], [load, gather(2, 50)], machine=pair) == [22 + 160] * 2
    pool = replace(PAIR, remote_memory=RemoteMemory("MEMORY_POOL", 10, 2.0))
    assert finishes([load], [load], machine=pool) == [22, 44]


def test_a_broadcast_is_replayed_and_takes_the_communication_slot() -> None:
    broadcast = Operation(id=1, kind=Kind.COLLECTIVE, collective="broadcast", duration_us=3)
    assert finishes([broadcast, gather(2, 50)], [gather(2, 50)]) == [3000 + 5 + 5, 3000 + 160]


def test_a_group_smaller_than_the_machine_is_a_flat_ring_with_a_delay_of_ten() -> None:
    """NPUs 0 and 3 of 2 x 2 differ first in dimension 0: T = floor(1 * 20 + 60), and 2 d = 20."""
    machine = replace(
        PAIR,
        topologies=("ring", "switch"),
        npus_per_dim=(2, 2),
        bandwidth_gib_per_s=(GIB_PER_BYTE_NS, GIB_PER_BYTE_NS),
        latency_ns=(20.0, 500.0),
        algorithms=dict.fromkeys(ALGORITHMS, ("direct", "direct")),
    )
    rank = [gather(1, 60, group="7")]
    assert finishes(rank, [], [], rank, machine=machine, groups={"7": (3, 0)}) == [100, 0, 0, 100]


def test_sets_of_involved_dimensions_run_on_their_own() -> None:
    """Only dimension 1 of 2 x 2 is involved: NPUs 0 and 2 finish long before 1 and 3 start."""
    machine = replace(
        PAIR,
        topologies=("ring", "ring"),
        npus_per_dim=(2, 2),
        bandwidth_gib_per_s=(1.0, GIB_PER_BYTE_NS),
        latency_ns=(900.0, 100.0),
        algorithms=dict.fromkeys(ALGORITHMS, ("ring", "ring")),
    )
    early = replace(gather(2, 50), involved_dims=(False, True))
    late = [compute(1, 2), replace(early, dependencies=(1,))]
    assert finishes([early], late, [early], late, machine=machine) == [160, 2160, 160, 2160]
    with pytest.raises(InfeasibleError, match="no dimension is involved"):
        finishes(*[[replace(early, involved_dims=(False, False))]] * 4, machine=machine)


def test_a_late_npu_delays_both_dimensions_of_a_collective() -> None:
    """2 x 2, all-gather in dimension 1, then 0. NPU 3 is 1000 late; 2 d = 10, T = 100 + 50, then 20 + 100."""
    machine = replace(
        PAIR,
        topologies=("ring", "ring"),
        npus_per_dim=(2, 2),
        bandwidth_gib_per_s=(GIB_PER_BYTE_NS, GIB_PER_BYTE_NS),
        latency_ns=(20.0, 100.0),
        algorithms=dict.fromkeys(ALGORITHMS, ("ring", "ring")),
    )
    early, late = [gather(2, 50)], [compute(1, 1), gather(2, 50, 1)]
    first = {0: 160, 2: 160, 1: 1000 + 160, 3: 1000 + 10}
    pairs = {0: 1, 1: 0, 2: 3, 3: 2}
    expected = [max(first[pairs[npu]] + 5 + 120, first[npu] + 5) + 5 for npu in range(4)]
    assert finishes(early, early, early, late, machine=machine) == expected


def test_a_group_of_all_npus_keeps_the_hierarchy_in_whatever_order() -> None:
    machine = replace(
        PAIR,
        topologies=("ring", "switch"),
        npus_per_dim=(2, 2),
        bandwidth_gib_per_s=(50.0, 20.0),
        latency_ns=(20.0, 500.0),
        algorithms=dict.fromkeys(ALGORITHMS, ("ring", "direct")),
    )
    whole = finishes(*[[gather(1, 6000)]] * 4, machine=machine)
    assert finishes(*[[gather(1, 6000, group="5")]] * 4, machine=machine, groups={"5": (2, 0, 3, 1)}) == whole


@pytest.mark.parametrize("algorithm", ["ring", "direct", "direct2", "halvingDoubling", "doubleBinaryTree"])
@pytest.mark.parametrize("profile", ["astra_sim", "astra_sim_aware"])
@pytest.mark.parametrize("count", [2, 3])
def test_collectives_in_turn_are_the_chunks_of_one(algorithm: str, profile: str, count: int) -> None:
    """An NPU starts its next collective when it has finished one, as it does with chunks: trees take turns in both."""
    machine = ReplayMachine(
        ("ring",), (4,), (0.5,), (70.0,), dict.fromkeys(ALGORITHMS, (algorithm,)), memory_gb_per_s=3.0, profile=profile
    )
    reduce = [
        Operation(id=number, kind=Kind.COLLECTIVE, collective="all_reduce", size_bytes=4096) for number in range(count)
    ]
    result = replay(TraceWorkload((tuple(reduce),) * 4, {}), machine)
    case = replace(machine.case("all_reduce", count * 4096), chunks=count)
    if profile == "astra_sim":
        timing = run_case(case)
    else:
        from cosmic_opt.simulation.collective.astra_sim.aware import run_aware_case

        timing = run_aware_case(case)
    assert (result.time_ns, result.first_npu_time_ns) == (timing.time_ns, timing.first_npu_time_ns)


@given(data=st.data(), npus=st.sampled_from([2, 4, 5, 8]))
@settings(derandomize=True, deadline=None, max_examples=150)
def test_without_serialisation_links_do_not_matter(data: st.DataObject, npus: int) -> None:
    """Two engines: closed forms with start times, and single messages over links of hardly any occupation."""
    workload = data.draw(workloads(npus))
    names = ["ring", "direct", "direct2", "direct1"]
    pairs = npus & (npus - 1) == 0 and len(workload.groups["1"]) in (2, 4, 8)
    algorithm = data.draw(st.sampled_from([*names, "halvingDoubling"] if pairs else names))
    machine = ReplayMachine(
        (data.draw(st.sampled_from(["ring", "fully_connected", "switch"])),),
        (npus,),
        (10**6,),
        (float(data.draw(st.integers(1, 500))),),
        dict.fromkeys(ALGORITHMS, (algorithm,)),
        chunks=data.draw(st.integers(1, 4)),
        active_chunks=data.draw(st.integers(1, 3)),
        endpoint_delay_ns=data.draw(st.integers(1, 30)),
        memory_gb_per_s=data.draw(st.sampled_from([math.inf, 50.0])),
    )
    aware = replace(machine, profile="astra_sim_aware")
    assert replay(workload, machine) == replay(workload, aware)


def test_links_make_messages_wait() -> None:
    """NPUs 0 and 1 send 1000 B to 2 over a switch: up 1000 + 50, and the second one's way down waits for the first."""
    machine = ReplayMachine(
        ("switch",), (3,), (GIB_PER_BYTE_NS,), (50.0,), ALGORITHMS, endpoint_delay_ns=5, profile="astra_sim_aware"
    )
    ranks = ([send(1, 2, 1000)], [send(1, 2, 1000)], [receive(1, 0, 1000), receive(2, 1, 1000)])
    assert finishes(*ranks, machine=machine) == [2100, 3100, 3100]
    assert finishes(*ranks, machine=replace(machine, profile="astra_sim")) == [1100, 1100, 1100]
