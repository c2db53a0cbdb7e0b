"""Replays a traced workload: ASTRA-sim's issue rule, event by event, in whole nanoseconds.

At each completion on an NPU its ready operations are issued by ascending identifier, each if its slot is free. A
send holds the communication slot until its message has arrived; a receive holds none.
"""

from __future__ import annotations

import heapq
from collections import Counter
from dataclasses import dataclass

from cosmic_opt.errors import InfeasibleError, LimitError, SpecError, nearest
from cosmic_opt.simulation.replay.collectives import Members, Span, spanned
from cosmic_opt.simulation.replay.machine import MOST_NS, ReplayMachine
from cosmic_opt.simulation.replay.network import Completion, MessageKey, Network, UnawareNetwork
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


def replay(workload: TraceWorkload, machine: ReplayMachine) -> ReplayResult:
    """Return what ASTRA-sim reports for `workload` on `machine`.

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
    run = _Replay(workload, machine)
    run.run()
    times = tuple(NpuTimes(npu.finished_ns, npu.compute_ns, npu.communication_ns) for npu in run.npus)
    return ReplayResult(times, workload.operations)


class _Replay:
    """The state of one replay; `run` may be called once."""

    def __init__(self, workload: TraceWorkload, machine: ReplayMachine) -> None:
        self.machine = machine
        self.network = _network(machine)
        self.npus = [Npu(rank) for rank in workload.ranks]
        self.skipped = [[self._is_skipped(operation) for operation in npu.operations] for npu in self.npus]
        self.members = _Groups(workload, machine)
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
        for rank, state in enumerate(self.npus):
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
                        f"ASTRA-sim gives no time: operation {operation.id} of NPU {npu} takes 0 ns at time 0",
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
        members, number = self.members.join(npu, operation)
        asked = (operation.collective, operation.size_bytes, operation.involved_dims)
        for completion in self.network.join(members, number, asked, (npu, index), now):
            self._push(completion)

    def _message(self, npu: int, index: int, operation: Operation, now: int) -> None:
        """Post a send or a receive; the n-th of each with one source, destination, tag and size match."""
        sends = operation.kind is Kind.SEND
        if not 0 <= operation.peer < self.machine.npus or operation.peer == npu:
            raise SpecError(
                f"operation {operation.id} of NPU {npu} has the peer {operation.peer}", hint="name another NPU"
            )
        source, target = (npu, operation.peer) if sends else (operation.peer, npu)
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


def _network(machine: ReplayMachine) -> Network:
    if machine.profile == "astra_sim":
        return UnawareNetwork(machine)
    from cosmic_opt.simulation.replay.aware_network import AwareNetwork  # compiled code: loaded where it is used

    return AwareNetwork(machine)


class _Groups:
    """Which NPUs run a collective together, and which of their collectives it is: they match by order."""

    def __init__(self, workload: TraceWorkload, machine: ReplayMachine) -> None:
        self.groups = {name: _listed(npus, machine.npus) for name, npus in workload.groups.items()}
        self.machine = machine
        self.spans = dict[tuple[str, tuple[bool, ...] | None], Span]()
        self.sets = dict[tuple[tuple[tuple[int, int], ...], int], Members]()
        self.joined = Counter[tuple[int, str]]()

    def join(self, npu: int, operation: Operation) -> tuple[Members, int]:
        """Return the members of a collective that `npu` issues, and how many it issued there before."""
        members = self._of_group(npu, operation) if operation.group else self._of_machine(npu, operation)
        number = self.joined[npu, operation.group]
        self.joined[npu, operation.group] += 1
        return members, number

    def _of_group(self, npu: int, operation: Operation) -> Members:
        if operation.group not in self.groups:
            raise SpecError(
                f"operation {operation.id} of NPU {npu} uses the unknown communicator group {operation.group!r}",
                hint=nearest(operation.group, self.groups) or "give the file of communicator groups",
            )
        members = self.groups[operation.group]
        if npu not in members.positions:
            raise SpecError(
                f"NPU {npu} uses the communicator group {operation.group!r} without being in it",
                hint="list the NPU in the group",
            )
        return members

    def _of_machine(self, npu: int, operation: Operation) -> Members:
        key = (operation.collective, operation.involved_dims)
        if key not in self.spans:
            self.spans[key] = spanned(self.machine, *key)
        span = self.spans[key]
        first = span.first(npu)
        place = (span.outside, first)
        if place not in self.sets:
            self.sets[place] = Members.of(tuple(first + other for other in span.npus), listed=False)
        return self.sets[place]


def _listed(npus: tuple[int, ...], total: int) -> Members:
    """Return a communicator group; one of all NPUs runs on the machine's own plan, whatever its order."""
    return Members.of(tuple(sorted(npus)) if len(npus) == total else npus, listed=True)


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
