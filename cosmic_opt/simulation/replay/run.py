"""Replays a traced workload: ASTRA-sim's issue rule, event by event, in whole nanoseconds.

At each completion on an NPU its ready operations are issued by ascending identifier, each if its slot is free. A
send holds the communication slot until its message has arrived; a receive holds none.
"""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from cosmic_opt.errors import InfeasibleError, LimitError, SpecError
from cosmic_opt.simulation.replay.collectives import UnawareCollectives
from cosmic_opt.simulation.replay.fold import fold
from cosmic_opt.simulation.replay.groups import Groups
from cosmic_opt.simulation.replay.machine import MOST_NS, ReplayMachine
from cosmic_opt.simulation.replay.network import Completion, FoldedNetwork, MessageKey, Network, UnawareNetwork
from cosmic_opt.simulation.replay.npu import Npu
from cosmic_opt.simulation.replay.trace import Kind, Operation, TraceWorkload

NS_PER_US = 1000
SHORTEST_NS = 1
"""What an operation without a recorded duration takes when durations are replayed."""
MOST_OPERATIONS = 2**21


@dataclass(frozen=True, slots=True)
class NpuTimes:
    """When one NPU finishes, how long its GPU computes, and how long any communication of it is under way.

    A receive is under way from when it is posted. Exposed communication is all time without computation, idle
    time included.
    """

    finish_ns: int
    compute_ns: int
    communication_ns: int

    @property
    def exposed_communication_ns(self) -> int:
        """Return the finish time minus the time of computation."""
        return self.finish_ns - self.compute_ns


@dataclass(frozen=True, slots=True)
class ReplayResult:
    """Times per NPU, and the number of operations replayed."""

    npus: tuple[NpuTimes, ...]
    operations: int

    @property
    def time_ns(self) -> int:
        """Return when the last NPU finishes."""
        return max(npu.finish_ns for npu in self.npus)

    @property
    def first_npu_time_ns(self) -> int:
        """Return when the first NPU finishes."""
        return min(npu.finish_ns for npu in self.npus)


def replay(workload: TraceWorkload, machine: ReplayMachine, *, folded: bool = True) -> ReplayResult:
    """Return what ASTRA-sim reports for `workload` on `machine`.

    Where NPUs provably do the same at the same times, one of each kind is replayed for all; not `folded`, every NPU
    is, with the same result.

    Raises:
        SpecError: trace and machine do not fit together, or operations wait for each other in a circle.
        InfeasibleError: ASTRA-sim does not bring this input to an end; the message says why.
        LimitError: the workload or its time is too large.
    """
    if len(workload.ranks) != machine.npus:
        raise SpecError(
            f"the workload has {len(workload.ranks)} traces, the network {machine.npus} NPUs",
            hint="give a network with one NPU per trace",
        )
    if workload.operations > MOST_OPERATIONS:
        raise LimitError(f"the workload has {workload.operations:,} operations", hint=f"at most {MOST_OPERATIONS:,}")
    ranks, kinds, network = _arrange(workload, machine, folded=folded)
    run = _Replay(workload, machine, ranks, network)
    run.run()
    times = [NpuTimes(npu.finished_ns, npu.compute_ns, npu.communication_ns) for npu in run.npus]
    return ReplayResult(tuple(times[kind] for kind in kinds), workload.operations)


def _arrange(
    workload: TraceWorkload, machine: ReplayMachine, *, folded: bool
) -> tuple[Sequence[int], Sequence[int], Network]:
    """Return the NPUs to replay, which of them stands for each NPU, and their network."""
    everyone = range(machine.npus)
    if machine.profile == "astra_sim_aware":
        from cosmic_opt.simulation.replay.aware_network import AwareNetwork  # compiled code: loaded where it is used

        return everyone, everyone, AwareNetwork(machine)
    collectives = UnawareCollectives(machine)
    folding = fold(workload, machine, collectives) if folded else None
    if folding is None:
        return everyone, everyone, UnawareNetwork(machine, collectives)
    return folding.ranks, folding.kinds, FoldedNetwork(machine, collectives, folding.senders)


class _Replay:
    """The state of one replay of the NPUs `ranks`, here known by their place; `run` may be called once."""

    def __init__(self, workload: TraceWorkload, machine: ReplayMachine, ranks: Sequence[int], network: Network) -> None:
        self.machine = machine
        self.ranks = ranks
        self.network = network
        self.npus = [Npu(workload.ranks[rank]) for rank in ranks]
        self.skipped = [[self._is_skipped(operation) for operation in npu.operations] for npu in self.npus]
        self.groups = Groups(workload, machine)
        self.joined = Counter[tuple[int, str]]()
        self.events: list[tuple[int, int, int, int, int]] = []
        self.serial = 0
        self.memory_free_ns = 0
        self.computes = dict[tuple[int, int], int]()
        self.posts = Counter[tuple[bool, MessageKey]]()

    def run(self) -> None:
        for npu in range(len(self.npus)):
            self._issue(npu, 0)
        while True:
            limit = self.events[0][0] if self.events else None
            completions = self.network.advance(limit)
            for completion in completions:
                self._push(completion)
            if completions:
                continue
            if not self.events:
                break
            now, _, _, npu, index = heapq.heappop(self.events)
            self.npus[npu].end(index, now)
            self._issue(npu, now)
            self.npus[npu].finished_ns = now
        for rank, state in zip(self.ranks, self.npus, strict=True):
            if state.remaining:
                raise _stuck(rank, state)

    def _push(self, completion: Completion) -> None:
        if completion.time_ns >= MOST_NS:
            raise LimitError(f"the replay takes more than {MOST_NS} ns", hint="use a faster machine")
        entry = (completion.time_ns, completion.registered_ns, self.serial, completion.npu, completion.index)
        heapq.heappush(self.events, entry)
        self.serial += 1

    def _issue(self, npu: int, now: int) -> None:
        for index in self.npus[npu].take(self.skipped[npu]):
            self.npus[npu].begin(index, now)
            operation = self.npus[npu].operations[index]
            if operation.kind in (Kind.SEND, Kind.RECEIVE):
                self._message(npu, index, operation, now)
            elif operation.kind is Kind.COLLECTIVE and operation.collective != "broadcast":
                self._collective(npu, index, operation, now)
            else:
                end = self._end_ns(npu, operation, now)
                if end == now == 0:
                    raise InfeasibleError(
                        f"ASTRA-sim gives no time: operation {operation.id} of NPU {self.ranks[npu]} takes 0 ns at "
                        "time 0",
                        hint="operations that are ready at the start must take at least 1 ns",
                    )
                self._push(Completion(end, now, npu, index))

    def _end_ns(self, npu: int, operation: Operation, now: int) -> int:
        """Return when an operation that needs no other NPU ends."""
        if operation.kind is Kind.MEMORY:
            access_ns = self.machine.remote_memory.access_ns(operation.size_bytes)
            if self.machine.remote_memory.kind != "MEMORY_POOL":
                return now + access_ns
            self.memory_free_ns = max(self.memory_free_ns, now) + access_ns
            return self.memory_free_ns
        if operation.kind is Kind.COMPUTE and not operation.on_cpu and self.machine.peak_tflops is not None:
            key = operation.flops, operation.size_bytes
            if key not in self.computes:
                self.computes[key] = self.machine.compute_ns(*key)
            duration = self.computes[key]
        else:
            duration = operation.duration_us * NS_PER_US or SHORTEST_NS
        if operation.kind is Kind.COMPUTE and not operation.on_cpu:
            self.npus[npu].compute_ns += duration
        return now + duration

    def _collective(self, npu: int, index: int, operation: Operation, now: int) -> None:
        members = self.groups.members(self.ranks[npu], operation)
        number = self.joined[npu, operation.group]
        self.joined[npu, operation.group] += 1
        asked = (operation.collective, operation.size_bytes, operation.involved_dims)
        for completion in self.network.join(members, number, asked, (npu, index), now):
            self._push(completion)

    def _message(self, npu: int, index: int, operation: Operation, now: int) -> None:
        """Post a send or a receive; the n-th of each with one source, destination, tag and size match."""
        sends, rank = operation.kind is Kind.SEND, self.ranks[npu]
        if not 0 <= operation.peer < self.machine.npus or operation.peer == rank:
            raise SpecError(
                f"operation {operation.id} of NPU {rank} has the peer {operation.peer}", hint="name another NPU"
            )
        source, target = (rank, operation.peer) if sends else (operation.peer, rank)
        key = (source, target, operation.tag, operation.size_bytes)
        number = self.posts[sends, key]
        self.posts[sends, key] += 1
        for completion in self.network.post(key, number, sends, (npu, index), now):
            self._push(completion)

    def _is_skipped(self, operation: Operation) -> bool:
        """Say whether an operation passes its dependencies on without running: also one without bytes on a roofline."""
        if operation.kind is Kind.COMPUTE and not operation.on_cpu and self.machine.peak_tflops is not None:
            return operation.size_bytes == 0
        return operation.kind is Kind.SKIPPED


def _stuck(rank: int, npu: Npu) -> InfeasibleError | SpecError:
    """Return why an NPU has operations left when nothing happens any more."""
    if npu.running:
        return InfeasibleError(
            f"NPU {rank} waits for ever: another NPU does not issue the matching communication",
            hint="every member must issue the collectives of a group in one order, and every send needs its receive",
        )
    if any(npu.ready):
        index = min(index for ready in npu.ready for index in ready)
        return InfeasibleError(
            f"ASTRA-sim gives no time: nothing wakes NPU {rank} for operation {npu.operations[index].id} after a "
            "skipped one",
            hint="leave out operations without bytes or type",
        )
    left = next(index for index, count in enumerate(npu.missing) if count)
    return SpecError(
        f"operation {npu.operations[left].id} of NPU {rank} waits for itself: the dependencies form a circle",
        hint="remove a dependency",
    )
