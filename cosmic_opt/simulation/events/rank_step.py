"""Every rank of a training step by itself, with rendezvous chunk by chunk: what slow ranks cost, who waits for whom.

Rank numbers count tp fastest, then sp, dp and the pipeline stage. A phase of a chunk on a network dimension is run by
the slice of the group that lies along it; the collective's next phase has another slice. Members of a communicator must
run its collectives in one order: that of equal ranks. So every wait leads back in the order of the step of equal ranks,
nothing waits for ever, and ranks that are equal take the folded step to the tick.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from math import prod

import numpy as np

from cosmic_opt.errors import LimitError, SpecError
from cosmic_opt.simulation.analytical.layout import Whole
from cosmic_opt.simulation.events.lower import SEND, Lowered
from cosmic_opt.simulation.events.passes import COMPUTE, GATHER, REDUCE, STREAMS, whole_program
from cosmic_opt.simulation.events.program import IntArray, Program, Stream
from cosmic_opt.simulation.events.rank_program import SMALLER, Progress, RankProgram, RankReplay, play
from cosmic_opt.simulation.events.replay import run_program
from cosmic_opt.simulation.events.spread import MEMBERS
from cosmic_opt.workloads.graph import CONTEXT, DATA, KEYS, PIPELINE, STREAM, TENSOR, TrainingGraph

MOST_RANKS = 2**18
STEP = "step"
WAITS = (TENSOR, CONTEXT, DATA, PIPELINE, STEP)
"""What a rank waits for: groups of communication, and the gradients of all other ranks before the optimizer."""
_STREAMS = 2
"""Of a rank: compute, and the data-parallel communicator."""


@dataclass(frozen=True, eq=False)
class RankStep:
    """A step of every rank, in ticks.

    Attributes:
        step_ticks: With the optimizer, which starts when every rank has its gradients.
        settled: int64 [ranks], when each rank has its gradients.
        waits: int64 [ranks, len(WAITS)], how long each rank's compute stands still for others: beyond the time that
            blocking communication takes alone, for weights and gradients beside compute, for messages, for the rest.
        busy: int64 [ranks, D], how long each port served.
        events: Operations of ranks, and phases of chunks that they take part in.
    """

    step_ticks: int
    settled: IntArray
    waits: IntArray
    busy: IntArray
    events: int


class EveryRank:
    """All ranks of one design's step, ready to be played under any slowdown."""

    def __init__(self, lowered: Lowered, graph: TrainingGraph, extents: Mapping[str, Sequence[int]]) -> None:
        """Take the ticks and the graph of a design, and how far tp, sp and dp reach into each dimension.

        Raises:
            LimitError: more than MOST_RANKS.
        """
        self.lowered, self.graph = lowered, graph
        self.degrees = {name: prod(extents[name]) for name in ("tp", "sp", "dp")}
        self.places, self.ranks = prod(self.degrees.values()), prod(self.degrees.values()) * len(graph.stages)
        if self.ranks > MOST_RANKS:
            raise LimitError(f"{self.ranks:,} ranks are more than {MOST_RANKS:,}", hint=SMALLER)
        self._kinds = [_group(kind) for kind in lowered.call_places]
        self.program = self._program(_slices(extents, lowered.dimensions))

    @property
    def events(self) -> int:
        """Return how many events a step has, whoever is slow."""
        return self.program.events

    def run(
        self, slowdown: Mapping[int, Fraction | int] | None = None, *, progress: Progress | None = None
    ) -> RankStep:
        """Play the step; `slowdown` says how many times as long a rank's compute takes, 1 where it is not given.

        `progress` is told how many of `events` are over.

        Raises:
            SpecError: a rank or a factor that means nothing.
            LimitError: more events, memory or time than can be played.
        """
        slowdown = dict(slowdown or {})
        for rank, factor in slowdown.items():
            if type(rank) is not int or not 0 <= rank < self.ranks:
                raise SpecError(f"there is no rank {rank!r}", hint=f"ranks 0 to {self.ranks - 1}")
            if type(factor) not in (int, Fraction) or factor <= 0:
                raise SpecError(f"rank {rank} is slower by {factor!r}", hint="a positive number, exact")
        factors = list(dict.fromkeys([Fraction(1), *map(Fraction, slowdown.values())]))
        variant = np.zeros(self.ranks, dtype=np.int64)
        for rank, factor in slowdown.items():
            variant[rank] = factors.index(Fraction(factor))
        ops = self.program.program.ops
        ticks = [[round(op.ticks * factor) for op in ops] for factor in factors]
        replay = play(self.program, ticks, variant, policy=self.lowered.policy, times=False, progress=progress)
        return self._result(replay, factors, variant)

    def _result(self, replay: RankReplay, factors: list[Fraction], variant: IntArray) -> RankStep:
        stopped = np.cumsum([len(stream.ops) for stream in self.program.program.streams]).reshape(-1, _STREAMS)
        assert np.array_equal(replay.position, np.repeat(stopped, self.places, axis=0)), "every rank runs to its end"
        settled = replay.clock.max(axis=1)
        waits = np.zeros((self.ranks, len(WAITS)), dtype=np.int64)
        waits[:, :-1] = replay.waits - np.repeat(self.alone_ticks, self.places, axis=0)
        waits[:, WAITS.index(DATA)] += settled - replay.clock[:, COMPUTE]
        waits[:, -1] = settled.max() - settled
        step = int(settled.max()) + self._optimizer(factors, variant)
        return RankStep(step, settled, waits, replay.busy, replay.events)

    @property
    def alone_ticks(self) -> IntArray:
        """Return what the blocking calls of a rank of each stage take alone, by group, int64 [stages, groups]."""
        alone = np.zeros((len(self.graph.stages), len(WAITS) - 1), dtype=np.int64)
        for stage in range(len(alone)):
            for op in self.program.program.streams[_STREAMS * stage + COMPUTE].ops:
                if op.call >= 0:
                    kind = op.call % len(self._kinds)
                    alone[stage, WAITS.index(self._kinds[kind])] += self.lowered.alone_ticks[kind]
        return alone

    def _optimizer(self, factors: Sequence[Fraction], variant: IntArray) -> int:
        """Return the time of the optimizer of the slowest rank."""
        last, slowest = len(self.graph.stages) - 1, 0
        for stage, own in enumerate(variant.reshape(last + 1, self.places)):
            kind = Whole.OPTIMIZER_FIRST + (0 if stage == 0 else 2 if stage == last else 1)
            factor = max(factors[int(place)] for place in np.unique(own))
            slowest = max(slowest, round(int(self.lowered.whole[kind]) * factor))
        return slowest

    def _program(self, slices: Mapping[tuple[str, int], IntArray]) -> RankProgram:
        """Return what all ranks run."""
        program, kinds, dims = self._ordered(), len(self._kinds), self.lowered.dimensions
        names = list(slices)
        rows = []
        for place, call in enumerate(program.calls):
            group = self._kinds[place % kinds]
            visits = [visit for route in call.routes for visit in route]
            rows += [-1 if group == PIPELINE else names.index((group, visit.dim % dims)) for visit in visits]
        table, members = _numbered(list(slices.values()))
        return RankProgram(
            program=program,
            roles=len(self.graph.stages),
            places=self.places,
            slices=table,
            members=members,
            rows=np.array(rows, dtype=np.int64),
            meet=np.arange(len(program.ops), dtype=np.int64),
            account=self._accounts(program),
            accounts=len(WAITS) - 1,
        )

    def _ordered(self) -> Program:
        """Return the whole step with one communicator for gathers and reductions, in the order of equal ranks.

        By itself each rank would take what is ready first, and a slow one something else than the others.
        """
        whole = whole_program(self.lowered, self.graph)
        firsts = np.cumsum([0, *(len(stream.ops) for stream in whole.streams)])
        parts = [np.arange(*firsts[place : place + 2]) for place in range(len(whole.streams))]
        stages = range(0, len(parts), len(STREAMS))
        if any(len(parts[place + GATHER]) and len(parts[place + REDUCE]) for place in stages):
            replay = run_program(whole, policy=self.lowered.policy)
            turn = np.argsort(np.lexsort((replay.ends, replay.starts)))
        else:
            turn = np.arange(firsts[-1])
        order = []
        for place in stages:
            beside = np.concatenate([parts[place + GATHER], parts[place + REDUCE]])
            order += [parts[place + COMPUTE], beside[np.argsort(turn[beside])]]
        moved = np.empty(firsts[-1], dtype=np.int64)
        moved[np.concatenate(order)] = np.arange(len(moved))
        ops, to = whole.ops, moved.tolist()
        streams = tuple(
            Stream(
                STREAMS[COMPUTE] if place % _STREAMS == COMPUTE else DATA,
                place,
                tuple(replace(ops[op], wait=to[ops[op].wait]) if ops[op].wait >= 0 else ops[op] for op in own.tolist()),
            )
            for place, own in enumerate(order)
        )
        return Program(whole.dimensions, whole.calls, streams)

    def _accounts(self, program: Program) -> IntArray:
        """Return the column of `waits` for the time before and in each operation: of the compute streams only."""
        owner = [place for place, stream in enumerate(program.streams) for _ in stream.ops]
        found = []
        for place, op in zip(owner, program.ops, strict=True):
            before = inside = -1
            if place % _STREAMS == COMPUTE and op.wait >= 0:
                source = owner[op.wait] // _STREAMS
                before = WAITS.index(DATA if source == place // _STREAMS else PIPELINE)
            if place % _STREAMS == COMPUTE and op.call >= 0:
                inside = WAITS.index(self._kinds[op.call % len(self._kinds)])
            found.append((before, inside))
        return np.array(found, dtype=np.int64).reshape(-1, 2)


def _group(kind: tuple[str, str]) -> str:
    """Return the group of a communication; parameters are data-parallel."""
    return PIPELINE if kind[0] == SEND else {STREAM: TENSOR, KEYS: CONTEXT}.get(kind[1], DATA)


def _slices(extents: Mapping[str, Sequence[int]], dimensions: int) -> dict[tuple[str, int], IntArray]:
    """Return which places of a stage share a slice of each group along each dimension, by the least of them.

    A degree's number counts its steps along the innermost dimension fastest, as `placement` fills them.
    """
    axes = [(name, dim) for name in ("tp", "sp", "dp") for dim in range(dimensions)]
    sizes = [extents[name][dim] for name, dim in axes]
    places = np.arange(prod(sizes), dtype=np.int64)
    steps = np.cumprod([1, *sizes[:-1]], dtype=np.int64)
    found = {}
    for group, members in MEMBERS.items():
        for dim in range(dimensions):
            along = places.copy()
            for axis, size, step in zip(axes, sizes, steps, strict=True):
                if axis[0] in members and axis[1] == dim:
                    along -= places // step % size * step
            found[group, dim] = along
    return found


def _numbered(rows: Sequence[IntArray]) -> tuple[IntArray, IntArray]:
    """Return the slices of all rows with numbers of their own, and how many members each has."""
    table, members = [], list[IntArray]()
    first = 0
    for row in rows:
        _, number, count = np.unique(row, return_inverse=True, return_counts=True)
        table.append(first + number)
        members.append(count)
        first += len(count)
    return np.array(table, dtype=np.int64), np.concatenate(members).astype(np.int64)
