"""What all ranks run: the streams of every role, the places at which ranks play it, and who meets whom."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from cosmic_opt.errors import LimitError
from cosmic_opt.simulation.events.program import MAX_TICKS, Arrays, IntArray, Program, policy_code

if TYPE_CHECKING:
    from cosmic_opt.simulation.events.rank_kernel import Cast, Record

MOST_EVENTS = 600_000_000
"""Of one run: 2 to 4.5 minutes, at 5.0 to 2.3 million a second."""
EVENTS_AT_A_TIME = 500_000
"""Events between two looks at what else is to be done, Ctrl-C for one: a fifth of a second."""
MOST_BYTES = 4 * 10**9
"""Of the kernel's state."""
SMALLER = "fewer ranks, micro-batches or chunks; without slow ranks the folded step is the same"


@dataclass(frozen=True, eq=False)
class RankProgram:
    """Roles and ranks: rank = role * places + place.

    Attributes:
        program: The streams of every role, as many for each, in lanes and with dimensions of their own.
        roles: How many.
        places: Ranks of each role.
        slices: int64 [rows, places], the slice of a group that a rank runs a phase with.
        members: int64 [slices], how many ranks are in each.
        rows: int64 [visits of the program], the row of `slices`; -1 where a rank is alone.
        meet: int64 [ops], which collective a call is; the same for all members.
        account: int64 [ops, 2], where the time before an operation, and in it, is booked; -1 for nowhere.
        accounts: How many of these there are.
    """

    program: Program
    roles: int
    places: int
    slices: IntArray
    members: IntArray
    rows: IntArray
    meet: IntArray
    account: IntArray
    accounts: int

    @property
    def ranks(self) -> int:
        """Return how many ranks there are."""
        return self.roles * self.places

    @property
    def streams(self) -> int:
        """Return how many streams a rank has."""
        return len(self.program.streams) // self.roles

    @property
    def dimensions(self) -> int:
        """Return how many ports a rank has."""
        return self.program.dimensions // self.roles

    @property
    def most(self) -> int:
        """Return the chunks of a call at most."""
        return max((call.chunks for call in self.program.calls), default=1)

    @property
    def gangs(self) -> int:
        """Return how many chunks all ranks can have under way: one call in each stream that has any."""
        calling = [place for place, stream in enumerate(self.program.streams) if any(op.call >= 0 for op in stream.ops)]
        busiest = max(Counter(place // self.streams for place in calling).values(), default=0)
        return max(1, self.ranks * busiest * self.most)

    @property
    def events(self) -> int:
        """Return the operations of all ranks, and the phases of chunks that each takes part in."""
        visits = [call.visits for call in self.program.calls]
        return self.places * sum(1 + (visits[op.call] if op.call >= 0 else 0) for op in self.program.ops)


@dataclass(frozen=True, eq=False)
class RankReplay:
    """What happened, in ticks from the start.

    Attributes:
        starts, ends: int64 [places, ops], empty unless asked for; -1 for what never started or ended.
        waits: int64 [ranks, accounts].
        busy: int64 [ranks, dimensions], how long each port served.
        position: int64 [ranks, streams], the operation that each stopped at, or one after its last.
        clock: int64 [ranks, streams], when the last operation of each ended.
        events: Operations that ended, and phases of chunks of ranks that were served.
    """

    starts: IntArray
    ends: IntArray
    waits: IntArray
    busy: IntArray
    position: IntArray
    clock: IntArray
    events: int


Progress = Callable[[int], None]
"""Is told, several times a second, how many events are over."""


def play(
    every: RankProgram,
    variants: Sequence[Sequence[int]],
    variant: IntArray,
    *,
    policy: str = "fifo",
    times: bool,
    progress: Progress | None = None,
) -> RankReplay:
    """Play all ranks until nothing moves; some may be stuck.

    Args:
        every: What runs.
        variants: Ticks of all operations, in one or several ways.
        variant: int64 [ranks], which of them each rank takes.
        policy: Which of the gangs that could start is served first, of `program.POLICIES` or as planned.
        times: Whether to write when each operation starts and ends.
        progress: Is told how far it is.

    Raises:
        LimitError: more than MOST_EVENTS events, MOST_BYTES of state, or 13 days.
    """
    from cosmic_opt.simulation.events.rank_kernel import EVENTS, Record  # compiled: loaded where it is used

    _check(every, variants)
    dimensions, streams = every.dimensions, every.streams
    arrays = every.program.arrays(ranks=every.roles)
    arrays.visit[:, 0] %= dimensions
    starts, ends = np.full((2, every.places * times, len(arrays.op) * times), -1, dtype=np.int64)
    position, clock = np.zeros((2, every.ranks * streams), dtype=np.int64)
    waits = np.zeros((every.ranks, every.accounts), dtype=np.int64)
    busy, counter = np.zeros(every.ranks * dimensions, dtype=np.int64), np.zeros(EVENTS + 1, dtype=np.int64)
    record = Record(starts, ends, waits, busy, position, clock, counter)
    _run(arrays, _cast(every, arrays, variants, variant), policy_code(policy), record, progress)
    return RankReplay(
        starts,
        ends,
        waits,
        busy.reshape(every.ranks, dimensions),
        position.reshape(every.ranks, streams),
        clock.reshape(every.ranks, streams),
        int(counter[EVENTS]),
    )


def _run(arrays: Arrays, cast: Cast, policy: int, record: Record, progress: Progress | None) -> None:
    """Let the kernel play a slice of events at a time: between two of them Python sees Ctrl-C."""
    from cosmic_opt.simulation.events.rank_kernel import EVENTS, LATE, PAUSED, begin_ranks, play_ranks

    state, gone = begin_ranks(arrays, cast, record), PAUSED
    while gone == PAUSED:
        gone = play_ranks(arrays, cast, *state, policy, MAX_TICKS, EVENTS_AT_A_TIME, record)
        if progress is not None:
            progress(int(record.counter[EVENTS]))
    if gone == LATE:
        raise LimitError("the ranks together take more than 13 days", hint="less work, or a smaller slowdown")


def _check(every: RankProgram, variants: Sequence[Sequence[int]]) -> None:
    """Refuse what takes too long to play, or too much memory."""
    if every.events > MOST_EVENTS:
        raise LimitError(f"{every.events:,} events are more than {MOST_EVENTS:,}", hint=SMALLER)
    if max(max(row, default=0) for row in variants) > MAX_TICKS:
        raise LimitError("an operation takes more than 13 days", hint="less work, or a smaller slowdown")
    state = every.ranks * (every.streams * (9 * every.most + 7) + 4 * every.dimensions) + 18 * every.gangs
    if 8 * state > MOST_BYTES:
        raise LimitError(f"{8 * state / 1e9:,.1f} GB are needed to play every rank", hint=SMALLER)


def _cast(every: RankProgram, arrays: Arrays, variants: Sequence[Sequence[int]], variant: IntArray) -> Cast:
    """Return the program as the kernel reads it, beside the arrays of its streams."""
    from cosmic_opt.simulation.events.rank_kernel import Cast

    waiter, first = _waiters(arrays.op[:, 2])
    return Cast(
        every.places,
        every.streams,
        every.dimensions,
        every.most,
        every.gangs,
        np.array(variants, dtype=np.int64).reshape(len(variants), len(arrays.op)),
        variant,
        every.meet,
        every.rows,
        every.slices,
        every.members,
        np.repeat(np.arange(len(arrays.lane)), np.diff(arrays.stream)),
        waiter,
        first,
        every.account,
    )


def _waiters(wait: IntArray) -> tuple[IntArray, IntArray]:
    """Return which operations wait for others, by the one waited for, and where each one's begin."""
    waiting = np.flatnonzero(wait >= 0)
    waiter = waiting[np.argsort(wait[waiting], kind="stable")]
    counts = np.bincount(wait[waiting], minlength=len(wait))
    return waiter, np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
