"""Small workloads and machines that tests of the replay share."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import strategies as st

from cosmic_opt.simulation.replay import Kind, Operation, ReplayMachine, TraceWorkload, replay

GIB_PER_BYTE_NS = 10**9 / 2**30
"""A bandwidth of one byte per nanosecond, in 2^30 B/s."""
ALGORITHMS = dict.fromkeys(("all_reduce", "all_gather", "reduce_scatter", "all_to_all"), ("ring",))
PAIR = ReplayMachine(("ring",), (2,), (GIB_PER_BYTE_NS,), (100.0,), ALGORITHMS, endpoint_delay_ns=5)


def compute(number: int, us: int, *needs: int, cpu: bool = False) -> Operation:
    return Operation(id=number, kind=Kind.COMPUTE, dependencies=needs, duration_us=us, on_cpu=cpu)


def gather(number: int, size: int, *needs: int, group: str = "") -> Operation:
    return Operation(
        id=number, kind=Kind.COLLECTIVE, dependencies=needs, collective="all_gather", size_bytes=size, group=group
    )


def send(number: int, peer: int, size: int, *needs: int) -> Operation:
    return Operation(id=number, kind=Kind.SEND, dependencies=needs, peer=peer, size_bytes=size)


def receive(number: int, peer: int, size: int, *needs: int) -> Operation:
    return Operation(id=number, kind=Kind.RECEIVE, dependencies=needs, peer=peer, size_bytes=size)


def finishes(
    *ranks: list[Operation], machine: ReplayMachine = PAIR, groups: dict[str, tuple[int, ...]] | None = None
) -> list[int]:
    result = replay(TraceWorkload(tuple(tuple(rank) for rank in ranks), groups or {}), machine)
    return [npu.finish_ns for npu in result.npus]


@st.composite
def workloads(draw: st.DrawFn, npus: int) -> TraceWorkload:
    """Draw communication in one order for all; each NPU's follows its last, with computation before some of it."""
    ranks: list[list[Operation]] = [[] for _ in range(npus)]
    last: list[tuple[int, ...]] = [()] * npus
    groups = {"1": tuple(draw(st.permutations(range(npus)))[: draw(st.integers(2, npus))])}

    def add(npu: int, operation: Operation) -> None:
        number = 2 * len(ranks[npu]) + 2
        us = draw(st.sampled_from([0, 0, 1, 2]))
        needs = last[npu]
        if us:
            ranks[npu].append(compute(number - 1, us, *needs))
            needs = (number - 1,)
        ranks[npu].append(replace(operation, id=number, dependencies=needs))
        last[npu] = (number,)

    for _ in range(draw(st.integers(1, 5))):
        size = draw(st.integers(8, 5000))
        if draw(st.booleans()):
            source, target = draw(st.permutations(range(npus)))[:2]
            tag = draw(st.sampled_from([0, len(ranks[source])]))
            add(source, replace(send(0, target, size), tag=tag))
            add(target, replace(receive(0, source, size), tag=tag))
            continue
        collective = draw(st.sampled_from(["all_reduce", "all_gather", "reduce_scatter"]))
        group = draw(st.sampled_from(["", "1"]))
        for npu in groups[group] if group else range(npus):
            add(npu, replace(gather(0, size, group=group), collective=collective))
    return TraceWorkload(tuple(tuple(rank) for rank in ranks), groups)
