"""Search by scoring every design: exact where no region of designs has a bound, and a million designs take seconds."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cosmic_opt.errors import LimitError
from cosmic_opt.feasibility.feasible_set import FeasibleSet
from cosmic_opt.search.bounding import NO_LIMIT
from cosmic_opt.search.budget import Budget
from cosmic_opt.search.executor import Engine
from cosmic_opt.search.objective import Objective
from cosmic_opt.search.proof import Block, Proof
from cosmic_opt.search.space import Codes
from cosmic_opt.search.tasks import ScoreDesigns

EVERY_LIMIT = 20_000_000
"""With more designs only an agent searches: scoring them all would take minutes."""
CHUNK = 1 << 16
AHEAD = 8
"""Chunks given to the workers at once."""


@dataclass(frozen=True)
class Scored:
    """A chunk of designs, scored; `values` are of the objective, `allowed` tells which obey the limit on the step."""

    start: int
    codes: Codes
    values: NDArray[Any]
    allowed: NDArray[np.bool_]

    @cached_property
    def ties(self) -> NDArray[np.int64]:
        """The rows of the allowed designs with the best value; none where none is allowed."""
        rows = np.flatnonzero(self.allowed)
        return rows[self.values[rows] == self.values[rows].min()] if len(rows) else rows

    @cached_property
    def best(self) -> int | None:
        """The row of the best allowed design, of equal ones that with the least code; None where none is allowed."""
        if not len(self.ties):
            return None
        return int(self.ties[np.lexsort(self.codes[self.ties].T[::-1])[0]])

    @property
    def block(self) -> Block:
        """The chunk as evidence: every design is a region of its own."""
        best = self.best
        count = len(self.codes)
        return Block(self.start, count, count, None if best is None else int(self.values[best]))


def score_every(
    engine: Engine,
    feasible: FeasibleSet,
    objective: Objective,
    limit_ticks: int,
    budget: Budget,
    *,
    most: int = NO_LIMIT,
    chunk: int | None = None,
) -> Iterator[Scored]:
    """Yield every feasible design, scored, by rank; fewer once the budget is spent or `most` designs are scored.

    The clock is read after each chunk of so many designs (None: `CHUNK`).

    Raises:
        LimitError: there are more than `EVERY_LIMIT`.
    """
    if feasible.size > EVERY_LIMIT:
        raise LimitError(
            f"{feasible.size:,} designs, and the calibrated model scores each: at most {EVERY_LIMIT:,}",
            hint="fix some parameters (--fix), or search with an agent alone (--no-hybrid --agent genetic)",
        )
    stop, size = min(feasible.size, most), chunk or CHUNK
    starts = range(0, stop, size)
    for first in range(0, len(starts), AHEAD):
        chunks = [feasible.span(start, min(start + size, stop)) for start in starts[first : first + AHEAD]]
        scores = engine.map([ScoreDesigns(np.ascontiguousarray(codes)) for codes in chunks])
        for start, codes, scored in zip(starts[first:], chunks, scores, strict=False):
            values = _values(objective, scored.ticks, scored.amounts)
            yield Scored(start, codes, values, scored.ticks <= min(limit_ticks, NO_LIMIT))
            if budget.out_of_time():
                return


def _values(objective: Objective, ticks: NDArray[np.int64], amounts: NDArray[np.int64]) -> NDArray[Any]:
    """Return exact values: machine integers where no product can overflow.

    The amounts are those of the problem's own objective, which are nothing to one of time alone.
    """
    if objective.amount is None:
        return ticks
    largest = int(ticks.max(initial=0)) * int(amounts.max(initial=0))
    return ticks * amounts if largest < 2**62 else objective.values(ticks, amounts)


def proof_of(blocks: list[Block]) -> Proof:
    """Return the evidence that scoring every design leaves: the best value of each chunk."""
    return Proof(None, tuple(blocks), (), 0)


# --- around the optimum ----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Members:
    """The designs up to a value.

    Attributes:
        count: How many.
        uses: Per column, how many of them take each code.
        pool: Up to so many of them as were asked for, drawn at random.
    """

    count: int
    uses: tuple[NDArray[np.int64], ...]
    pool: Codes


def members_within(
    chunks: Iterator[Scored], limit: int | None, sizes: list[int], pool: int, rng: np.random.Generator
) -> Members:
    """Return what the allowed designs with values up to `limit` (None: all that can run) have in common."""
    uses = [np.zeros(size, dtype=np.int64) for size in sizes]
    kept, order = np.zeros((0, len(sizes)), dtype=np.int32), np.zeros(0)
    count = 0
    for chunk in chunks:
        inside = chunk.allowed if limit is None else chunk.allowed & np.asarray(chunk.values <= limit, dtype=bool)
        codes = chunk.codes[inside]
        count += len(codes)
        for column, size in enumerate(sizes):
            uses[column] += np.bincount(codes[:, column], minlength=size)
        kept, order = np.concatenate([kept, codes]), np.concatenate([order, rng.random(len(codes))])
        least = np.argsort(order, kind="stable")[:pool]
        kept, order = kept[least], order[least]
    return Members(count, tuple(uses), kept)


def best_of(chunks: Iterator[Scored], number: int) -> Codes:
    """Return the `number` best allowed designs; of equal value, those of least code."""
    kept: list[tuple[int, tuple[int, ...]]] = []
    worst: float = math.inf
    for chunk in chunks:
        rows = np.flatnonzero(chunk.allowed & np.asarray(chunk.values <= worst, dtype=bool))
        values = chunk.values[rows]
        if len(rows) > number:
            bar = np.partition(values, number - 1)[number - 1]
            rows = rows[np.asarray(values <= bar, dtype=bool)]
        kept += [(int(chunk.values[row]), tuple(chunk.codes[row].tolist())) for row in rows]
        kept = sorted(kept)[:number]
        worst = kept[-1][0] if len(kept) == number else math.inf
    return np.array([codes for _, codes in kept], dtype=np.int32)
