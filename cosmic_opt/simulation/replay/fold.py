"""NPUs that do the same at the same times: one of each kind stands for all, exactly.

NPUs are of one kind when their traces are equal up to the names of groups, peers and tags, their messages take
equal times, and the NPUs they exchange messages with are of one kind. Where every collective has members of one kind
and equal edges, all members start it together and finish it together; so by induction over time equal kinds have equal
times. Traces without that symmetry are replayed NPU by NPU.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from cosmic_opt.errors import CosmicError
from cosmic_opt.simulation.collective.astra_sim.case import parse_implementation
from cosmic_opt.simulation.replay.collectives import Members, UnawareCollectives
from cosmic_opt.simulation.replay.groups import Groups
from cosmic_opt.simulation.replay.machine import ReplayMachine
from cosmic_opt.simulation.replay.network import MessageKey
from cosmic_opt.simulation.replay.npu import COMMUNICATION
from cosmic_opt.simulation.replay.trace import Kind, Operation, TraceWorkload


@dataclass(frozen=True, slots=True)
class Folding:
    """`ranks` are the NPUs that stand for a kind, `kinds` the kind of every NPU.

    `senders` maps a message that one of `ranks` receives to the one of `ranks` that is like it.
    """

    ranks: tuple[int, ...]
    kinds: tuple[int, ...]
    senders: Mapping[MessageKey, MessageKey]


class _AsymmetryError(Exception):
    """The workload has to be replayed NPU by NPU."""


def fold(workload: TraceWorkload, machine: ReplayMachine, collectives: UnawareCollectives) -> Folding | None:
    """Return which NPUs stand for all, or None where they cannot."""
    trees = any(
        parse_implementation(name).kind == "double_binary_tree"
        for names in machine.algorithms.values()
        for name in names
    )
    if trees or machine.remote_memory.kind == "MEMORY_POOL":
        return None
    try:
        return _Fold(workload, machine, collectives).run()
    except (_AsymmetryError, CosmicError):  # a replay NPU by NPU raises the error where it occurs, if it does
        return None


class _Fold:
    """Splits NPUs into kinds until no more differ."""

    def __init__(self, workload: TraceWorkload, machine: ReplayMachine, collectives: UnawareCollectives) -> None:
        self.workload = workload
        self.machine = machine
        self.collectives = collectives
        self.groups = Groups(workload, machine)
        self.sends = dict[MessageKey, int]()
        self.receives = dict[MessageKey, int]()
        self.peers: list[list[int]] = []
        self.sets = set[Members]()

    def run(self) -> Folding:
        self._match()
        signatures = [self._signature(npu, rank) for npu, rank in enumerate(self.workload.ranks)]
        kinds, count = _numbered(signatures)
        while True:
            refined, more = _numbered(
                [(kinds[npu], tuple(kinds[peer] for peer in peers)) for npu, peers in enumerate(self.peers)]
            )
            if more == count:
                break
            kinds, count = refined, more
            if 2 * count > self.machine.npus:  # little would be gained
                raise _AsymmetryError
        for members in self.sets:
            if len(members.npus) == 1 or len({kinds[npu] for npu in members.npus}) > 1:
                raise _AsymmetryError
        first = {kind: npu for npu, kind in reversed(list(enumerate(kinds)))}
        ranks = tuple(first[kind] for kind in range(count))
        sent = {(message[0], number): message for message, number in self.sends.items()}
        senders = {
            message: sent[ranks[kinds[message[0]]], self.sends[message]]
            for message in self.receives
            if ranks[kinds[message[1]]] == message[1]
        }
        return Folding(ranks, tuple(kinds), senders)

    def _match(self) -> None:
        """Match sends and receives; only where each message has a name of its own is that known beforehand."""
        for npu, rank in enumerate(self.workload.ranks):
            for operation in rank:
                if operation.kind not in COMMUNICATION or operation.kind is Kind.COLLECTIVE:
                    continue
                message = _message(npu, operation)
                posted = self.sends if operation.kind is Kind.SEND else self.receives
                if message in posted or not 0 <= operation.peer < self.machine.npus or operation.peer == npu:
                    raise _AsymmetryError
                posted[message] = operation.id
        if self.sends.keys() != self.receives.keys():
            raise _AsymmetryError

    def _signature(self, npu: int, rank: Sequence[Operation]) -> tuple[object, ...]:
        """Return all that decides an NPU's times but the kinds of its peers; note its peers and sets of NPUs."""
        self.peers.append([])
        return tuple(
            (_plain(operation), self._links(npu, operation) if operation.kind in COMMUNICATION else None)
            for operation in rank
        )

    def _links(self, npu: int, operation: Operation) -> object:
        """Return what decides the time of a communication besides its size; note its peer or its set of NPUs."""
        if operation.kind is Kind.COLLECTIVE:
            if operation.collective == "broadcast":
                return None
            members = self.groups.members(npu, operation)
            self.sets.add(members)
            if not members.listed or len(members.npus) == self.machine.npus:
                return members.listed
            group = self.collectives.edges_of(members)
            if not group.circulant:
                raise _AsymmetryError
            return group.shape
        self.peers[npu].append(operation.peer)
        message = _message(npu, operation)
        duration_ns = self.collectives.message_ns(message[0], message[1], operation.size_bytes)
        return duration_ns, (self.sends if operation.kind is Kind.RECEIVE else self.receives)[message]


def _plain(operation: Operation) -> tuple[object, ...]:
    return (
        *(operation.id, operation.kind, operation.dependencies, operation.duration_us, operation.on_cpu),
        *(operation.flops, operation.size_bytes, operation.collective, operation.involved_dims),
    )


def _message(npu: int, operation: Operation) -> MessageKey:
    ends = (npu, operation.peer) if operation.kind is Kind.SEND else (operation.peer, npu)
    return (*ends, operation.tag, operation.size_bytes)


def _numbered(signatures: Sequence[object]) -> tuple[list[int], int]:
    """Return the number of each signature, counted in order of first appearance, and how many differ."""
    numbers = dict[object, int]()
    kinds = [numbers.setdefault(signature, len(numbers)) for signature in signatures]
    return kinds, len(numbers)
