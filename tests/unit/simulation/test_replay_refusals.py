"""Workloads that cannot be replayed, and machines that mean nothing: refused in words."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cosmic_opt.errors import CosmicError, InfeasibleError, LimitError, SpecError
from cosmic_opt.simulation.replay import Kind, Operation, RemoteMemory, TraceWorkload, replay, run
from tests.unit.simulation.replaying import (
    ALGORITHMS,
    PAIR,
    compute,
    finishes,
    gather,
    receive,
    send,
)


@st.composite
def any_operations(draw: st.DrawFn) -> tuple[Operation, ...]:
    """Draw operations without any care for whether they make sense."""
    numbers = draw(st.lists(st.integers(0, 9), max_size=5, unique=True))
    needs = st.lists(st.sampled_from(numbers), max_size=2, unique=True).map(tuple) if numbers else st.just(())
    sizes = st.sampled_from([0, 1, 3, 64, 5000, 2**40, 2**62])
    return tuple(
        Operation(
            id=number,
            kind=draw(st.sampled_from(list(Kind))),
            dependencies=draw(needs),
            duration_us=draw(st.sampled_from([0, 1, 2**50])),
            on_cpu=draw(st.booleans()),
            flops=draw(sizes),
            size_bytes=draw(sizes),
            collective=draw(st.sampled_from([*ALGORITHMS, "broadcast"])),
            group=draw(st.sampled_from(["", "1", "2", "x"])),
            involved_dims=draw(st.sampled_from([None, (True,), (False,), ()])),
            peer=draw(st.integers(0, 3)),
            tag=draw(st.integers(0, 1)),
        )
        for number in numbers
    )


@given(data=st.data(), profile=st.sampled_from(["astra_sim", "astra_sim_aware"]))
@settings(derandomize=True, deadline=None, max_examples=250)
def test_any_workload_is_replayed_or_refused_in_words(data: st.DataObject, profile: str) -> None:
    ranks = tuple(data.draw(any_operations()) for _ in range(3))
    if data.draw(st.booleans()):
        ranks = ranks[:1] * 3
    machine = replace(
        PAIR,
        npus_per_dim=(3,),
        profile=profile,
        algorithms={"all_reduce": ("ring",), "all_gather": ("direct2",), "all_to_all": ("halvingDoubling",)},
        peak_tflops=data.draw(st.sampled_from([None, 1.0])),
        memory_gb_per_s=data.draw(st.sampled_from([1.0, 0.0])),
        remote_memory=data.draw(st.sampled_from([RemoteMemory(), RemoteMemory("MEMORY_POOL", 1, 0.5)])),
    )
    workload = TraceWorkload(ranks, {"1": (2, 0), "2": (1,)})
    results = list[object]()
    for folded in (True, False):
        try:
            results.append(replay(workload, machine, folded=folded))
        except CosmicError as error:
            results.append(error.message)
    assert results[0] == results[1]


BAD: list[tuple[list[list[Operation]], dict[str, Any], type[CosmicError], str]] = [
    ([[]], {}, SpecError, "has 1 traces, the network 2 NPUs"),
    ([[compute(1, 1, 2), compute(2, 1, 1)], []], {}, SpecError, "form a circle"),
    ([[send(1, 1, 8)], []], {}, InfeasibleError, ""),
    ([[receive(1, 1, 8)], []], {}, InfeasibleError, "NPU 0 waits for ever"),
    ([[gather(1, 8)], []], {}, InfeasibleError, "NPU 0 waits for ever"),
    ([[gather(1, 8)], [gather(1, 9)]], {}, InfeasibleError, "NPU 1 issues all_gather of 9 B"),
    ([[send(1, 0, 8)], []], {}, SpecError, "has the peer 0"),
    ([[send(1, 7, 8)], []], {}, SpecError, "has the peer 7"),
    ([[gather(1, 8, group="3")], []], {}, SpecError, "unknown communicator group '3'"),
    ([[gather(1, 8, group="1")], []], {}, SpecError, "without being in it"),
    ([[], [gather(1, 8, group="1")]], {}, InfeasibleError, "group of one NPU"),
    ([[Operation(id=1, kind=Kind.MEMORY, size_bytes=8)], []], {}, InfeasibleError, "there is none"),
    (
        [[Operation(id=1, kind=Kind.MEMORY, size_bytes=8)], []],
        {"remote_memory": RemoteMemory("PER_NODE_MEMORY_EXPANSION")},
        InfeasibleError,
        "crashes",
    ),
    (
        [[Operation(id=1, kind=Kind.COMPUTE, size_bytes=8)], []],
        {"peak_tflops": 1.0},
        InfeasibleError,
        "0 FLOP",
    ),
    (
        [[Operation(id=1, kind=Kind.COMPUTE, flops=8, size_bytes=8)], []],
        {"peak_tflops": 900.0},
        InfeasibleError,
        "takes 0 ns at time 0",
    ),
    ([[gather(1, 8)], [gather(1, 8)]], {"algorithms": {"all_reduce": ("ring",)}}, SpecError, "no implementation of"),
    ([[gather(1, 8)], [gather(1, 8)]], {"endpoint_delay_ns": 0}, InfeasibleError, "endpoint delay of 0"),
    ([[gather(1, 2**62 - 1)]] * 2, {}, LimitError, "more than"),
    ([[compute(1, 2**60)], []], {}, LimitError, "more than"),
    ([[gather(1, 2**20)]] * 2, {"chunks": 2**20}, LimitError, "too many events"),
]


@pytest.mark.parametrize(("ranks", "changes", "error", "reason"), BAD)
def test_what_cannot_be_replayed_says_why(
    ranks: list[list[Operation]], changes: dict[str, Any], error: type[CosmicError], reason: str
) -> None:
    if not reason:
        assert finishes(*ranks) == [108, 0]
        return
    with pytest.raises(error, match=reason) as caught:
        finishes(*ranks, machine=replace(PAIR, **changes), groups={"1": (1,)})
    assert caught.value.hint


@pytest.mark.parametrize(
    "changes",
    [
        {"profile": "link"},
        {"algorithms": {}},
        {"algorithms": {"all_reduce": ("magic",)}},
        {"peak_tflops": 0},
        {"peak_tflops": math.nan},
        {"chunks": -1},
        {
            "profile": "astra_sim_aware",
            "topologies": ("ring",) * 2,
            "npus_per_dim": (2, 2),
            "bandwidth_gib_per_s": (1.0, 1.0),
            "latency_ns": (1.0, 1.0),
        },
    ],
)
def test_a_machine_that_means_nothing_is_refused(changes: dict[str, Any]) -> None:
    with pytest.raises(SpecError) as caught:
        replace(PAIR, **changes)
    assert caught.value.hint


@pytest.mark.parametrize("arguments", [("DISK",), ("MEMORY_POOL", -1), ("MEMORY_POOL", 1, 0.0)])
def test_a_memory_that_means_nothing_is_refused(arguments: tuple[Any, ...]) -> None:
    with pytest.raises(SpecError):
        RemoteMemory(*arguments)


def test_too_many_operations_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run, "MOST_OPERATIONS", 1)
    with pytest.raises(LimitError, match="2 operations"):
        finishes([compute(1, 1)], [compute(1, 1)])
