"""Every rank by itself: operations that differ from rank to rank, and collectives that wait for all their members.

A rank runs its operations one after the other. A collective starts when its last member has come and then has the
network to itself, so it takes its time alone; chunks of different collectives never meet here, and what overlaps
compute is refused. Where all ranks are alike, this gives the times of the folded step.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import product
from math import prod

from cosmic_opt.errors import LimitError, SpecError
from cosmic_opt.simulation.events.lower import SEND, Lowered
from cosmic_opt.simulation.events.passes import COMPUTE, STREAMS, whole_builder
from cosmic_opt.simulation.events.spread import MEMBERS
from cosmic_opt.workloads.graph import CONTEXT, DATA, KEYS, STREAM, TENSOR, TrainingGraph

MOST_OPERATIONS = 5_000_000
SHOWN = 4
"""Stuck ranks that an error names."""


@dataclass(frozen=True, slots=True)
class RankOp:
    """An operation of a rank: `ticks` of its own, or a collective of `ticks` that all `members` (ranks) run together.

    `after` is an operation (rank, position) that ends before this one starts.
    """

    name: str
    ticks: int = 0
    members: tuple[int, ...] = ()
    after: tuple[int, int] | None = None


@dataclass(frozen=True, slots=True)
class RankTimes:
    """When the operations of every rank start and end, in ticks."""

    starts: tuple[tuple[int, ...], ...]
    ends: tuple[tuple[int, ...], ...]

    @property
    def ticks(self) -> int:
        """Return when the last operation ends."""
        return max((own[-1] for own in self.ends if own), default=0)


def run_ranks(programs: Sequence[Sequence[RankOp]]) -> RankTimes:
    """Run the operations of all ranks; the n-th collective of the same members is one collective.

    Raises:
        SpecError: an operation that means nothing, members that disagree, or ranks that wait for each other for ever.
    """
    _check(programs)
    return _Ranks(programs).run()


class _Ranks:
    """The state of a run: which operation each rank is at, and who has come to which collective."""

    def __init__(self, programs: Sequence[Sequence[RankOp]]) -> None:
        self.programs = programs
        self.starts: list[list[int]] = [[] for _ in programs]
        self.ends: list[list[int]] = [[] for _ in programs]
        self.met: dict[tuple[tuple[int, ...], int], dict[int, int]] = defaultdict(dict)
        self.calls: list[dict[tuple[int, ...], int]] = [defaultdict(int) for _ in programs]
        self.listeners: dict[tuple[int, int], list[int]] = defaultdict(list)
        for rank, own in enumerate(programs):
            for op in own:
                if op.after is not None:
                    self.listeners[op.after].append(rank)

    def run(self) -> RankTimes:
        moving = list(range(len(self.programs)))
        while moving:
            moving = sorted({other for rank in moving for other in self._advance(rank)})
        stuck = [rank for rank, own in enumerate(self.programs) if len(self.ends[rank]) < len(own)]
        if stuck:
            raise SpecError(f"ranks wait for each other for ever: {self._waits(stuck)}", hint=_DEADLOCK)
        return RankTimes(tuple(map(tuple, self.starts)), tuple(map(tuple, self.ends)))

    def _advance(self, rank: int) -> Iterator[int]:
        """Run what a rank can; yield the ranks that may go on because of it."""
        while len(self.ends[rank]) < len(self.programs[rank]):
            op = self.programs[rank][len(self.ends[rank])]
            begin = self.ends[rank][-1] if self.ends[rank] else 0
            if op.after is not None:
                other, place = op.after
                if len(self.ends[other]) <= place:
                    return
                begin = max(begin, self.ends[other][place])
            if op.members:
                yield from self._meet(rank, op, begin)
                return
            self._end(rank, begin, begin + op.ticks)
            yield from self._waiting_for(rank)

    def _meet(self, rank: int, op: RankOp, begin: int) -> Iterator[int]:
        """Come to a collective; the last member ends it for all."""
        number = self.calls[rank][op.members]
        come = self.met[op.members, number]
        come[rank] = begin
        if len(come) < len(op.members):
            return
        names = {self.programs[member][len(self.ends[member])] for member in op.members}
        if len({(one.name, one.ticks) for one in names}) > 1:
            raise SpecError(
                f"ranks {_listed(op.members)} meet in different collectives: {sorted(one.name for one in names)}",
                hint="all members run the same collectives in the same order",
            )
        start = max(come.values())
        for member in op.members:
            self.calls[member][op.members] += 1
            self._end(member, start, start + op.ticks)
        del self.met[op.members, number]
        for member in op.members:
            yield member
            yield from self._waiting_for(member)

    def _waiting_for(self, rank: int) -> Iterator[int]:
        """Yield the ranks whose next operation waits for the one that this rank has just ended."""
        done = rank, len(self.ends[rank]) - 1
        yield from self.listeners.get(done, ())

    def _end(self, rank: int, start: int, end: int) -> None:
        self.starts[rank].append(start)
        self.ends[rank].append(end)

    def _waits(self, stuck: Sequence[int]) -> str:
        texts = []
        for rank in stuck[:SHOWN]:
            op = self.programs[rank][len(self.ends[rank])]
            missing = [member for member in op.members if member not in self.met.get(self._key(rank, op), {})]
            cause = f"for ranks {_listed(missing)}" if op.members else f"for operation {op.after}"
            texts.append(f"rank {rank} at {op.name!r} {cause}")
        return "; ".join(texts) + (f"; {len(stuck) - SHOWN} more" if len(stuck) > SHOWN else "")

    def _key(self, rank: int, op: RankOp) -> tuple[tuple[int, ...], int]:
        return op.members, self.calls[rank][op.members]


_DEADLOCK = "give every member of a collective that collective, in one order for all"


def _listed(ranks: Sequence[int]) -> str:
    return ", ".join(map(str, ranks[:8])) + (", ..." if len(ranks) > 8 else "")


def _check(programs: Sequence[Sequence[RankOp]]) -> None:
    if sum(len(own) for own in programs) > MOST_OPERATIONS:
        raise LimitError(
            f"more than {MOST_OPERATIONS:,} operations", hint="fold equal ranks, or run fewer micro-batches"
        )
    for rank, own in enumerate(programs):
        for op in own:
            where = f"rank {rank}, {op.name!r}"
            if type(op.ticks) is not int or op.ticks < 0:
                raise SpecError(f"{where} takes {op.ticks!r} ticks", hint="a whole number, not negative")
            if op.members and (rank not in op.members or len(set(op.members)) < len(op.members)):
                raise SpecError(f"{where}: members {op.members}", hint="every member once, the rank itself among them")
            if any(not 0 <= member < len(programs) for member in op.members):
                raise SpecError(f"{where}: members {op.members}", hint=f"ranks are 0 to {len(programs) - 1}")
            if op.after is not None and not (
                0 <= op.after[0] < len(programs) and 0 <= op.after[1] < len(programs[op.after[0]])
            ):
                raise SpecError(f"{where} waits for operation {op.after}", hint="(rank, position) of an operation")


def training_ranks(
    lowered: Lowered,
    graph: TrainingGraph,
    degrees: Mapping[str, int],
    slowdown: Mapping[int, Fraction | int] | None = None,
) -> tuple[tuple[RankOp, ...], ...]:
    """Return the operations of every rank of a training step, the optimizer left out.

    Rank numbers count tp fastest, then sp, dp and the pipeline stage.

    Args:
        lowered: Ticks of the design.
        graph: Of the step; stages may hold any layers.
        degrees: dp, tp and sp.
        slowdown: How many times as long a rank's compute takes, by rank; 1 where it is not given.

    Raises:
        SpecError: gradients or weights move beside compute, or a slowdown that means nothing.
        LimitError: too many operations.
    """
    slowdown = slowdown or {}
    sizes = [degrees[name] for name in _AXES]
    ranks = prod(sizes) * len(graph.stages)
    for rank, factor in slowdown.items():
        if not 0 <= rank < ranks or not isinstance(factor, int | Fraction) or factor <= 0:
            raise SpecError(f"rank {rank} is slower by {factor!r}", hint=f"ranks 0 to {ranks - 1}, a positive factor")
    builder = whole_builder(lowered, graph)
    if any(own and place % len(STREAMS) != COMPUTE for place, own in enumerate(builder.streams)):
        raise SpecError(
            "data-parallel traffic beside compute is not run rank by rank",
            hint="set overlap_gradients=0 and overlap_weights=0",
        )
    if ranks * max(len(own) for own in builder.streams) > MOST_OPERATIONS:
        raise LimitError(f"more than {MOST_OPERATIONS:,} operations", hint="run fewer ranks or micro-batches")
    kinds, found = list(lowered.call_places), []
    for stage, place in product(range(len(graph.stages)), _places(sizes)):
        rank = stage * prod(sizes) + _number(place, sizes)
        own = []
        for name, ticks, call, wait in builder.streams[stage * len(STREAMS) + COMPUTE]:
            after = None
            if wait is not None:
                stream, position = builder.places[wait]
                after = stream // len(STREAMS) * prod(sizes) + _number(place, sizes), position
            if call < 0:
                own.append(RankOp(name, round(ticks * slowdown.get(rank, 1)), after=after))
                continue
            kind = kinds[call % len(kinds)]
            members = () if kind[0] == SEND else _members(kind[1], stage, place, sizes)
            own.append(RankOp(name, lowered.alone_ticks[call % len(kinds)], members, after))
        found.append(tuple(own))
    return tuple(found)


_AXES = ("dp", "sp", "tp")
"""The degrees of a stage, the slowest first."""


def _places(sizes: Sequence[int]) -> Iterator[tuple[int, ...]]:
    yield from product(*(range(size) for size in sizes))


def _number(place: Sequence[int], sizes: Sequence[int]) -> int:
    number = 0
    for at, size in zip(place, sizes, strict=True):
        number = number * size + at
    return number


def _members(buffer: str, stage: int, place: Sequence[int], sizes: Sequence[int]) -> tuple[int, ...]:
    """Return the ranks that run a buffer's collective with the one at `place`."""
    along = MEMBERS[{STREAM: TENSOR, KEYS: CONTEXT}.get(buffer, DATA)]
    ways = [range(size) if axis in along else (at,) for axis, at, size in zip(_AXES, place, sizes, strict=True)]
    return tuple(stage * prod(sizes) + _number(other, sizes) for other in product(*ways))
