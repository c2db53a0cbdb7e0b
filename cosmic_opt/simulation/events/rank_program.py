"""What all ranks run: the streams of every role, the places at which ranks play it, and who meets whom."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from cosmic_opt.errors import LimitError
from cosmic_opt.simulation.events.program import MAX_TICKS, Arrays, IntArray, Program, policy_code

if TYPE_CHECKING:
    from cosmic_opt.simulation.events.rank_kernel import Cast

MOST_EVENTS = 600_000_000
"""Operations, and visits of a chunk of a rank to a dimension, of one run: two minutes."""
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
        """Return the operations and visits of all ranks."""
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
        served: Chunks of ranks that dimensions served.
    """

    starts: IntArray
    ends: IntArray
    waits: IntArray
    busy: IntArray
    position: IntArray
    clock: IntArray
    served: int


def play(
    every: RankProgram, variants: Sequence[Sequence[int]], variant: IntArray, *, policy: str = "fifo", times: bool
) -> RankReplay:
    """Play all ranks until nothing moves; some may be stuck.

    Args:
        every: What runs.
        variants: Ticks of all operations, in one or several ways.
        variant: int64 [ranks], which of them each rank takes.
        policy: Which of the gangs that could start is served first, of `program.POLICIES` or as planned.
        times: Whether to write when each operation starts and ends.

    Raises:
        LimitError: more than MOST_EVENTS events, MOST_BYTES of state, or 13 days.
    """
    from cosmic_opt.simulation.events.rank_kernel import Record, play_ranks  # compiled: loaded where it is used

    _check(every, variants)
    dimensions, streams = every.dimensions, every.streams
    arrays = every.program.arrays()
    arrays.visit[:, 0] %= dimensions
    starts, ends = np.full((2, every.places * times, len(arrays.op) * times), -1, dtype=np.int64)
    position, clock = np.zeros((2, every.ranks * streams), dtype=np.int64)
    waits = np.zeros((every.ranks, every.accounts), dtype=np.int64)
    busy, counter = np.zeros(every.ranks * dimensions, dtype=np.int64), np.zeros(6, dtype=np.int64)
    record = Record(starts, ends, waits, busy, position, clock, counter)
    if not play_ranks(arrays, _cast(every, arrays, variants, variant), policy_code(policy), MAX_TICKS, record):
        raise LimitError("the ranks together take more than 13 days", hint="check the slowdown")
    return RankReplay(
        starts,
        ends,
        waits,
        busy.reshape(every.ranks, dimensions),
        position.reshape(every.ranks, streams),
        clock.reshape(every.ranks, streams),
        int(counter[-1]),
    )


def _check(every: RankProgram, variants: Sequence[Sequence[int]]) -> None:
    """Refuse what takes too long to play, or too much memory."""
    if every.events > MOST_EVENTS:
        raise LimitError(f"{every.events:,} events are more than {MOST_EVENTS:,}", hint=SMALLER)
    if max(max(row, default=0) for row in variants) > MAX_TICKS:
        raise LimitError("an operation takes more than 13 days", hint="a smaller slowdown")
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
