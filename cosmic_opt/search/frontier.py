"""Regions on the way to a proof: bounds, order, exact solution in batches, and the choice among equal optima."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from cosmic_opt.search import kernel
from cosmic_opt.search.bounding import NO_LIMIT, BoundedBlock, Bounding, joined
from cosmic_opt.search.memo import RegionMemo, region_digests, shared_digest
from cosmic_opt.search.objective import Objective
from cosmic_opt.search.proof import Proof
from cosmic_opt.search.space import Codes, Space, too_many_regions
from cosmic_opt.simulation.analytical.simulator import AnalyticalSimulator

IntArray = NDArray[np.int64]

SOLVE_CHUNK = 64
KEEP_LIMIT = 2_000_000


@dataclass(frozen=True)
class Progress:
    """The state after a batch of regions."""

    closed: int
    open: int
    incumbent: int | None
    bound: int
    nodes: int
    designs_closed: int


@dataclass
class Frontier:
    """Best-bound-first over the regions of a space.

    Regions that no design as good as the incumbent can be in are forgotten as soon as they are bounded; `regions`,
    `ticks`, `amounts` (lower bounds) and `values` (exact lower bounds) are of those that are left.

    Raises:
        LimitError: more than `KEEP_LIMIT` regions are left.
    """

    space: Space
    simulator: AnalyticalSimulator
    objective: Objective
    limit_ticks: int = NO_LIMIT
    memo: RegionMemo | None = None
    """What nothing in a region has a value below, as earlier searches proved; this one adds to it."""
    best: tuple[int, int] | None = None
    """Ticks and amount of the incumbent."""
    solved: list[int] = field(default_factory=list)
    """The regions that were closed by solving them."""
    nodes: int = 0
    found: tuple[int, IntArray] | None = None
    """The region and options of the incumbent, when a region gave it."""
    optima: list[tuple[int, int]] = field(default_factory=list)
    """(region, value) of every region solved to a value as good as the incumbent of its time."""

    def __post_init__(self) -> None:
        self.bounding = Bounding(self.space, self.simulator, self.objective)
        self.shared = shared_digest(self.simulator.tables, self.options, self.limit_ticks)
        self.against = self.best
        parts, kept = [], 0
        for part in self.bounding.over_blocks(self._bound):
            kept += len(part.regions)
            if kept > KEEP_LIMIT:
                raise too_many_regions(KEEP_LIMIT)
            parts.append(part)
        self.blocks = [part.block for part in parts]
        self.numbers = np.concatenate([part.numbers for part in parts])
        self.regions = joined([part.regions for part in parts])
        self.ticks = np.concatenate([part.ticks for part in parts])
        self.amounts = np.concatenate([part.amounts for part in parts])
        self.values = np.concatenate([part.values for part in parts])
        self.order = np.array(sorted(range(kept), key=lambda region: (self.values[region], region)), dtype=np.int64)
        self.next = 0

    @property
    def options(self) -> kernel.Options:
        """The options of every dimension."""
        return self.bounding.options

    def _bound(self, start: int) -> BoundedBlock:
        """Bound a block of regions and keep those that may hold a design as good as the incumbent."""
        whole = self.bounding.bound_block(start, self.best, min(self.limit_ticks, NO_LIMIT))
        obeying = whole.ticks <= min(self.limit_ticks, NO_LIMIT)
        alive = obeying if self.value is None else obeying & np.asarray(whole.values <= self.value, dtype=bool)
        known = [value for value in (whole.block.least, *whole.values[obeying & ~alive]) if value is not None]
        block = whole.block._replace(least=min(known, default=None))
        rows = np.flatnonzero(alive)
        bounds = whole.ticks[rows], whole.amounts[rows], whole.values[rows]
        return BoundedBlock(block, whole.numbers[rows], whole.regions.take(rows), *bounds)

    def proof(self) -> Proof:
        """Return the evidence for the bound reached so far."""
        done = set(self.solved)
        left = [region for region in range(len(self.regions)) if region not in done]
        in_block = np.searchsorted([block.start for block in self.blocks], self.numbers[left], side="right") - 1
        least = [block.least for block in self.blocks]
        for region, at in zip(left, in_block.tolist(), strict=True):
            value, known = int(self.values[region]), least[at]
            least[at] = value if known is None else min(known, value)
        blocks = tuple(block._replace(least=value) for block, value in zip(self.blocks, least, strict=True))
        return Proof(self.against, blocks, tuple(sorted(self.numbers[self.solved].tolist())), self.nodes)

    def region_arrays(self, rows: IntArray, masks: NDArray[np.bool_] | None = None) -> kernel.Regions:
        """Return the kernel's view of the chosen regions."""
        return self.bounding.arrays(self.regions.codes[rows], masks)

    # --- the search -------------------------------------------------------------------------------------------

    @property
    def value(self) -> int | None:
        """The exact objective value of the incumbent."""
        return None if self.best is None else self.best[0] * self.best[1]

    @property
    def bound(self) -> int | None:
        """The proved lower bound: that of the first open region, or the incumbent when none is left."""
        if self.next < len(self.order):
            first: int = self.values[self.order[self.next]]
            return first if self.value is None else min(first, self.value)
        return self.value

    def offer(self, ticks: int, amount: int) -> bool:
        """Take a scored design as incumbent if it is better; return whether it was."""
        if ticks > self.limit_ticks or (self.value is not None and ticks * amount >= self.value):
            return False
        self.best = ticks, amount
        return True

    def run(self, max_nodes: int) -> Iterator[Progress]:
        """Close regions best bound first until none may hold a better or equal design, or nodes run out."""
        designs = 0
        while self.next < len(self.order) and self.nodes < max_nodes:
            if self.value is not None and self.values[self.order[self.next]] > self.value:
                self.next = len(self.order)
                break
            rows, passed, keys = self._next_rows()
            closed, results, chosen = self._solve(rows, max_nodes - self.nodes)
            for row, (ticks, amount, _), options in zip(rows, results, chosen, strict=True):
                if ticks >= 0 and self.offer(int(ticks), int(amount)):
                    self.found = int(row), options
            self.solved += rows[:closed].tolist()
            for row, (ticks, amount, _) in zip(rows[:closed], results[:closed], strict=True):
                designs += self.regions.sizes[row]
                if ticks >= 0:
                    self.optima.append((int(row), int(ticks) * int(amount)))
                    self.values[row] = int(ticks) * int(amount)
                elif self.value is not None:  # closed against an incumbent that may have improved since
                    self.values[row] = max(self.values[row], self.value + 1)
            if self.memo is not None:
                self.memo.learn(keys[:closed], self.values[rows[:closed]].tolist())
            self.next += passed[closed]
            bound = self.bound
            yield Progress(
                self.next,
                len(self.order) - self.next,
                self.value,
                bound if bound is not None else 0,
                self.nodes,
                designs,
            )

    def _next_rows(self) -> tuple[IntArray, list[int], list[bytes]]:
        """Return the next regions to solve, and their keys in the memo.

        Those of which the memo knows that they hold nothing as good as the incumbent are passed over: `passed[n]` is
        how many regions of the order are done with when the first n of the result are closed.
        """
        rows = self.order[self.next : self.next + SOLVE_CHUNK]
        if self.value is not None:
            rows = rows[self.values[rows] <= self.value]
        keys: list[bytes] = []
        if self.memo is not None:
            keys = region_digests(self.shared, self.region_arrays(rows))
            for row, known in zip(rows, self.memo.recall(keys), strict=True):
                self.values[row] = max(self.values[row], known)
        open_rows = [at for at, row in enumerate(rows) if self.value is None or self.values[row] <= self.value]
        return rows[open_rows], [*open_rows, len(rows)], [keys[at] for at in open_rows] if keys else []

    def _solve(
        self, rows: IntArray, max_nodes: int, masks: NDArray[np.bool_] | None = None
    ) -> tuple[int, IntArray, IntArray]:
        bounds = np.column_stack([self.ticks[rows], self.amounts[rows]])
        ticks, amount = self.best if self.best is not None else (NO_LIMIT, NO_LIMIT)
        incumbent = np.array([ticks, amount], dtype=np.int64)
        results = np.tile(np.array([-1, 0, 0], dtype=np.int64), (len(rows), 1))
        chosen = np.zeros((len(rows), len(self.space.options)), dtype=np.int64)
        closed = kernel.solve_regions(
            self.simulator.tables,
            self.options,
            self.region_arrays(rows, masks),
            bounds,
            incumbent,
            self.limit_ticks,
            max_nodes,
            results,
            chosen,
        )
        self.nodes += int(results[:, 2].sum())
        return int(closed), results, chosen

    def incumbent_design(self) -> Codes | None:
        """Return the design of the incumbent, when a region gave it (else whoever offered it has it)."""
        if self.found is None:
            return None
        region, options = self.found
        return self.space.design(self.regions.codes[region], [int(option) for option in options])

    # --- ties -------------------------------------------------------------------------------------------------

    def least_code(self) -> Codes:
        """Return, among all optima, the design with the least code (after `run` closed every region).

        In each region that attains the optimum, columns are fixed one by one, in order, to the least code for
        which the region still attains it.
        """
        assert self.value is not None
        regions = sorted(region for region, value in self.optima if value == self.value)
        assert regions, "the incumbent's own region attains its value"
        best: Codes | None = None
        for region in regions:
            if best is not None and tuple(self._least_conceivable(region)) >= tuple(best):
                continue
            design = self._least_in(region)
            if best is None or tuple(design) < tuple(best):
                best = design
        assert best is not None
        return best

    def _least_conceivable(self, region: int) -> Codes:
        """Return the least code of every column on its own."""
        codes = self.regions.codes[region, : self.space.model.designs].copy()
        mask = self.mask(region)
        for dimension, options in enumerate(self.space.options):
            rows = options.rows[mask[dimension, : len(options)]]
            for at, column in enumerate(options.columns):
                if column < len(codes):
                    codes[column] = rows[:, at].min()
        return np.asarray(codes)

    def _least_in(self, region: int) -> Codes:
        masks = self.mask(region).copy()[np.newaxis]
        columns = sorted(
            (column, dimension, at)
            for dimension, options in enumerate(self.space.options)
            for at, column in enumerate(options.columns)
            if column < self.space.model.designs
        )
        for _, dimension, at in columns:
            rows = self.space.options[dimension].rows[:, at]
            mask = masks[0, dimension, : len(rows)].copy()
            for code in np.unique(rows[mask]):
                masks[0, dimension, : len(rows)] = mask & (rows == code)
                if self._attains(region, masks):
                    break
            else:
                raise AssertionError("the region attains the optimum")
        chosen = [int(np.flatnonzero(masks[0, d])[0]) for d in range(len(self.space.options))]
        return self.space.design(self.regions.codes[region], chosen)

    def mask(self, region: int) -> NDArray[np.bool_]:
        """Return the options [D, O] that a region has."""
        (mask,) = self.space.mask_of(self.regions.codes[region : region + 1])
        return np.asarray(self.bounding.masks[mask])

    def _attains(self, region: int, masks: NDArray[np.bool_]) -> bool:
        """Tell whether the region, restricted to `masks`, still holds a design as good as the incumbent."""
        _, results, _ = self._solve(np.array([region]), NO_LIMIT, masks)
        return bool(results[0, 0] >= 0)
