"""The congestion-aware backend in a replay: collectives and messages of the workload share the links."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from cosmic_opt.simulation.collective.astra_sim.aware import LinkEngine, Output, Program
from cosmic_opt.simulation.collective.astra_sim.aware.run import case_program, engine_of
from cosmic_opt.simulation.collective.astra_sim.plan import cut
from cosmic_opt.simulation.replay.collectives import Members
from cosmic_opt.simulation.replay.machine import ReplayMachine
from cosmic_opt.simulation.replay.network import Asked, Calls, Completion, MessageKey, Owner


class AwareNetwork:
    """Every message on every link; nothing is known to be complete before the links have been simulated so far."""

    def __init__(self, machine: ReplayMachine) -> None:
        self.machine = machine
        self.engine: LinkEngine = engine_of(machine.case(next(iter(machine.algorithms)), 0))
        self.calls = Calls()
        self.numbers = dict[tuple[Members, int], int]()
        self.owners = dict[int, dict[int, Owner]]()
        self.programs = dict[tuple[Asked, int], tuple[Program, int]]()
        self.trees = Counter[str]()
        self.senders = dict[int, tuple[Owner, tuple[MessageKey, int]]]()
        self.tokens = 0
        self.arrived = set[tuple[MessageKey, int]]()
        self.waiting = dict[tuple[MessageKey, int], Owner]()

    def join(self, members: Members, number: int, asked: Asked, owner: Owner, now: int) -> Sequence[Completion]:
        call = self.calls.join(members, number, asked, owner, now)
        key = (members, number)
        if key not in self.numbers:
            self.numbers[key] = self._new_collective(members, asked)
        collective = self.numbers[key]
        position = members.positions[owner[0]]
        self.owners[collective][position] = owner
        if len(call.owners) == len(members.npus):
            del self.numbers[key]
        self.engine.start(collective, position, now)
        return ()

    def _new_collective(self, members: Members, asked: Asked) -> int:
        key = (asked, len(members.npus))
        if key not in self.programs:
            case = self.machine.case(*asked)
            case.refuse_failures()
            self.programs[key] = case_program(case, len(members.npus)), cut(case).count
        program, chunks = self.programs[key]
        first_tree = self.trees[asked[0]] % 2
        if len(members.npus) == self.machine.npus:
            self.trees[asked[0]] += chunks
        servers = self.machine.active_chunks
        collective = self.engine.add(program, members.npus, chunks, servers, first_tree=first_tree)
        self.owners[collective] = {}
        return collective

    def post(self, key: MessageKey, number: int, sends: bool, owner: Owner, now: int) -> Sequence[Completion]:
        turn = (key, number)
        if not sends:
            if turn in self.arrived:
                self.arrived.remove(turn)
                return [Completion(now, now, *owner)]
            self.waiting[turn] = owner
            return ()
        source, target, _, size_bytes = key
        self.senders[self.tokens] = owner, turn
        self.engine.send(source, target, size_bytes, self.tokens, now)
        self.tokens += 1
        return ()

    def advance(self, limit_ns: int | None) -> Sequence[Completion]:
        return [completion for output in self.engine.advance(limit_ns) for completion in self._completed(output)]

    def _completed(self, output: Output) -> Sequence[Completion]:
        if output.collective is not None:
            owner = self.owners[output.collective][output.token]
            return [Completion(output.time_ns, output.registered_ns, *owner)]
        sender, turn = self.senders.pop(output.token)
        done = [Completion(output.time_ns, output.registered_ns, *sender)]
        if turn in self.waiting:
            done.append(Completion(output.time_ns, output.registered_ns, *self.waiting.pop(turn)))
        else:
            self.arrived.add(turn)
        return done
