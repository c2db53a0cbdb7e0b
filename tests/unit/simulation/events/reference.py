"""The events again, slowly: one time step at a time over plain Python lists, exact fractions for shared dimensions."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import dataclass, field
from fractions import Fraction
from math import ceil

from cosmic_opt.simulation.events import Program


@dataclass
class Chunk:
    stream: int
    number: int
    route: tuple
    at: int = 0
    left: Fraction = Fraction(0)
    arrival: int = 0


@dataclass
class Server:
    waiting: list[Chunk] = field(default_factory=list)
    serving: list[Chunk] = field(default_factory=list)
    since: int = 0
    busy: int = 0

    def advance(self, now: int) -> None:
        for chunk in self.serving:
            chunk.left -= Fraction(now - self.since, len(self.serving))
        self.busy += now - self.since if self.serving else 0
        self.since = now

    def free(self) -> int | None:
        if not self.serving:
            return None
        return self.since + ceil(max(Fraction(0), min(chunk.left for chunk in self.serving)) * len(self.serving))


Partners = Callable[[int, int, int], tuple[Hashable, int]]
"""From a stream, a call and a dimension: what names the group that runs the phase together, and its size."""


def alone(stream: int, call: int, dim: int) -> tuple[Hashable, int]:
    return stream, 1


def reference(
    program: Program, *, policy: str = "fifo", active: int = 1, partners: Partners = alone
) -> tuple[list[int], list[int]]:
    """Return when each operation ends, and how long each dimension was busy.

    A chunk goes on when all partners have done its phase.
    """
    met: dict[Hashable, list[Chunk]] = {}
    ops, firsts, ends = program.ops, [], []
    for stream in program.streams:
        firsts.append(len(ends))
        ends += [-1] * len(stream.ops)
    at, running, ready = list(firsts), {}, {}
    servers = [Server() for _ in range(program.dimensions)]
    travelling: list[tuple[int, int, Chunk]] = []
    counter, now = 0, 0

    def key(chunk: Chunk) -> tuple:
        ticks = chunk.route[chunk.at].ticks
        small = (ticks, chunk.stream, chunk.number)
        return {"fifo": (chunk.arrival,), "lifo": (-chunk.arrival,), "smallest_first": small}[policy]

    def wait(chunk: Chunk) -> None:
        nonlocal counter
        chunk.arrival, counter = counter, counter + 1
        servers[chunk.route[chunk.at].dim].waiting.append(chunk)

    def end(stream: int) -> None:
        ends[at[stream]] = now
        at[stream] += 1
        del running[stream]

    while True:
        for server in servers:
            if server.free() == now:
                server.advance(now)
                for chunk in [chunk for chunk in server.serving if chunk.left <= 0]:
                    server.serving.remove(chunk)
                    place, visit = at[chunk.stream], chunk.route[chunk.at]
                    group, size = partners(chunk.stream, ops[place].call, visit.dim)
                    rendezvous = group, place - firsts[chunk.stream], chunk.number, chunk.at
                    met.setdefault(rendezvous, []).append(chunk)
                    if len(met[rendezvous]) < size:
                        continue
                    for partner in met.pop(rendezvous):
                        travelling.append((now + visit.latency_ticks, counter, partner))
                        counter += 1
                        partner.at += 1
        for item in sorted((item for item in travelling if item[0] == now), key=lambda item: item[1]):
            travelling.remove(item)
            chunk = item[2]
            if chunk.at < len(chunk.route):
                wait(chunk)
                continue
            running[chunk.stream] -= 1
            if running[chunk.stream] == 0:
                end(chunk.stream)
        moved = True
        while moved:
            moved = False
            for stream in [stream for stream, until in running.items() if until == ("until", now)]:
                end(stream)
            for stream, plan in enumerate(program.streams):
                place = at[stream]
                if stream in ready or stream in running or place == firsts[stream] + len(plan.ops):
                    continue
                if ops[place].wait < 0 or ends[ops[place].wait] >= 0:
                    ready[stream] = now
            for lane in range(len(program.streams)):
                if any(program.streams[stream].lane == lane for stream in running):
                    continue
                choice = [stream for stream in ready if program.streams[stream].lane == lane]
                if not choice:
                    continue
                stream = min(choice, key=lambda stream: (ready[stream], stream))
                del ready[stream]
                moved = True
                op = ops[at[stream]]
                routes = program.calls[op.call].routes if op.call >= 0 else ((),)
                if not routes[0]:
                    running[stream] = ("until", now + (op.ticks if op.call < 0 else 0))
                    continue
                chunks = program.calls[op.call].chunks
                running[stream] = chunks
                for number in range(chunks):
                    wait(Chunk(stream, number, routes[number if len(routes) > 1 else 0]))
        for server in servers:
            if server.waiting and len(server.serving) < active:
                server.advance(now)
                while server.waiting and len(server.serving) < active:
                    chunk = min(server.waiting, key=key)
                    server.waiting.remove(chunk)
                    chunk.left = Fraction(chunk.route[chunk.at].ticks)
                    server.serving.append(chunk)
        times = [item[0] for item in travelling] + [until[1] for until in running.values() if isinstance(until, tuple)]
        times += [free for server in servers if (free := server.free()) is not None]
        if not times:
            return ends, [server.busy for server in servers]
        now = min(times)
