"""Every rank by itself: operations that differ from rank to rank, and collectives that wait for all their members.

A rank runs its operations one after the other. A collective starts when its last member has come and then has the
network to itself, so it takes its time alone; chunks of different collectives never meet here, and what overlaps
compute is refused. Where all ranks are alike, this gives the times of the folded step.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from itertools import product
from math import prod

from cosmic_opt.errors import LimitError, SpecError
from cosmic_opt.simulation.events.lower import SEND, Lowered
from cosmic_opt.simulation.events.passes import COMPUTE, STREAMS, Builder, whole_builder
from cosmic_opt.simulation.events.spread import MEMBERS
from cosmic_opt.workloads.graph import CONTEXT, DATA, KEYS, STREAM, TENSOR, TrainingGraph

MOST_OPERATIONS = 5_000_000
"""Half a minute and 1 GB at most: 1 to 3 us each to make, 1 us to run."""
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
    """Run the operations of all ranks; the n-th collective of the same members, in any order, is one collective.

    Raises:
        SpecError: an operation that means nothing, members that disagree, or ranks that wait for each other for ever.
        LimitError: more than MOST_OPERATIONS operations.
    """
    held = [tuple(own) for own in programs]
    return _Ranks(held, _checked(held)).run()


@dataclass(slots=True)
class _Group:
    """Ranks that run collectives together: who waits for the rest, since when the last of them has, and for what.

    A member runs nothing else meanwhile, so there is one collective at a time.
    """

    members: tuple[int, ...]
    ranks: frozenset[int]
    come: list[int] = field(default_factory=list)
    latest: int = 0
    op: RankOp | None = None
    agree: bool = True


class _Ranks:
    """The state of a run: what each rank has run, and who waits where. No order of the ranks changes a time."""

    def __init__(self, programs: Sequence[tuple[RankOp, ...]], groups: Mapping[int, _Group]) -> None:
        self.programs = programs
        self.groups = groups
        self.starts: list[list[int]] = [[] for _ in programs]
        self.ends: list[list[int]] = [[] for _ in programs]
        self.listeners: list[list[tuple[int, int]]] = [[] for _ in programs]
        self.moving = list(range(len(programs)))

    def run(self) -> RankTimes:
        while self.moving:
            self._advance(self.moving.pop())
        stuck = [rank for rank, own in enumerate(self.programs) if len(self.ends[rank]) < len(own)]
        if stuck:
            raise SpecError(f"ranks wait for each other for ever: {self._waits(stuck)}", hint=_DEADLOCK)
        return RankTimes(tuple(map(tuple, self.starts)), tuple(map(tuple, self.ends)))

    def _advance(self, rank: int) -> None:
        """Run what a rank can by itself, up to its next collective."""
        own, starts, ends = self.programs[rank], self.starts[rank], self.ends[rank]
        now = ends[-1] if ends else 0
        for place in range(len(ends), len(own)):
            op = own[place]
            if op.after is not None:
                other, needed = op.after
                if len(self.ends[other]) <= needed:
                    self.listeners[other].append((needed, rank))
                    break
                now = max(now, self.ends[other][needed])
            if op.members:
                self._meet(rank, op, now)
                break
            starts.append(now)
            now += op.ticks
            ends.append(now)
        self._wake(rank)

    def _meet(self, rank: int, op: RankOp, begin: int) -> None:
        """Come to a collective; the last member ends it for all."""
        group = self.groups[id(op.members)]
        if group.op is None:
            group.op, group.latest = op, begin
        elif begin > group.latest:
            group.latest = begin
        if op is not group.op and (op.name, op.ticks) != (group.op.name, group.op.ticks):
            group.agree = False
        group.come.append(rank)
        if len(group.come) < len(group.members):
            return
        if not group.agree:
            names = {self.programs[member][len(self.ends[member])].name for member in group.members}
            raise SpecError(
                f"ranks {_listed(group.members)} meet in different collectives: {sorted(names)}",
                hint="all members run the same collectives in the same order",
            )
        start, end = group.latest, group.latest + op.ticks
        come, group.come, group.op = group.come, [], None
        for member in come:
            self.starts[member].append(start)
            self.ends[member].append(end)
            self._wake(member)
        self.moving += come

    def _wake(self, rank: int) -> None:
        """Let the ranks go on that waited for an operation that this rank has ended."""
        waiting = self.listeners[rank]
        if waiting:
            done = len(self.ends[rank])
            self.moving += [other for needed, other in waiting if needed < done]
            self.listeners[rank] = [(needed, other) for needed, other in waiting if needed >= done]

    def _waits(self, stuck: Sequence[int]) -> str:
        texts = []
        for rank in stuck[:SHOWN]:
            op = self.programs[rank][len(self.ends[rank])]
            cause = f"for operation {op.after}"
            if op.members:
                come = set(self.groups[id(op.members)].come)
                cause = f"for ranks {_listed([member for member in op.members if member not in come])}"
            texts.append(f"rank {rank} at {op.name!r} {cause}")
        return "; ".join(texts) + (f"; {len(stuck) - SHOWN} more" if len(stuck) > SHOWN else "")


_DEADLOCK = "give every member of a collective that collective, in one order for all"


def _listed(ranks: Sequence[int]) -> str:
    return ", ".join(map(str, ranks[:8])) + (", ..." if len(ranks) > 8 else "")


def _checked(programs: Sequence[tuple[RankOp, ...]]) -> dict[int, _Group]:
    """Return the groups by the identity of the members that operations list; one group per set of ranks."""
    if sum(len(own) for own in programs) > MOST_OPERATIONS:
        raise LimitError(
            f"more than {MOST_OPERATIONS:,} operations", hint="fold equal ranks, or run fewer micro-batches"
        )
    groups, known = dict[int, _Group](), dict[frozenset[int], _Group]()
    for rank, own in enumerate(programs):
        for op in own:
            if type(op.ticks) is not int or op.ticks < 0:
                hint = "a whole number, not negative"
                raise SpecError(f"rank {rank}, {op.name!r} takes {op.ticks!r} ticks", hint=hint)
            if op.members:
                group = groups.get(id(op.members))
                if group is None or rank not in group.ranks:
                    _check_members(rank, op, len(programs))
                if group is None:
                    ranks = frozenset(op.members)
                    groups[id(op.members)] = known.setdefault(ranks, _Group(op.members, ranks))
            if op.after is not None and not (
                0 <= op.after[0] < len(programs) and 0 <= op.after[1] < len(programs[op.after[0]])
            ):
                where = f"rank {rank}, {op.name!r}"
                raise SpecError(f"{where} waits for operation {op.after}", hint="(rank, position) of an operation")
    return groups


def _check_members(rank: int, op: RankOp, ranks: int) -> None:
    """Refuse a collective whose members are not ranks, once each, the rank itself among them."""
    where = f"rank {rank}, {op.name!r}: members {_listed(op.members)}"
    if rank not in op.members or len(set(op.members)) < len(op.members):
        raise SpecError(where, hint="every member once, the rank itself among them")
    if any(not 0 <= member < ranks for member in op.members):
        raise SpecError(where, hint=f"ranks are 0 to {ranks - 1}")


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
    if prod(sizes) * sum(len(own) for own in builder.streams) > MOST_OPERATIONS:
        raise LimitError(f"more than {MOST_OPERATIONS:,} operations", hint="run fewer ranks or micro-batches")
    copies = _Copies(lowered, builder, sizes)
    return tuple(
        copies.operations(stage, place, slowdown.get(stage * prod(sizes) + _number(place, sizes), 1))
        for stage, place in product(range(len(graph.stages)), _places(sizes))
    )


class _Copies:
    """Makes the operations of every rank of a stage; ranks share equal ones, so that a large step fits in memory."""

    def __init__(self, lowered: Lowered, builder: Builder, sizes: Sequence[int]) -> None:
        self.lowered = lowered
        self.builder = builder
        self.sizes = sizes
        self.kinds = list(lowered.call_places)
        self.members: dict[tuple[int, ...], tuple[int, ...]] = {}
        self.made: dict[tuple[int, int, Fraction | int, int], RankOp] = {}

    def operations(self, stage: int, place: tuple[int, ...], factor: Fraction | int) -> tuple[RankOp, ...]:
        """Return the operations of the rank at `place` of a stage, whose compute takes `factor` times as long."""
        number, size = _number(place, self.sizes), prod(self.sizes)
        groups = {kind: self._group(kind, stage, place) for kind in self.kinds}
        found = []
        for index, (name, ticks, call, wait) in enumerate(self.builder.streams[stage * len(STREAMS) + COMPUTE]):
            kind = self.kinds[call % len(self.kinds)] if call >= 0 else None
            members = groups[kind] if kind is not None else ()
            key = stage, index, factor, id(members)
            if wait is None and key in self.made:
                found.append(self.made[key])
                continue
            after = None
            if wait is not None:
                stream, position = self.builder.places[wait]
                after = stream // len(STREAMS) * size + number, position
            own = round(ticks * factor) if kind is None else self.lowered.alone_ticks[call % len(self.kinds)]
            self.made[key] = RankOp(name, own, members, after)
            found.append(self.made[key])
        return tuple(found)

    def _group(self, kind: tuple[str, str], stage: int, place: tuple[int, ...]) -> tuple[int, ...]:
        """Return the ranks that run a collective with the one at `place`: one object for all of them."""
        if kind[0] == SEND:
            return ()
        along = MEMBERS[{STREAM: TENSOR, KEYS: CONTEXT}.get(kind[1], DATA)]
        key = stage, *(-1 if axis in along else at for axis, at in zip(_AXES, place, strict=True))
        if key not in self.members:
            ways = [range(size) if at < 0 else (at,) for at, size in zip(key[1:], self.sizes, strict=True)]
            self.members[key] = tuple(stage * prod(self.sizes) + _number(other, self.sizes) for other in product(*ways))
        return self.members[key]


_AXES = ("dp", "sp", "tp")
"""The degrees of a stage, the slowest first."""


def _places(sizes: Sequence[int]) -> Iterator[tuple[int, ...]]:
    yield from product(*(range(size) for size in sizes))


def _number(place: Sequence[int], sizes: Sequence[int]) -> int:
    number = 0
    for at, size in zip(place, sizes, strict=True):
        number = number * size + at
    return number
