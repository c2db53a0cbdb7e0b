"""Prove over a whole search space that some columns cannot change the objective, or find where they might.

The objective is composed of a region's prepared row and one vector of ticks per dimension, times an amount. Where
designs that differ only in the columns in question have equal rows, vectors and amounts, their values are equal. The
converse does not hold (unequal phases may both hide behind compute): a difference is a place to look, not an answer.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from cosmic_opt.ir.check import check
from cosmic_opt.search.bounding import BLOCK
from cosmic_opt.search.budget import Budget
from cosmic_opt.search.frontier import Frontier
from cosmic_opt.search.kernel import First, first_difference
from cosmic_opt.search.kernel.agree import NOWHERE
from cosmic_opt.search.kernel.arrays import SLOTS
from cosmic_opt.search.owners import STRUCTURAL
from cosmic_opt.search.space import DimensionOptions
from cosmic_opt.simulation.analytical.layout import Whole

IntArray = NDArray[np.int64]
Codes = NDArray[np.int32]

VECTOR_LIMIT = 30_000_000
"""A proof that would compare more option vectors (about five seconds) is not tried."""
TRIES = 64


@dataclass(frozen=True)
class Place:
    """Two regions and (unless `dimension` is NOWHERE) an option of each that differ only in the columns asked about."""

    regions: tuple[int, int]
    dimension: int
    options: tuple[int, int]


class TooLargeError(Exception):
    """The proof would take longer than its stated limit."""


def differing_place(frontier: Frontier, dead: Collection[int], budget: Budget) -> Place | None:
    """Return where designs that differ only in the columns `dead` differ in ticks or amount; None is a proof.

    Raises:
        TooLargeError: more than VECTOR_LIMIT option vectors would be compared, or the budget's time is over.
    """
    space, options = frontier.space, frontier.options
    gone = set(dead)
    structural = [c for c in range(space.model.designs) if space.ownership.owner[c] == STRUCTURAL and c not in gone]
    region_class = _classes(frontier.regions.codes[:, structural])
    option_class = np.zeros(options.amount.shape, dtype=np.int64)
    compared = np.zeros(len(space.options), dtype=bool)
    for dimension, listed in enumerate(space.options):
        own = _classes(listed.rows[:, _kept(listed, gone, space.model.designs)])
        option_class[dimension, : len(own)] = own
        compared[dimension] = own.max(initial=-1) + 1 < len(own)
    rows = np.argsort(region_class, kind="stable")
    shared = np.bincount(region_class)[region_class[rows]] > 1
    if not compared.any():
        rows = rows[shared]
    compared |= bool(shared.any())
    if len(rows) * int(options.sizes[compared].sum()) > VECTOR_LIMIT:
        raise TooLargeError
    return _first_place(frontier, rows, region_class, option_class, compared, budget)


def _kept(listed: DimensionOptions, gone: set[int], designs: int) -> list[int]:
    return [at for at, column in enumerate(listed.columns) if column < designs and column not in gone]


def _classes(codes: Codes) -> IntArray:
    """Return the number of each row among the distinct rows."""
    if codes.shape[1] == 0:
        return np.zeros(len(codes), dtype=np.int64)
    return np.unique(codes, axis=0, return_inverse=True)[1].reshape(-1).astype(np.int64)


def _first_place(
    frontier: Frontier,
    rows: IntArray,
    region_class: IntArray,
    option_class: IntArray,
    compared: NDArray[np.bool_],
    budget: Budget,
) -> Place | None:
    dimensions, width = len(frontier.space.options), int(option_class.max(initial=0)) + 1
    first = First(
        np.full(2, NOWHERE, dtype=np.int64),
        np.zeros(int(Whole.COUNT) + 1, dtype=np.int64),
        np.full((dimensions, width), NOWHERE, dtype=np.int64),
        np.zeros((dimensions, width, SLOTS + 1), dtype=np.int64),
        np.zeros((dimensions, width), dtype=np.int64),
    )
    found = np.zeros(5, dtype=np.int64)
    for start in range(0, len(rows), BLOCK):
        if budget.out_of_time():
            raise TooLargeError
        part = rows[start : start + BLOCK]
        if first_difference(
            frontier.simulator.tables,
            frontier.options,
            frontier.region_arrays(part),
            part,
            region_class[part],
            option_class,
            compared,
            first,
            found,
        ):
            left, right, dimension, own, other = (int(number) for number in found)
            return Place((left, right), dimension, (own, other))
    return None


def designs_at(frontier: Frontier, place: Place, dead: Collection[int]) -> tuple[Codes, Codes]:
    """Return feasible designs, two and two, that differ only in the columns `dead` and meet at `place`.

    The other dimensions take random options of one class; pairs that a coupling rule excludes are left out.
    """
    space = frontier.space
    rng = np.random.default_rng(0)
    pairs: list[tuple[Codes, Codes]] = []
    for _ in range(TRIES):
        chosen: tuple[list[int], list[int]] = ([], [])
        for dimension in range(len(space.options)):
            own, other = place.options
            if dimension != place.dimension:
                own, other = _alike(frontier, place, dimension, set(dead), rng)
            chosen[0].append(own)
            chosen[1].append(other)
        left, right = (space.design(frontier.regions.codes[r], o) for r, o in zip(place.regions, chosen, strict=True))
        pairs.append((left, right))
    lefts, rights = (np.array([pair[side] for pair in pairs], dtype=np.int32) for side in (0, 1))
    both = check(space.model, lefts) & check(space.model, rights)
    return lefts[both], rights[both]


def _alike(
    frontier: Frontier, place: Place, dimension: int, gone: set[int], rng: np.random.Generator
) -> tuple[int, int]:
    """Return a random option of the first region and one of the second that differs in columns of `gone` only."""
    listed = frontier.space.options[dimension]
    left, right = (np.flatnonzero(frontier.mask(region)[dimension, : len(listed)]) for region in place.regions)
    own = int(rng.choice(left))
    kept = _kept(listed, gone, frontier.space.model.designs)
    same = right[(listed.rows[right][:, kept] == listed.rows[own, kept]).all(axis=1)]
    return own, int(rng.choice(same)) if len(same) else own
