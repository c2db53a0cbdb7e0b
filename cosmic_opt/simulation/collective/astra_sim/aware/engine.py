"""Owns the arrays of a link-level simulation: adds collectives and messages, runs it, and hands slots back."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from cosmic_opt.errors import LimitError
from cosmic_opt.simulation.collective.astra_sim.algorithms import LATEST_NS
from cosmic_opt.simulation.collective.astra_sim.aware import kernel
from cosmic_opt.simulation.collective.astra_sim.aware import state as layout
from cosmic_opt.simulation.collective.astra_sim.aware.programs import Program
from cosmic_opt.simulation.collective.astra_sim.aware.state import State

TOPOLOGIES = {"ring": layout.RING, "fully_connected": layout.FULLY_CONNECTED, "switch": layout.SWITCH}
MOST_NPUS = 4096
MOST_HOPS = 2**27
"""Of all messages of a simulation together."""
MOST_STREAMS = 2**22
"""Chunks times NPUs of one collective."""


@dataclass(frozen=True, slots=True)
class Output:
    """What is complete at `time_ns`: a member of a collective, or (collective None) the message `token`.

    The event that completes it was scheduled at `registered_ns`.
    """

    time_ns: int
    registered_ns: int
    collective: int | None
    token: int
    """Position of the member in its collective, or the message's token."""


class LinkEngine:
    """One network of one dimension; time only moves forward, in `advance`."""

    def __init__(self, topology: str, npus: int, bytes_per_ns: float, latency_ns: float) -> None:
        if npus > MOST_NPUS:
            raise LimitError(f"{npus} NPUs are too many for single links", hint=f"at most {MOST_NPUS}")
        kind = TOPOLOGIES[topology]
        self.hops = max(1, npus // 2) if topology == "ring" else 2 if topology == "switch" else 1
        self.hops_left = MOST_HOPS
        self.ns_left = float(LATEST_NS)
        links = npus * npus if topology == "fully_connected" else 2 * npus
        self.state = State(
            meta=np.zeros(5, dtype=np.int64),
            heap=np.zeros((1024, 4), dtype=np.int64),
            messages=np.zeros((1024, 6), dtype=np.int64),
            free=np.arange(1024, dtype=np.int64),
            streams=np.zeros((0, 11), dtype=np.int64),
            arrived=np.zeros(0, dtype=np.uint8),
            instances=np.zeros((0, 8), dtype=np.int64),
            rows=np.zeros((0, 3), dtype=np.int64),
            programs=np.zeros((0, 8), dtype=np.int64),
            pool=np.zeros(0, dtype=np.int64),
            links=np.zeros(links, dtype=np.int64),
            outputs=np.zeros((1024, 4), dtype=np.int64),
            network=np.array([kind, npus], dtype=np.int64),
            rates=np.array([bytes_per_ns, latency_ns], dtype=np.float64),
        )
        self.state.meta[layout.FREE_MESSAGES] = len(self.state.free)
        self.widest = 1
        self.programs = dict[Program, int]()
        self.collectives = 0
        self.unfinished = dict[int, int]()
        self.row_owners = list[tuple[int, int]]()
        self.spare = {"streams": _Blocks(), "arrived": _Blocks(), "rows": _Blocks(), "instances": _Blocks()}

    def add(self, program: Program, npus: Sequence[int], chunks: int, servers: int, *, first_tree: int = 0) -> int:
        """Return the number of a new collective of `npus`, none of which has issued it.

        Raises:
            LimitError: the simulation has too many messages.
        """
        if chunks * len(npus) > MOST_STREAMS:
            raise LimitError(
                f"{chunks} chunks on {len(npus)} NPUs are too many to simulate", hint=f"at most {MOST_STREAMS} together"
            )
        sends = program.sends if program.kind != layout.TREE else 2
        self._reserve(sends * chunks * len(npus), max(program.sizes_bytes), max(program.work_ns))
        streams = len(npus) * chunks
        bases = {
            "instances": self._take("instances", 1),
            "rows": self._take("rows", len(npus)),
            "streams": self._take("streams", streams),
            "arrived": self._take("arrived", max(1, streams * program.sends)),
        }
        state, instance = self.state, bases["instances"]
        state.instances[instance] = (
            *(bases["rows"], len(npus), chunks, min(servers, chunks), self._program(program)),
            *(bases["streams"], bases["arrived"], first_tree),
        )
        rows = slice(bases["rows"], bases["rows"] + len(npus))
        state.rows[rows] = np.column_stack([npus, np.zeros(len(npus), dtype=np.int64), np.full(len(npus), chunks)])
        self.row_owners[rows] = [(instance, position) for position in range(len(npus))]
        fields = state.streams[bases["streams"] : bases["streams"] + streams]
        fields[:] = 0
        fields[:, layout.INSTANCE] = instance
        fields[:, layout.POSITION] = np.repeat(np.arange(len(npus)), chunks)
        fields[:, layout.CHUNK] = np.tile(np.arange(chunks), len(npus))
        if program.kind == layout.TREE:
            fields[:, layout.PENDING] = _children(fields, len(npus), first_tree)
        state.arrived[bases["arrived"] : bases["arrived"] + streams * program.sends] = 0
        self.unfinished[instance] = len(npus)
        return instance

    def start(self, collective: int, position: int, now: int) -> None:
        """The member at `position` issues a collective at time `now`, at which nothing lies behind."""
        self._make_room(self.widest * int(self.state.instances[collective, layout.SERVERS]))
        kernel.start_row(self.state, collective, position, now)

    def send(self, source: int, target: int, size_bytes: int, token: int, now: int) -> None:
        """Send one message of the workload; `advance` puts out its token when it has arrived."""
        self._reserve(1, size_bytes, 0)
        self._make_room(1)
        kernel.launch(self.state, source, target, size_bytes, -1, token, now)

    def advance(self, limit_ns: int | None) -> list[Output]:
        """Run to the first time, not after `limit_ns`, at which something is complete, and return it all."""
        limit = kernel.NO_LIMIT if limit_ns is None else limit_ns
        while kernel.advance(self.state, limit, self.widest) == kernel.FULL:
            self._make_room(self.widest, grow=True)
        count = int(self.state.meta[layout.OUTPUTS])
        self.state.meta[layout.OUTPUTS] = 0
        return [self._output(*entry) for entry in self.state.outputs[:count].tolist()]

    def _reserve(self, messages: int, size_bytes: int, work_ns: int) -> None:
        """Count messages against the limits of the simulation; were all in turn, they would end by `LATEST_NS`."""
        hops = messages * self.hops
        bytes_per_ns, latency_ns = self.state.rates.tolist()
        self.hops_left -= hops
        self.ns_left -= hops * (latency_ns + size_bytes / bytes_per_ns + 1) + messages * work_ns
        if self.hops_left < 0 or self.ns_left < 0:
            raise LimitError(
                f"{messages:,} messages of {size_bytes:,} B make the simulation too large",
                hint=f"at most {MOST_HOPS:,} messages times hops, and {LATEST_NS:,} ns",
            )

    def _output(self, time_ns: int, row: int, token: int, registered_ns: int) -> Output:
        if row < 0:
            return Output(time_ns, registered_ns, None, token)
        instance, position = self.row_owners[row]
        self.unfinished[instance] -= 1
        if self.unfinished[instance] == 0:
            self._give_back(instance)
        return Output(time_ns, registered_ns, instance, position)

    def _give_back(self, instance: int) -> None:
        """Every member has finished: its arrays may be used again."""
        rows, members, chunks, _, program, streams, flags, _ = self.state.instances[instance].tolist()
        sends = int(self.state.programs[program, layout.SENDS])
        self.spare["instances"].give(instance, 1)
        self.spare["rows"].give(rows, members)
        self.spare["streams"].give(streams, members * chunks)
        self.spare["arrived"].give(flags, max(1, members * chunks * sends))

    def _take(self, name: str, size: int) -> int:
        """Return the start of a block of `size` entries of an array, which grows if it has no such block."""
        base = self.spare[name].take(size)
        if base + size > len(getattr(self.state, name)):
            self._enlarge(name, base + size)
        if name == "rows":
            self.row_owners.extend([(-1, -1)] * (base + size - len(self.row_owners)))
        return base

    def _program(self, program: Program) -> int:
        if program not in self.programs:
            number = self.programs[program] = len(self.programs)
            pool = len(self.state.pool)
            parts = (program.offsets, program.sizes_bytes, program.work_ns)
            bases = (pool, pool + len(parts[0]), pool + len(parts[0]) + len(parts[1]))
            values = np.array([value for part in parts for value in part], dtype=np.int64)
            row = [program.kind, program.window, program.sends, len(program.offsets), program.gate, *bases]
            programs = np.vstack([self.state.programs[:number], np.array([row], dtype=np.int64)])
            self.state = self.state._replace(pool=np.concatenate([self.state.pool, values]), programs=programs)
            self.widest = max(self.widest, program.window)
        return self.programs[program]

    def _make_room(self, events: int, *, grow: bool = False) -> None:
        """Make the heap, the messages and the output large enough for `events` more; `grow` at least doubles them."""
        need = 2 * events + 2 * kernel.SPARE
        state = self.state
        if grow or len(state.heap) - int(state.meta[layout.HEAP]) < need:
            self._enlarge("heap", len(state.heap) + need)
        if grow or len(state.outputs) - int(state.meta[layout.OUTPUTS]) < need:
            self._enlarge("outputs", len(state.outputs) + need)
        if grow or int(state.meta[layout.FREE_MESSAGES]) < need:
            before, free = len(state.messages), int(state.meta[layout.FREE_MESSAGES])
            self._enlarge("messages", before + need)
            added = np.arange(before, len(self.state.messages), dtype=np.int64)
            slots = np.concatenate([self.state.free[:free], added])
            stack = np.zeros(len(self.state.messages), dtype=np.int64)
            stack[: len(slots)] = slots
            self.state = self.state._replace(free=stack)
            self.state.meta[layout.FREE_MESSAGES] = len(slots)

    def _enlarge(self, name: str, size: int) -> None:
        old = getattr(self.state, name)
        new = np.zeros((max(size, 2 * len(old)), *old.shape[1:]), dtype=old.dtype)
        new[: len(old)] = old
        self.state = self.state._replace(**{name: new})


class _Blocks:
    """Hands out places of an array; blocks given back are used again for the same size."""

    def __init__(self) -> None:
        self.end = 0
        self.free = dict[int, list[int]]()

    def take(self, size: int) -> int:
        if self.free.get(size):
            return self.free[size].pop()
        self.end += size
        return self.end - size

    def give(self, base: int, size: int) -> None:
        self.free.setdefault(size, []).append(base)


def _children(streams: layout.IntArray, members: int, first_tree: int) -> layout.IntArray:
    """Return how many children each stream has in its tree: the root one, a leaf none, all others two."""
    first = (first_tree + streams[:, layout.CHUNK]) % 2 == 1
    rank = np.where(first, streams[:, layout.POSITION], members - 1 - streams[:, layout.POSITION])
    return np.where(rank == 0, 1, np.where(rank % 2 == 1, 0, 2))
