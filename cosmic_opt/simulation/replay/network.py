"""What a replay asks of a network: run collectives and messages, and say when each operation is complete."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from cosmic_opt.errors import InfeasibleError
from cosmic_opt.simulation.collective.astra_sim.plan import SUBGROUP_DELAY_NS
from cosmic_opt.simulation.replay.collectives import Members, UnawareCollectives
from cosmic_opt.simulation.replay.machine import ReplayMachine

Asked = tuple[str, int, tuple[bool, ...] | None]
"""Collective, comm_size in bytes, involved dimensions."""
Owner = tuple[int, int]
"""NPU, and the place of its operation."""
MessageKey = tuple[int, int, int, int]
"""Source, destination, tag, bytes."""


@dataclass(frozen=True, slots=True)
class Completion:
    """An operation is complete at `time_ns`; completions at one time count in the order they were `registered_ns`."""

    time_ns: int
    registered_ns: int
    npu: int
    index: int


class Network(Protocol):
    """A network; every call returns the operations that it knows to complete, each exactly once."""

    def join(self, members: Members, number: int, asked: Asked, owner: Owner, now: int) -> Sequence[Completion]:
        """One member issues the `number`-th collective of its group."""
        ...

    def post(self, key: MessageKey, number: int, sends: bool, owner: Owner, now: int) -> Sequence[Completion]:
        """The source sends the `number`-th message of a key, or the destination is ready to receive it."""
        ...

    def advance(self, limit_ns: int | None) -> Sequence[Completion]:
        """Run on until something completes, at most to `limit_ns` (None: to the end)."""
        ...


@dataclass(slots=True)
class _Call:
    """One collective: what is asked, and who of its members issued it when."""

    asked: Asked
    owners: dict[int, Owner] = field(default_factory=dict)
    starts: dict[int, int] = field(default_factory=dict)


class Calls:
    """Collectives by members and number, open until their last member has issued them."""

    def __init__(self) -> None:
        self.open = dict[tuple[Members, int], _Call]()

    def join(self, members: Members, number: int, asked: Asked, owner: Owner, now: int) -> _Call:
        """Enter one member.

        Raises:
            InfeasibleError: the members ask for different collectives, or a group has one member.
        """
        if len(members.npus) == 1:
            raise InfeasibleError(
                "ASTRA-sim gives no time: a communicator group of one NPU never completes",
                hint="leave out collectives of one NPU",
            )
        call = self.open.setdefault((members, number), _Call(asked))
        if call.asked != asked:
            raise InfeasibleError(
                f"NPU {owner[0]} issues {asked[0]} of {asked[1]} B where another member issues {call.asked[0]} of "
                f"{call.asked[1]} B",
                hint="every member must issue the collectives of a group in one order",
            )
        call.owners[owner[0]], call.starts[owner[0]] = owner, now
        if len(call.owners) == len(members.npus):
            del self.open[members, number]
        return call


class UnawareNetwork:
    """The congestion-unaware backend: every duration is known when the last member has joined."""

    def __init__(self, machine: ReplayMachine, collectives: UnawareCollectives) -> None:
        self.machine = machine
        self.collectives = collectives
        self.calls = Calls()
        self.sent = dict[tuple[MessageKey, int], int]()
        self.waiting = dict[tuple[MessageKey, int], Owner]()

    def join(self, members: Members, number: int, asked: Asked, owner: Owner, now: int) -> Sequence[Completion]:
        call = self.calls.join(members, number, asked, owner, now)
        if len(call.owners) < len(members.npus):
            return ()
        starts = [call.starts[npu] for npu in members.npus]
        finishes = self.collectives.finish(asked[0], asked[1], members, asked[2], starts)
        step_ns = last_step_ns(self.machine, members)
        return [
            Completion(finish, finish - step_ns, *call.owners[npu])
            for npu, finish in zip(members.npus, finishes, strict=True)
        ]

    def post(self, key: MessageKey, number: int, sends: bool, owner: Owner, now: int) -> Sequence[Completion]:
        turn = (key, number)
        if sends:
            source, target, _, size_bytes = key
            arrival = now + self.collectives.message_ns(source, target, size_bytes)
            done = [Completion(arrival, now, *owner)]
            if turn in self.waiting:
                done.append(Completion(arrival, now, *self.waiting.pop(turn)))
            else:
                self.sent[turn] = arrival
            return done
        if turn in self.sent:
            arrival = self.sent.pop(turn)
            return [Completion(max(arrival, now), min(arrival, now), *owner)]
        self.waiting[turn] = owner
        return ()

    def advance(self, limit_ns: int | None) -> Sequence[Completion]:
        return ()


class FoldedNetwork:
    """The congestion-unaware backend where one NPU of each kind issues its collectives for all members.

    `senders` maps a message that such an NPU receives to the one, of another such NPU, that is like it.
    """

    def __init__(
        self, machine: ReplayMachine, collectives: UnawareCollectives, senders: Mapping[MessageKey, MessageKey]
    ) -> None:
        self.machine = machine
        self.collectives = collectives
        self.senders = senders
        self.messages = UnawareNetwork(machine, collectives)

    def join(self, members: Members, number: int, asked: Asked, owner: Owner, now: int) -> Sequence[Completion]:
        finish = now + self.collectives.duration_ns(asked[0], asked[1], members, asked[2])
        return [Completion(finish, finish - last_step_ns(self.machine, members), *owner)]

    def post(self, key: MessageKey, number: int, sends: bool, owner: Owner, now: int) -> Sequence[Completion]:
        return self.messages.post(key if sends else self.senders[key], number, sends, owner, now)

    def advance(self, limit_ns: int | None) -> Sequence[Completion]:
        return ()


def last_step_ns(machine: ReplayMachine, members: Members) -> int:
    """Return how long before the end of a collective its last event is scheduled."""
    smaller = members.listed and len(members.npus) < machine.npus
    return SUBGROUP_DELAY_NS if smaller else machine.endpoint_delay_ns
