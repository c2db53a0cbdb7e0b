"""Regions on the way to a proof: bounds, order, exact solution in batches, and the choice among equal optima."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cosmic_opt.search import kernel
from cosmic_opt.search.memo import Proved, RegionMemo, region_digests, shared_digest
from cosmic_opt.search.objective import Objective
from cosmic_opt.search.score import kernel_columns
from cosmic_opt.search.space import Space
from cosmic_opt.simulation.analytical.layout import Option
from cosmic_opt.simulation.analytical.simulator import AnalyticalSimulator

IntArray = NDArray[np.int64]
Codes = NDArray[np.int32]

BOUND_CHUNK = 8192
SOLVE_CHUNK = 64
NO_LIMIT = 2**62


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
    """Best-bound-first over the regions of a space."""

    space: Space
    simulator: AnalyticalSimulator
    objective: Objective
    limit_ticks: int = NO_LIMIT
    memo: RegionMemo | None = None
    """Bounds that earlier searches proved; `remember` adds those of this one."""
    nodes: int = 0
    best: tuple[int, int] | None = None
    """Ticks and amount of the incumbent."""
    found: tuple[int, IntArray] | None = None
    """The region and options of the incumbent, when a region gave it."""
    optima: list[tuple[int, int]] = field(default_factory=list)
    """(region, value) of every region solved to a value as good as the incumbent of its time."""
    proved: dict[int, int] = field(default_factory=dict)
    """What nothing in a region has a value below, of regions that were closed by solving them."""

    def __post_init__(self) -> None:
        self.mask_of, self.masks = self.space.masks()
        shares, self.fixed = self.space.amounts(self.objective)
        rules = [self.space.shares(rule) for rule in self.space.ownership.coupling]
        self.low = np.column_stack([low for _, low, _ in rules]) if rules else np.zeros((len(self.fixed), 0), np.int64)
        self.high = np.column_stack([high for _, _, high in rules]) if rules else self.low
        self.options = self._options(shares, [share for share, _, _ in rules])
        self._bound_regions()
        alive = np.flatnonzero(self.ticks <= min(self.limit_ticks, NO_LIMIT))
        keys = self.ticks[alive].astype(float) * self.amounts[alive].astype(float)
        near = alive[np.argsort(keys, kind="stable")]
        self.order = np.array(sorted(near.tolist(), key=lambda region: (self.values[region], region)), dtype=np.int64)
        self.next = 0

    # --- arrays for the kernel --------------------------------------------------------------------------------

    def _options(self, amounts: Sequence[IntArray], shares: Sequence[Sequence[IntArray]]) -> kernel.Options:
        dimensions, width = len(self.space.options), max(len(options) for options in self.space.options)
        inputs = np.zeros((dimensions, width, int(Option.COUNT)), dtype=np.int64)
        padded = np.zeros((dimensions, width), dtype=np.int64)
        coupled = np.zeros((len(shares), dimensions, width), dtype=np.int64)
        for dimension, options in enumerate(self.space.options):
            count = len(options)
            inputs[dimension, :count] = self._encode(dimension)
            padded[dimension, :count] = amounts[dimension]
            for rule, share in enumerate(shares):
                coupled[rule, dimension, :count] = share[dimension]
        sizes = np.array([len(options) for options in self.space.options], dtype=np.int64)
        return kernel.Options(inputs, sizes, padded, coupled, self._senses())

    def _encode(self, dimension: int) -> IntArray:
        names = {
            column.parameter: column.name
            for column in self.space.parameter_set.columns
            if column.index == (dimension,) and column.parameter in ("topology", "algorithm", "bandwidth", "latency")
        }
        batch = self.space.option_batch(dimension)
        encoded = self.simulator.encode_options(
            dimension, {parameter: batch.values(name) for parameter, name in names.items()}
        )
        return _repeat(encoded, len(batch))

    def _senses(self) -> IntArray:
        """Return how dominance treats each coupling rule: a one-sided bound is an axis, any other rule a key."""
        senses = []
        for rule in self.space.ownership.coupling:
            one_sided = kernel.UPPER if rule.lower is None else kernel.LOWER
            senses.append(kernel.KEY if rule.lower is not None and rule.upper is not None else one_sided)
        return np.array(senses, dtype=np.int64)

    def region_arrays(self, rows: IntArray, masks: NDArray[np.bool_] | None = None) -> kernel.Regions:
        """Return the kernel's view of the chosen regions, prepared by the simulator."""
        batch = self.space.batch(self.space.regions.codes[rows])
        prepared = self.simulator.prepare(kernel_columns(batch), strict=False)
        size = len(rows)
        return kernel.Regions(
            _repeat(prepared.whole, size),
            _repeat(prepared.payload, size),
            _repeat(prepared.links, size),
            self.masks if masks is None else masks,
            self.mask_of[rows] if masks is None else np.zeros(size, dtype=np.int64),
            np.ascontiguousarray(self.low[rows]),
            np.ascontiguousarray(self.high[rows]),
            self.fixed[rows],
        )

    def region_ticks(self, *, worst: bool, chosen: IntArray | None = None) -> tuple[IntArray, IntArray]:
        """Return a lower (`worst`: an upper) bound on every member's step, and the least amount, of each chosen region.

        By default all regions are.
        """
        chosen = np.arange(len(self.space.regions)) if chosen is None else chosen
        ticks, amounts = np.zeros(len(chosen), dtype=np.int64), np.zeros(len(chosen), dtype=np.int64)
        extreme = self._extreme(worst=worst)
        for start in range(0, len(chosen), BOUND_CHUNK):
            part = slice(start, start + BOUND_CHUNK)
            regions = self.region_arrays(chosen[part])
            kernel.bound_regions(
                self.simulator.tables, self.options, regions, extreme, worst, ticks[part], amounts[part]
            )
        return ticks, amounts

    def _bound_regions(self) -> None:
        """Fill every region's bounds, those that the memo knows from there."""
        count = len(self.space.regions)
        known: list[Proved | None] = [None] * count
        if self.memo is not None:
            self.keys = self._region_keys()
            known = self.memo.recall(self.keys)
        missing = np.array([row for row, proved in enumerate(known) if proved is None], dtype=np.int64)
        self.ticks, self.amounts = np.zeros(count, dtype=np.int64), np.zeros(count, dtype=np.int64)
        self.ticks[missing], self.amounts[missing] = self.region_ticks(worst=False, chosen=missing)
        found = [(row, proved) for row, proved in enumerate(known) if proved is not None]
        for row, proved in found:
            self.ticks[row], self.amounts[row] = proved.ticks, proved.amount
        self.values = self.objective.values(self.ticks, self.amounts)
        for row, proved in found:
            self.values[row] = proved.value

    def _region_keys(self) -> list[bytes]:
        shared = shared_digest(self.simulator.tables, self.options, self.limit_ticks)
        count = len(self.space.regions)
        chunks = (np.arange(start, min(count, start + BOUND_CHUNK)) for start in range(0, count, BOUND_CHUNK))
        return [key for rows in chunks for key in region_digests(shared, self.region_arrays(rows))]

    def remember(self) -> None:
        """Leave to the memo what this search proved of every region."""
        if self.memo is not None:
            values = [self.proved.get(row, value) for row, value in enumerate(self.values.tolist())]
            self.memo.learn(self.keys, list(map(Proved, self.ticks.tolist(), self.amounts.tolist(), values)))

    def _extreme(self, *, worst: bool) -> NDArray[np.bool_]:
        """Return the masks reduced to the options among which every slot has its extreme.

        Of options that differ only in bandwidth, the widest is the fastest in every slot: a phase is its load by its
        bandwidth, rounded.
        """
        extreme = np.zeros_like(self.masks)
        rows = np.arange(len(self.masks))
        for dimension, size in enumerate(self.options.sizes):
            inputs = self.options.inputs[dimension, :size]
            others = np.delete(inputs, Option.BANDWIDTH, axis=1)
            _, alike = np.unique(others, axis=0, return_inverse=True)
            fastest_first = np.argsort(inputs[:, Option.BANDWIDTH] * (1 if worst else -1), kind="stable")
            for group in range(alike.max() + 1):
                members = fastest_first[alike.reshape(-1)[fastest_first] == group]
                first = members[self.masks[:, dimension, members].argmax(axis=1)]
                extreme[rows, dimension, first] = self.masks[rows, dimension, first]
        return extreme

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
            rows = self.order[self.next : self.next + SOLVE_CHUNK]
            if self.value is not None:
                rows = rows[self.values[rows] <= self.value]
            closed, results, chosen = self._solve(rows, max_nodes - self.nodes)
            for row, (ticks, amount, _), options in zip(rows, results, chosen, strict=True):
                if ticks >= 0 and self.offer(int(ticks), int(amount)):
                    self.found = int(row), options
            for row, (ticks, amount, _) in zip(rows[:closed], results[:closed], strict=True):
                designs += self.space.regions.sizes[row]
                if ticks >= 0:
                    self.optima.append((int(row), int(ticks) * int(amount)))
                    self.proved[int(row)] = int(ticks) * int(amount)
                elif self.value is not None:  # closed against an incumbent that may have improved since
                    self.proved[int(row)] = max(self.values[row], self.value + 1)
            self.next += closed
            bound = self.bound
            yield Progress(
                self.next,
                len(self.order) - self.next,
                self.value,
                bound if bound is not None else 0,
                self.nodes,
                designs,
            )

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
        return None if self.found is None else self.space.designs(self.found[0], [int(o) for o in self.found[1]])

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
        codes = self.space.regions.codes[region, : self.space.model.designs].copy()
        for dimension, options in enumerate(self.space.options):
            rows = options.rows[self.masks[self.mask_of[region], dimension, : len(options)]]
            for at, column in enumerate(options.columns):
                if column < len(codes):
                    codes[column] = rows[:, at].min()
        return np.asarray(codes)

    def _least_in(self, region: int) -> Codes:
        masks = self.masks[self.mask_of[region]].copy().reshape(1, *self.masks.shape[1:])
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
        return self.space.designs(region, chosen)

    def _attains(self, region: int, masks: NDArray[np.bool_]) -> bool:
        """Tell whether the region, restricted to `masks`, still holds a design as good as the incumbent."""
        _, results, _ = self._solve(np.array([region]), NO_LIMIT, masks)
        return bool(results[0, 0] >= 0)


def _repeat(array: NDArray[Any], size: int) -> NDArray[Any]:
    """Return a writable array of `size` rows; a problem without structural columns is prepared as one row.

    Compiled code treats a read-only array as another type, and would be compiled once more for it.
    """
    return array if len(array) == size else np.repeat(array, size, axis=0)
