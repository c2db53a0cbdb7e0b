"""Lists of operations of every rank: compute, collectives that block or run beside it, and rendezvous of all members.

A rank runs its operations one after the other. A collective `beside` is issued when the rank comes to it and then runs
in the rank's communicator, one at a time and in order, while the rank goes on. A phase of a chunk starts when all
members have brought that chunk and their ports on its dimension are free at once.

Among chunks that came at one time, the last tie goes to the collective that stands earlier in its members' lists (their
positions in ascending order are compared), then by name. So times depend on how ranks are numbered only where two
collectives agree in all of that.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np

from cosmic_opt.errors import LimitError, SpecError
from cosmic_opt.simulation.events.chunking import check_played
from cosmic_opt.simulation.events.program import MAX_TICKS, Call, Op, Program, Route, Stream, Visit, policy_code
from cosmic_opt.simulation.events.rank_program import RankProgram, RankReplay, play

MOST_OPERATIONS = 2_000_000
"""Half a minute and 1 GB, nearly all of it to make them: 14 us each."""
MOST_DIMENSIONS = 64
SHOWN = 4
"""Stuck ranks that an error names."""


@dataclass(frozen=True, slots=True)
class RankOp:
    """An operation of a rank: `ticks` of its own, or a collective that all `members` (ranks) run together.

    Attributes:
        name: For people; all members of a collective use one name.
        ticks: Of work. A collective without a route occupies dimension 0 for so long, per chunk.
        members: Ranks, empty for work. One may run a collective `beside`, while another one blocks in it.
        after: An operation (rank, position) that ends before this one starts.
        beside: Whether the rank goes on while the collective runs.
        route: Phases of each chunk of a collective, each run by all members.
        chunks: Of a collective.
    """

    name: str
    ticks: int = 0
    members: tuple[int, ...] = ()
    after: tuple[int, int] | None = None
    beside: bool = False
    route: Route = ()
    chunks: int = 1

    @property
    def call(self) -> Call:
        """Return what each chunk of a collective does."""
        return Call((self.route or (Visit(0, self.ticks, 0),),), self.chunks)


@dataclass(frozen=True, slots=True)
class RankTimes:
    """When the operations of every rank start and end, in ticks."""

    starts: tuple[tuple[int, ...], ...]
    ends: tuple[tuple[int, ...], ...]

    @property
    def ticks(self) -> int:
        """Return when the last operation ends."""
        return max((max(own) for own in self.ends if own), default=0)


def run_ranks(programs: Sequence[Sequence[RankOp]], *, policy: str = "fifo") -> RankTimes:
    """Run the operations of all ranks; the n-th collective of the same members, in any order, is one collective.

    Args:
        programs: The operations of each rank.
        policy: Which of the chunks that could start a port serves first, of `program.POLICIES`; or `planned`, by the
            `place` of its visit.

    Raises:
        SpecError: what is no list of operations, an operation that means nothing, members that disagree, or ranks that
            wait for each other for ever.
        LimitError: more than MOST_OPERATIONS operations, a rank with more than 13 days of work, or more than can be
            played.
    """
    policy_code(policy)
    held = _held(programs)
    if sum(len(own) for own in held) > MOST_OPERATIONS:
        raise LimitError(f"more than {MOST_OPERATIONS:,} operations", hint="fold equal ranks, or run fewer steps")
    meetings = _Meetings(held)
    if not held:
        return RankTimes((), ())
    lists = _Lists(held, meetings)
    replay = play(lists.every, [lists.ticks], np.zeros(len(held), dtype=np.int64), policy=policy, times=True)
    starts, ends = replay.starts[0].tolist(), replay.ends[0].tolist()
    if min(ends, default=0) < 0:
        waits = _stuck(held, meetings, lists, replay)
        raise SpecError(f"ranks wait for each other for ever: {waits}", hint=_DEADLOCK)
    return RankTimes(*(tuple(tuple(times[op] for op in own) for own in lists.places) for times in (starts, ends)))


_DEADLOCK = "give every member of a collective that collective, in one order for all, and wait for nothing that waits"


def _held(programs: Sequence[Sequence[RankOp]]) -> list[tuple[RankOp, ...]]:
    """Return the operations of each rank; refuse what is no list of lists of operations."""
    hint = "a list of RankOp for each rank"
    if not isinstance(programs, Sequence):
        raise SpecError(f"the programs are {_shown(programs)}", hint=hint)
    for rank, own in enumerate(programs):
        if not isinstance(own, Sequence):
            raise SpecError(f"rank {rank} runs {_shown(own)}", hint=hint)
        for place, op in enumerate(own):
            if not isinstance(op, RankOp):
                raise SpecError(f"rank {rank}, operation {place} is {_shown(op)}", hint=hint)
    return [tuple(own) for own in programs]


class _Meetings:
    """Checks operations and says which collectives are one, and who has it where.

    Attributes:
        groups: Numbers of the sets of ranks that meet.
        number: Of the collective of a rank's operation, by (rank, position).
        members: By number, the ranks of a collective.
        group: By number, its group.
        where: By number, the operations (rank, position) that are this collective.
        turn: By number, its turn where nothing else decides; ranks may be numbered otherwise.
    """

    def __init__(self, programs: Sequence[tuple[RankOp, ...]]) -> None:
        self.groups: dict[frozenset[int], int] = {}
        self.number: dict[tuple[int, int], int] = {}
        self.members: list[tuple[int, ...]] = []
        self.group: list[int] = []
        self.where: list[list[tuple[int, int]]] = []
        self._sets: dict[tuple[int, ...], frozenset[int]] = {}
        self._seen: dict[int, frozenset[int]] = {}
        known: dict[tuple[int, int], int] = {}
        for rank, own in enumerate(programs):
            seen = Counter[int]()
            for place, op in enumerate(own):
                _check(rank, op, programs)
                if op.members:
                    group = self._group(rank, op, len(programs))
                    key = group, seen[group]
                    seen[group] += 1
                    number = known.setdefault(key, len(known))
                    if number == len(self.where):
                        self.members.append(op.members)
                        self.group.append(group)
                        self.where.append([])
                    self.where[number].append((rank, place))
                    self.number[rank, place] = number
        self._check_alike(programs)
        names = [programs[where[0][0]][where[0][1]].name for where in self.where]
        order = sorted(
            range(len(names)), key=lambda number: (sorted(place for _, place in self.where[number]), names[number])
        )
        self.turn = np.argsort(np.array(order, dtype=np.int64)).tolist()

    def _check_alike(self, programs: Sequence[tuple[RankOp, ...]]) -> None:
        """Refuse a collective that its members call otherwise, or give other ticks, routes or chunks."""
        for members, where in zip(self.members, self.where, strict=True):
            first = programs[where[0][0]][where[0][1]]
            for rank, place in where[1:]:
                op = programs[rank][place]
                if op is not first and _what(op) != _what(first):
                    raise SpecError(
                        f"ranks {_listed(members)} meet in different collectives: {_shown(first.name)} of rank"
                        f" {where[0][0]}, {_shown(op.name)} of rank {rank}",
                        hint="all members run the same collectives, in the same order and of the same ticks",
                    )

    def _group(self, rank: int, op: RankOp, ranks: int) -> int:
        """Return the number of an operation's members; refuse those that are no ranks, or without the rank itself."""
        where = f"rank {rank}, {_shown(op.name)}: members {_listed(op.members)}"
        found = self._seen.get(id(op.members))
        if found is None:
            if set(map(type, op.members)) != {int} or min(op.members) < 0 or max(op.members) >= ranks:
                raise SpecError(where, hint=f"ranks are 0 to {ranks - 1}")
            found = self._seen[id(op.members)] = self._sets.setdefault(op.members, frozenset(op.members))
        if rank not in found or len(found) < len(op.members):
            raise SpecError(where, hint="every member once, the rank itself among them")
        return self.groups.setdefault(found, len(self.groups))


def _what(op: RankOp) -> tuple[object, ...]:
    return op.name, op.ticks, op.route, op.chunks


_FIELDS = (
    ("name", str, "a text"),
    ("members", tuple, "a tuple of ranks, () for work"),
    ("beside", bool, "True or False"),
    ("route", tuple, "a tuple of Visit"),
)


def _check(rank: int, op: RankOp, programs: Sequence[tuple[RankOp, ...]]) -> None:
    """Refuse an operation that means nothing."""
    where = f"rank {rank}, {_shown(op.name)}"
    for name, kind, hint in _FIELDS:
        if type(getattr(op, name)) is not kind:
            raise SpecError(f"{where} has {name} {_shown(getattr(op, name))}", hint=hint)
    if type(op.ticks) is not int or op.ticks < 0:
        raise SpecError(f"{where} takes {_shown(op.ticks)} ticks", hint="a whole number, not negative")
    if type(op.chunks) is not int or not 1 <= op.chunks <= MAX_TICKS:
        raise SpecError(f"{where} has {_shown(op.chunks)} chunks", hint="a whole number of at least 1")
    if not op.members and (op.beside or op.route or op.chunks != 1):
        raise SpecError(f"{where} is work, which has no chunks and blocks", hint="give it members")
    check_played(op.chunks)
    if op.route and op.ticks:
        raise SpecError(f"{where} has ticks and a route", hint="give the ticks of each phase")
    for visit in op.route:
        if not isinstance(visit, Visit) or not all(type(value) is int and 0 <= value <= MAX_TICKS for value in visit):
            raise SpecError(f"{where} visits {_shown(visit)}", hint="a Visit of whole numbers from 0 to 2^60")
        if visit.dim >= MOST_DIMENSIONS:
            raise SpecError(f"{where} visits dimension {visit.dim}", hint=f"dimensions 0 to {MOST_DIMENSIONS - 1}")
    if op.after is not None and not _is_place(op.after, programs):
        raise SpecError(f"{where} waits for operation {_shown(op.after)}", hint="(rank, position) of an operation")


def _is_place(after: object, programs: Sequence[tuple[RankOp, ...]]) -> bool:
    if type(after) is not tuple or len(after) != 2 or not all(type(value) is int for value in after):
        return False
    rank, place = after
    return bool(0 <= rank < len(programs) and 0 <= place < len(programs[rank]))


@dataclass
class _Lists:
    """The streams of all ranks: operations in turn, and collectives beside them.

    Attributes:
        programs: The operations of each rank.
        meetings: Who meets whom in them.
        places: By rank, where its operations are among those of all streams.
        rows: The groups that run the visits of all calls.
        every: What runs.
    """

    programs: Sequence[tuple[RankOp, ...]]
    meetings: _Meetings
    places: list[list[int]] = field(default_factory=list)
    rows: list[int] = field(default_factory=list)

    def __post_init__(self) -> None:
        first = 0
        for own in self.programs:
            waiting = [bool(place and op.beside and op.after) for place, op in enumerate(own)]
            turns = sum(not op.beside for op in own)
            places, turn, beside = list[int](), first, first + turns
            for op, twice in zip(own, waiting, strict=True):
                beside += twice
                places.append(beside if op.beside else turn)
                turn, beside = (turn, beside + 1) if op.beside else (turn + 1, beside)
            self.places.append(places)
            first = beside
        dimensions = 1 + max((visit.dim for own in self.programs for op in own for visit in op.route), default=0)
        streams, calls = list[Stream](), list[Call]()
        for rank in range(len(self.programs)):
            streams += self._streams(rank, dimensions, calls)
        program = Program(len(self.programs) * dimensions, tuple(calls), tuple(streams))
        self.ticks = [op.ticks for op in program.ops]
        self.every = self._every(program)

    def _streams(self, rank: int, dimensions: int, calls: list[Call]) -> Iterator[Stream]:
        """Yield the two streams of a rank; `calls` get its own ones, which use dimensions of its own."""
        own, known, last = self.programs[rank], dict[tuple[int, Route, int, int], int](), -1
        turns, besides = list[Op](), list[Op]()
        for place, op in enumerate(own):
            call = -1
            if op.members:
                group = self.meetings.group[self.meetings.number[rank, place]]
                key = group, op.route, op.ticks, op.chunks
                if key not in known:
                    known[key] = len(calls)
                    self.rows += [group] * len(op.call.routes[0])
                    (route,) = op.call.routes
                    moved = tuple(visit._replace(dim=visit.dim + rank * dimensions) for visit in route)
                    calls.append(Call((moved,), op.chunks))
                call = known[key]
            wait = self.places[op.after[0]][op.after[1]] if op.after is not None else -1
            ticks = 0 if op.members else op.ticks
            if op.beside:
                if place and op.after is not None:
                    besides.append(Op("issue", wait=last))
                besides.append(Op(op.name, ticks, call, wait if op.after is not None else last))
            else:
                last = self.places[rank][place]
                turns.append(Op(op.name, ticks, call, wait))
        yield Stream("operations", 2 * rank, tuple(turns))
        yield Stream("beside", 2 * rank + 1, tuple(besides))

    def _every(self, program: Program) -> RankProgram:
        meet = np.full(len(program.ops), -1, dtype=np.int64)
        for (rank, place), number in self.meetings.number.items():
            meet[self.places[rank][place]] = self.meetings.turn[number]
        groups = list(self.meetings.groups)
        return RankProgram(
            program=program,
            roles=len(self.programs),
            places=1,
            slices=np.arange(len(groups), dtype=np.int64).reshape(-1, 1),
            members=np.array([len(group) for group in groups], dtype=np.int64),
            rows=np.array(self.rows, dtype=np.int64),
            meet=meet,
            account=np.full((len(program.ops), 2), -1, dtype=np.int64),
            accounts=0,
        )


def _stuck(programs: Sequence[tuple[RankOp, ...]], meetings: _Meetings, lists: _Lists, replay: RankReplay) -> str:
    """Say what the first ranks that are stuck wait for."""
    starts, ends = replay.starts[0], replay.ends[0]
    texts, more = list[str](), 0
    for rank, own in enumerate(programs):
        stuck = [place for place, op in enumerate(lists.places[rank]) if ends[op] < 0]
        stuck.sort(key=lambda place: own[place].beside)
        if not stuck:
            continue
        if len(texts) == SHOWN:
            more += 1
            continue
        op, cause = own[stuck[0]], f"for operation {own[stuck[0]].after}"
        if op.members and starts[lists.places[rank][stuck[0]]] >= 0:
            where = meetings.where[meetings.number[rank, stuck[0]]]
            come = {other for other, place in where if starts[lists.places[other][place]] >= 0}
            cause = f"for ranks {_listed([member for member in op.members if member not in come])}"
        texts.append(f"rank {rank} at {_shown(op.name)} {cause}")
    return "; ".join(texts) + (f"; {more} more" if more else "")


def _shown(value: object) -> str:
    """Return what a value is, for an error."""
    try:
        return f"{value!r:.60}"
    except ValueError:
        return "a number of thousands of digits"


def _listed(ranks: Sequence[int]) -> str:
    return ", ".join(map(_shown, ranks[:8])) + (", ..." if len(ranks) > 8 else "")
