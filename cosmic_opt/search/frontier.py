"""Regions on the way to a proof: bounds, order, exact solution in batches, and the choice among equal optima."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from cosmic_opt.search import kernel
from cosmic_opt.search.bounding import NO_LIMIT, Bounding
from cosmic_opt.search.executor import Engine, Threads
from cosmic_opt.search.memo import RegionMemo, region_digests, shared_digest
from cosmic_opt.search.objective import Objective
from cosmic_opt.search.proof import Proof
from cosmic_opt.search.score import Scorer
from cosmic_opt.search.space import Codes, Space, too_many_regions
from cosmic_opt.search.tasks import BoundBlock, KeptRegions, SolvedRegions, SolveRegions, Worker, solve_regions
from cosmic_opt.simulation.analytical.simulator import AnalyticalSimulator

IntArray = NDArray[np.int64]

SOLVE_CHUNK = 64
LARGEST_WAVE = 16
"""Chunks of regions that are solved side by side, against one incumbent, once the incumbent has settled."""
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


class _Chunk(NamedTuple):
    """Regions to solve: `passed[n]` is how many of the order are done with when the first n are closed.

    `keys` are those of the regions in the memo.
    """

    rows: IntArray
    passed: list[int]
    keys: list[bytes]


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

    engine: Engine | None = None
    """Where the work is done; by default, on threads on every core."""

    def __post_init__(self) -> None:
        if self.engine is None:
            scorer = Scorer(self.simulator, self.objective)
            worker = Worker(self.space.parameter_set, scorer, self.limit_ticks, lambda: self.space)
            self.engine = Threads(worker, os.cpu_count() or 1)
        self.tasks = self.engine
        self.worker = self.engine.worker
        self.shared = shared_digest(self.simulator.tables, self.options, self.limit_ticks)
        self.against = self.best
        parts = self._bounded()
        self.blocks = [part.block for part in parts]
        self.numbers = np.concatenate([part.numbers for part in parts])
        self.regions = self.space.regions.take(self.numbers)
        self.ticks = np.concatenate([part.ticks for part in parts])
        self.amounts = np.concatenate([part.amounts for part in parts])
        self.values = self.objective.values(self.ticks, self.amounts)
        kept = range(len(self.numbers))
        self.order = np.array(sorted(kept, key=lambda region: (self.values[region], region)), dtype=np.int64)
        self.next = 0

    @property
    def bounding(self) -> Bounding:
        """The regions as the compiled kernel sees them."""
        return self.worker.bounding

    @property
    def options(self) -> kernel.Options:
        """The options of every dimension."""
        return self.bounding.options

    def _bounded(self) -> list[KeptRegions]:
        """Bound every region; those that cannot hold a design as good as the incumbent are forgotten."""
        starts = range(0, self.space.regions.count, self.bounding.block_size)
        parts, kept = [], 0
        for part in self.tasks.map([BoundBlock(start, self.best) for start in starts]):
            kept += len(part.numbers)
            if kept > KEEP_LIMIT:
                raise too_many_regions(KEEP_LIMIT)
            parts.append(part)
        return parts

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

    @property
    def settled(self) -> bool:
        """Whether no open region may hold a design better than, or as good as, the incumbent."""
        if self.next >= len(self.order):
            return True
        return self.value is not None and bool(self.values[self.order[self.next]] > self.value)

    def offer(self, ticks: int, amount: int) -> bool:
        """Take a scored design as incumbent if it is better; return whether it was."""
        if ticks > self.limit_ticks or (self.value is not None and ticks * amount >= self.value):
            return False
        self.best = ticks, amount
        return True

    def run(self, max_nodes: int) -> Iterator[Progress]:
        """Close regions best bound first until none may hold a better or equal design, or nodes run out."""
        wave = designs = 0
        while not self.settled and self.nodes < max_nodes:
            chunks = self._chunks(min(1 << wave, LARGEST_WAVE))
            wave += 1
            tasks = [self._task(chunk.rows, max_nodes - self.nodes) for chunk in chunks]
            for chunk, task, solved in zip(chunks, tasks, self.tasks.map(tasks), strict=True):
                if self.nodes + solved.nodes > max_nodes:  # those before it left too little: again, with what is left
                    solved = replace(task, max_nodes=max_nodes - self.nodes).run(self.worker)
                designs += self._close(chunk, solved)
                bound, left = self.bound, len(self.order) - self.next
                yield Progress(self.next, left, self.value, bound if bound is not None else 0, self.nodes, designs)
                if solved.closed < len(chunk.rows):
                    return

    def _chunks(self, most: int) -> list[_Chunk]:
        """Return the next regions to solve, in at most so many chunks that may be solved side by side."""
        stop = min(self.next + most * SOLVE_CHUNK, len(self.order))
        starts = range(self.next, stop, SOLVE_CHUNK)
        return [self._chunk(at) for at in starts if self.value is None or self.values[self.order[at]] <= self.value]

    def _chunk(self, start: int) -> _Chunk:
        """Return the regions to solve of those from `start` on in the order.

        Those of which the memo knows that they hold nothing as good as the incumbent are passed over.
        """
        listed = self.order[start : start + SOLVE_CHUNK]
        rows = listed if self.value is None else listed[self.values[listed] <= self.value]
        keys: list[bytes] = []
        if self.memo is not None:
            keys = region_digests(self.shared, self.region_arrays(rows))
            for row, known in zip(rows, self.memo.recall(keys), strict=True):
                self.values[row] = max(self.values[row], known)
        open_rows = [at for at, row in enumerate(rows) if self.value is None or self.values[row] <= self.value]
        passed = [*(start + at for at in open_rows), start + len(listed)]
        return _Chunk(rows[open_rows], passed, [keys[at] for at in open_rows] if keys else [])

    def _task(self, rows: IntArray, max_nodes: int) -> SolveRegions:
        return SolveRegions(self.numbers[rows], self.ticks[rows], self.amounts[rows], self.best, max_nodes)

    def _close(self, chunk: _Chunk, solved: SolvedRegions) -> int:
        """Take what solving a chunk has found; return how many designs are in the regions closed."""
        self.nodes += solved.nodes
        for row, (ticks, amount, _), options in zip(chunk.rows, solved.results, solved.chosen, strict=True):
            if ticks >= 0 and self.offer(int(ticks), int(amount)):
                self.found = int(row), options
        rows, designs = chunk.rows[: solved.closed], 0
        self.solved += rows.tolist()
        for row, (ticks, amount, _) in zip(rows, solved.results[: solved.closed], strict=True):
            designs += self.regions.sizes[row]
            if ticks >= 0:
                self.optima.append((int(row), int(ticks) * int(amount)))
                self.values[row] = int(ticks) * int(amount)
            elif self.value is not None:  # closed against an incumbent that may have improved since
                self.values[row] = max(self.values[row], self.value + 1)
        if self.memo is not None:
            self.memo.learn(chunk.keys[: solved.closed], self.values[rows].tolist())
        self.next = chunk.passed[solved.closed]
        return designs

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
        rows = np.array([region])
        solved = solve_regions(self.worker, self.region_arrays(rows, masks), self._task(rows, NO_LIMIT))
        self.nodes += solved.nodes
        return bool(solved.results[0, 0] >= 0)
