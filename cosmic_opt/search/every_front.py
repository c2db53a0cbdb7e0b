"""The front of step time against structural quantities by scoring every design, where no region has a bound."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from cosmic_opt.feasibility.feasible_set import FeasibleSet
from cosmic_opt.search.budget import Budget
from cosmic_opt.search.every import Scored, score_every
from cosmic_opt.search.executor import Threads
from cosmic_opt.search.objective import Objective
from cosmic_opt.search.space import Codes
from cosmic_opt.search.tasks import Worker

IntArray = NDArray[np.int64]

BLOCK = 1 << 12
"""Designs that are scored between two looks at the clock: a tenth of a second at most."""


class Front(NamedTuple):
    """Points [n, objectives] that nothing beats, ascending, with a design each (of equal points that of least code).

    `scored` designs were scored, of which `allowed` obey the rules on simulated quantities.
    """

    points: IntArray
    codes: Codes
    scored: int
    allowed: int


def front_of_all(
    worker: Worker,
    feasible: FeasibleSet,
    objective: Objective,
    amounts_of: Callable[[Codes], IntArray],
    objectives: int,
    budget: Budget,
) -> Front:
    """Return the front of every feasible design, or of those that were scored before the budget's time was over.

    Raises:
        LimitError: there are too many to score.
    """
    chunks: Iterator[Scored] = iter(())
    if not budget.out_of_time():
        chunks = score_every(Threads(worker, 1), feasible, objective, worker.limit_ticks, budget, chunk=BLOCK)
    return every_front(chunks, amounts_of, objectives, feasible.model.designs)


def every_front(
    chunks: Iterator[Scored], amounts_of: Callable[[Codes], IntArray], objectives: int, columns: int
) -> Front:
    """Return the front of the allowed designs; a chunk's values are its steps, `amounts_of` gives the rest."""
    points, codes = np.zeros((0, objectives), dtype=np.int64), np.zeros((0, columns), dtype=np.int32)
    scored = allowed = 0
    for chunk in chunks:
        scored += len(chunk.codes)
        own = chunk.codes[chunk.allowed]
        if not len(own):
            continue
        allowed += len(own)
        steps = chunk.values[chunk.allowed].astype(np.int64)
        both = np.concatenate([points, np.column_stack([steps, amounts_of(own)])])
        members = np.concatenate([codes, own])
        kept = _undominated(both, members)
        points, codes = both[kept], members[kept]
    return Front(points, codes, scored, allowed)


def _undominated(points: IntArray, codes: Codes) -> NDArray[np.intp]:
    """Return the rows that no other row matches or beats in every objective, in ascending order of the points.

    In that order nothing later beats a row, so a row stays exactly when no row kept before it is as good throughout.
    """
    order = np.lexsort((*codes.T[::-1], *points.T[::-1]))
    if points.shape[1] == 2:
        second = points[order, 1]
        before = np.minimum.accumulate(np.concatenate([[np.iinfo(np.int64).max], second[:-1]]))
        return np.asarray(order[second < before])
    kept: list[int] = []
    front = np.zeros((0, points.shape[1]), dtype=np.int64)
    for row in order:
        if not (front <= points[row]).all(axis=1).any():
            kept.append(int(row))
            front = np.concatenate([front, points[row : row + 1]])
    return np.array(kept, dtype=np.intp)
