"""How many designs have a value up to a limit, which options they take, and the designs of given ranks among them."""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import accumulate

import numpy as np
from numpy.typing import NDArray

from cosmic_opt.errors import LimitError
from cosmic_opt.search.bounding import NO_LIMIT
from cosmic_opt.search.budget import Budget
from cosmic_opt.search.frontier import Frontier
from cosmic_opt.search.kernel.arrays import Regions
from cosmic_opt.search.kernel.near import Tally, count_regions
from cosmic_opt.search.kernel.trees import Limit
from cosmic_opt.search.outcome import Stop
from cosmic_opt.search.owners import STRUCTURAL
from cosmic_opt.search.space import Codes

IntArray = NDArray[np.int64]

CHUNK = 64
CALL_NODES = 1 << 18
"""Boxes bounded, about a second of them, before the budget is asked again."""
REGION_LIMIT = 2**55
"""The sums over a chunk of regions with more designs may overflow."""
GREATEST = 2**124 - 1
"""No objective value that the kernel compares is greater."""


@dataclass(frozen=True)
class Counted:
    """The designs that count, region by region, as far as they were counted.

    Attributes:
        rows: The regions of the frontier in which some were found.
        designs: Python integers, how many in each of them; their sum is `lower`.
        uses: Python integers [D, O], how many of them take each option.
        upper: No more designs count than these; equal to `lower` when every region was closed.
        stop: Why the count ended; PROVED also when as many as asked for were found.
        nodes: Boxes of options that were bounded.
    """

    rows: tuple[int, ...]
    designs: tuple[int, ...]
    uses: NDArray[np.object_]
    upper: int
    stop: Stop
    nodes: int

    @cached_property
    def lower(self) -> int:
        """The designs that were counted."""
        return sum(self.designs)


@dataclass(frozen=True)
class Census:
    """The designs of a frontier with at most a given value; the frontier's incumbent must not be better than that.

    Raises:
        LimitError: a region holds more designs than can be added up.
    """

    frontier: Frontier
    value: int
    regions: IntArray = field(init=False)
    """The regions that may hold one, best bound first."""

    def __post_init__(self) -> None:
        order = self.frontier.order
        object.__setattr__(self, "regions", order[np.asarray(self.frontier.values[order] <= self.value, dtype=bool)])
        if any(size > REGION_LIMIT * self.repeats for size in self.frontier.regions.sizes[self.regions]):
            raise LimitError(
                "one choice of the structural parameters leaves more than 2^55 choices of the network's options",
                hint="fix some parameters of the network (--fix)",
            )

    @cached_property
    def inert(self) -> tuple[int, ...]:
        """The columns that are neither structure nor option: every design has each of their values once."""
        ownership, allowed = self.frontier.space.ownership, self.frontier.space.model.allowed
        return tuple(sorted(c for c in ownership.inert if ownership.owner[c] == STRUCTURAL and len(allowed[c]) > 1))

    @cached_property
    def repeats(self) -> int:
        """The choices of the inert columns: how often each choice of structure and options occurs."""
        return math.prod(len(self.frontier.space.model.allowed[column]) for column in self.inert)

    def count(self, *, max_nodes: int = NO_LIMIT, enough: int | None = None, budget: Budget | None = None) -> Counted:
        """Count until every region is closed, nodes or time are spent, or more than `enough` designs are found."""
        state = _Count(self, max_nodes, NO_LIMIT if enough is None else enough // self.repeats, budget or Budget())
        return state.run()

    def tally(self, rows: IntArray, ranks: Sequence[Sequence[int]] = ()) -> Tally:
        """Return an empty tally for some regions; `ranks` are the designs to write out of each."""
        dimensions, longest = self.frontier.options.amount.shape
        asked = np.array([rank for own in ranks for rank in own], dtype=np.int64)
        starts = np.array([0, *accumulate(map(len, ranks))] if ranks else [0] * (len(rows) + 1), dtype=np.int64)
        return Tally(
            np.zeros((len(rows), 2), dtype=np.int64),
            np.zeros((2, dimensions, longest), dtype=np.int64),
            asked,
            starts,
            np.zeros((len(asked), dimensions), dtype=np.int64),
        )

    def fill(
        self, regions: Regions, tally: Tally, max_nodes: int = NO_LIMIT, enough: int = NO_LIMIT
    ) -> tuple[int, int]:
        """Fill the tally of some regions; return how many were closed, and the boxes bounded."""
        limit = Limit(min(self.frontier.limit_ticks, NO_LIMIT), *divmod(min(self.value, GREATEST), 2**62))
        tables, options = self.frontier.simulator.tables, self.frontier.options
        closed, nodes = count_regions(tables, options, regions, limit, max_nodes, enough, tally)
        return int(closed), int(nodes)

    def members(self, counted: Counted, ranks: Sequence[int]) -> Codes:
        """Return the designs of the given ranks, ascending, among those that were counted."""
        ends = list(accumulate(counted.designs))
        of_region: dict[int, list[int]] = {}
        for rank in ranks:
            of_region.setdefault(bisect_right(ends, rank), []).append(rank)
        found = []
        wanted = list(of_region)
        for start in range(0, len(wanted), CHUNK):
            part = wanted[start : start + CHUNK]
            own = [[rank - (ends[at] - counted.designs[at]) for rank in of_region[at]] for at in part]
            rows = np.array([counted.rows[at] for at in part], dtype=np.int64)
            found.append(self._written(rows, own))
        designs = self.frontier.space.model.designs
        return np.concatenate(found) if found else np.zeros((0, designs), dtype=np.int32)

    def _written(self, rows: IntArray, ranks: list[list[int]]) -> Codes:
        """Return the designs of the given ranks in each of some regions; the inert columns vary fastest."""
        tally = self.tally(rows, [[rank // self.repeats for rank in own] for own in ranks])
        self.fill(self.frontier.region_arrays(rows), tally)
        codes = []
        chosen = iter(tally.chosen.tolist())
        for row, own in zip(rows, ranks, strict=True):
            for rank in own:
                design = self.frontier.space.design(self.frontier.regions.codes[row], next(chosen))
                codes.append(self._with_inert(design, rank % self.repeats))
        return np.array(codes, dtype=np.int32)

    def _with_inert(self, design: Codes, digits: int) -> Codes:
        for column in reversed(self.inert):
            allowed = self.frontier.space.model.allowed[column]
            digits, digit = divmod(digits, len(allowed))
            design[column] = allowed[digit]
        return design


@dataclass
class _Count:
    """A count on its way; numbers of designs are of choices of structure and options until the end."""

    census: Census
    max_nodes: int
    enough: int
    budget: Budget

    def __post_init__(self) -> None:
        self.rows: list[int] = []
        self.found: list[int] = []
        self.uses = np.zeros(self.census.frontier.options.amount.shape, dtype=object)
        self.lower = self.open = self.nodes = self.at = 0

    def run(self) -> Counted:
        """Count region after region, a chunk at a time; a region too large for one call is begun anew with more."""
        regions, sizes, repeats = self.census.regions, self.census.frontier.regions.sizes, self.census.repeats
        stop, call = Stop.PROVED, CALL_NODES
        while self.at < len(regions):
            part = regions[self.at : self.at + CHUNK]
            tally = self.census.tally(part)
            arrays = self.census.frontier.region_arrays(part)
            allowed = min(call, self.max_nodes - self.nodes)
            closed, used = self.census.fill(arrays, tally, allowed, self.enough - self.lower)
            self.nodes += used
            call = 4 * call if closed == 0 else CALL_NODES
            self._add(part[:closed], tally.counted[:closed, 0], tally.uses[0])
            stop = self._stop() if self.at < len(regions) else Stop.PROVED
            begun = int(tally.counted[closed, 0]) if closed < len(part) else 0
            if stop is not Stop.PROVED or self.lower + begun > self.enough:
                if closed < len(part) and tally.counted[closed].any():
                    self._add(part[closed : closed + 1], tally.counted[closed : closed + 1, 0], tally.uses[1])
                    self.open = min(int(tally.counted[closed, 1]) * repeats, sizes[part[closed]] - begun * repeats)
                break
        upper = self.lower * repeats + self.open + int(sizes[regions[self.at :]].sum())
        designs = tuple(found * repeats for found in self.found)
        return Counted(tuple(self.rows), designs, self.uses * repeats, upper, stop, self.nodes)

    def _stop(self) -> Stop:
        if self.nodes >= self.max_nodes:
            return Stop.NODES if self.budget.evaluations is None else Stop.EVALUATIONS
        return Stop.TIME if self.budget.out_of_time() else Stop.PROVED

    def _add(self, rows: IntArray, counted: IntArray, uses: IntArray) -> None:
        """Add what some regions hold."""
        self.at += len(rows)
        self.rows += rows[counted > 0].tolist()
        self.found += counted[counted > 0].tolist()
        self.lower += int(counted.sum())
        self.uses += uses.astype(object)
