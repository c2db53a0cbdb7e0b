"""Lists of operations of all ranks again, slowly: every gang that is complete is tried at every time, in order."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field

from cosmic_opt.simulation.events.ranks import RankOp

Place = tuple[int, int]


@dataclass
class Gang:
    name: str
    chunk: int
    phase: int
    members: list[Place] = field(default_factory=list)
    since: int = 0
    serial: int = 0
    stream: int = 0


def reference(programs: Sequence[Sequence[RankOp]], policy: str) -> list[list[int]]:
    """Return when each operation ends; a collective has a name of its own, `after` is not known here."""
    turns = {rank: [place for place, op in enumerate(own) if not op.beside] for rank, own in enumerate(programs)}
    besides = {rank: [place for place, op in enumerate(own) if op.beside] for rank, own in enumerate(programs)}
    ends: dict[Place, int] = {}
    running: dict[Place, int | None] = {}
    chunks: dict[Place, int] = {}
    serials: dict[int, int] = defaultdict(int)
    gangs: dict[tuple[str, int, int], Gang] = {}
    ready, serving, travelling = list[Gang](), list[tuple[int, int, Gang]](), list[tuple[int, int, Gang]]()
    busy, number, now = set[Place](), 0, 0

    def op_of(place: Place) -> RankOp:
        return programs[place[0]][place[1]]

    def bring(place: Place, chunk: int, phase: int) -> None:
        op, rank = op_of(place), place[0]
        serials[rank] += 1
        gang = gangs.setdefault((op.name, chunk, phase), Gang(op.name, chunk, phase))
        gang.members.append(place)
        gang.serial = max(gang.serial, serials[rank])
        gang.stream = max(gang.stream, int(op.beside))
        if len(gang.members) == len(op.members):
            gang.since = now
            ready.append(gang)

    def key(gang: Gang) -> tuple:
        ticks = op_of(gang.members[0]).call.routes[0][gang.phase].ticks
        return {
            "fifo": (gang.since, gang.serial),
            "lifo": (-gang.since, -gang.serial),
            "smallest_first": (ticks, gang.stream, gang.chunk),
        }[policy]

    def can_start(rank: int, own: list[int]) -> Place | None:
        waiting = [place for place in own if (rank, place) not in ends]
        if not waiting or (rank, waiting[0]) in running:
            return None
        before = [place for place in turns[rank] if place < waiting[0]]
        return None if before and (rank, before[-1]) not in ends else (rank, waiting[0])

    while True:
        for item in sorted((item for item in serving if item[0] == now), key=lambda item: item[1]):
            serving.remove(item)
            visit = op_of(item[2].members[0]).call.routes[0][item[2].phase]
            busy -= {(rank, visit.dim) for rank, _ in item[2].members}
            travelling.append((now + visit.latency_ticks, number, item[2]))
            number += 1
        for item in sorted((item for item in travelling if item[0] == now), key=lambda item: item[1]):
            travelling.remove(item)
            for place in item[2].members:
                if item[2].phase + 1 < len(op_of(place).call.routes[0]):
                    bring(place, item[2].chunk, item[2].phase + 1)
                else:
                    chunks[place] -= 1
                    running[place] = None if chunks[place] else now
        moved = True
        while moved:
            moved = False
            for place, until in list(running.items()):
                if until == now:
                    ends[place] = now
                    del running[place]
            for rank in range(len(programs)):
                for own in (turns[rank], besides[rank]):
                    place = can_start(rank, own)
                    if place is not None:
                        moved = True
                        op = op_of(place)
                        running[place] = None if op.members else now + op.ticks
                        chunks[place] = op.chunks
                        for chunk in range(op.chunks if op.members else 0):
                            bring(place, chunk, 0)
        for gang in sorted(ready, key=key):
            visit = op_of(gang.members[0]).call.routes[0][gang.phase]
            ports = {(rank, visit.dim) for rank, _ in gang.members}
            if not ports & busy:
                busy |= ports
                ready.remove(gang)
                serving.append((now + visit.ticks, visit.dim, gang))
        times = [item[0] for item in (*serving, *travelling)] + [
            until for until in running.values() if until is not None
        ]
        if not times:
            return [[ends[rank, place] for place in range(len(own))] for rank, own in enumerate(programs)]
        now = min(times)
