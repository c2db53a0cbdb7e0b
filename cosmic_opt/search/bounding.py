"""Regions as the compiled kernel sees them, and their bounds, block by block on every core."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from cosmic_opt.search import kernel
from cosmic_opt.search.objective import Objective, refuse_beyond
from cosmic_opt.search.proof import Block
from cosmic_opt.search.score import kernel_columns
from cosmic_opt.search.space import Codes, Regions, Space
from cosmic_opt.simulation.analytical.layout import Option
from cosmic_opt.simulation.analytical.simulator import AnalyticalSimulator

IntArray = NDArray[np.int64]
Item = TypeVar("Item")
Result = TypeVar("Result")

BLOCK = 8192
"""Regions made, bounded and mostly forgotten at a time, and more of them where there would be many blocks."""
MOST_BLOCKS, LARGEST_BLOCK = 256, 1 << 17
NO_LIMIT = 2**62


class BoundedBlock(NamedTuple):
    """A block of regions with bounds.

    Attributes:
        block: All of it; `least` is the least bound of regions that obey the limit and were not made.
        numbers: int64 [n], the regions made.
        regions: They.
        ticks, amounts: int64 [n], lower bounds.
        values: Python integers [n], their products: lower bounds of the objective.
    """

    block: Block
    numbers: IntArray
    regions: Regions
    ticks: IntArray
    amounts: IntArray
    values: NDArray[np.object_]


@dataclass(frozen=True)
class Bounding:
    """The kernel's view of a space under one simulator and objective."""

    space: Space
    simulator: AnalyticalSimulator
    objective: Objective

    @cached_property
    def masks(self) -> NDArray[np.bool_]:
        """The masks [G, D, O] of options that regions have."""
        return self.space.masks()

    @cached_property
    def options(self) -> kernel.Options:
        """The options of every dimension, padded to the longest list."""
        listed, rules = self.space.options, self.space.ownership.coupling
        amounts = self.space.option_amounts(self.objective)
        shares = [self.space.shares(rule) for rule in rules]
        dimensions, width = len(listed), max(map(len, listed))
        inputs = np.zeros((dimensions, width, int(Option.COUNT)), dtype=np.int64)
        padded = np.zeros((dimensions, width), dtype=np.int64)
        coupled = np.zeros((len(rules), dimensions, width), dtype=np.int64)
        for dimension, options in enumerate(listed):
            inputs[dimension, : len(options)] = self._encode(dimension)
            padded[dimension, : len(options)] = amounts[dimension]
            for rule, share in enumerate(shares):
                coupled[rule, dimension, : len(options)] = share[dimension]
        sizes = np.array([len(options) for options in listed], dtype=np.int64)
        return kernel.Options(inputs, sizes, padded, coupled, self._senses())

    def _encode(self, dimension: int) -> IntArray:
        names = {
            column.parameter: column.name
            for column in self.space.parameter_set.columns
            if column.index == (dimension,) and column.parameter in ("topology", "algorithm", "bandwidth", "latency")
        }
        batch = self.space.option_batch(dimension)
        columns = {parameter: batch.values(name) for parameter, name in names.items()}
        return _repeat(self.simulator.encode_options(dimension, columns), len(batch))

    def _senses(self) -> IntArray:
        """Return how dominance treats each coupling rule: a one-sided bound is an axis, any other rule a key."""
        senses = []
        for rule in self.space.ownership.coupling:
            one_sided = kernel.UPPER if rule.lower is None else kernel.LOWER
            senses.append(kernel.KEY if rule.lower is not None and rule.upper is not None else one_sided)
        return np.array(senses, dtype=np.int64)

    def arrays(self, codes: Codes, masks: NDArray[np.bool_] | None = None) -> kernel.Regions:
        """Return the kernel's view of regions, prepared by the simulator; `masks` [1, D, O] may narrow options."""
        size = len(codes)
        prepared = self.simulator.prepare(kernel_columns(self.space.batch(codes)), strict=False)
        rests = [self.space.rests(rule, codes) for rule in self.space.ownership.coupling]
        none = np.zeros((size, 0), dtype=np.int64)
        fixed = self.space.fixed_amounts(self.objective, codes)
        refuse_beyond(int(fixed.max(initial=0)) + self._most_optional, self.objective.name)
        return kernel.Regions(
            _repeat(prepared.whole, size),
            _repeat(prepared.payload, size),
            _repeat(prepared.links, size),
            self.masks if masks is None else masks,
            self.space.mask_of(codes) if masks is None else np.zeros(size, dtype=np.int64),
            np.column_stack([low for low, _ in rests]) if rests else none,
            np.column_stack([high for _, high in rests]) if rests else none,
            fixed,
        )

    @cached_property
    def _most_optional(self) -> int:
        """At least the greatest amount that options of all dimensions add up to, whatever the rules."""
        return sum(int(row.max(initial=0)) for row in self.options.amount)

    def bounds(
        self, regions: kernel.Regions, *, worst: bool = False, best: tuple[int, int] | None = None
    ) -> tuple[IntArray, IntArray]:
        """Return a lower (`worst`: an upper) bound on every member's step, and each region's least amount.

        A region that even without communication is worse than `best` (ticks, amount) is given that weaker bound.
        """
        count = len(regions.amount)
        ticks, amounts = np.zeros(count, dtype=np.int64), np.zeros(count, dtype=np.int64)
        incumbent = np.array(best or (NO_LIMIT, NO_LIMIT), dtype=np.int64)
        extreme = self._slowest if worst else self._fastest
        kernel.bound_regions(self.simulator.tables, self.options, regions, extreme, worst, incumbent, ticks, amounts)
        return ticks, amounts

    @cached_property
    def _fastest(self) -> NDArray[np.bool_]:
        return self._extreme(worst=False)

    @cached_property
    def _slowest(self) -> NDArray[np.bool_]:
        return self._extreme(worst=True)

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

    def bound_block(self, start: int, best: tuple[int, int] | None, limit_ticks: int) -> BoundedBlock:
        """Return the bounds of the block of regions that begins with `start`.

        Regions that compute alike are first bounded as one, without communication and then with what blocks; only where
        such a bound is not above `best` (ticks, amount) and `limit_ticks` are they made at all.
        """
        product = self.space.regions
        stop = min(start + self.block_size, product.count)
        kinds = np.arange(start, stop, product.alike)
        sizes, least = product.outer_sizes(kinds), None
        if product.alike > 1 and (best is not None or limit_ticks < NO_LIMIT):
            kinds, least = self._worth_making(kinds, best, limit_ticks)
        numbers = (kinds[:, np.newaxis] + np.arange(product.alike)).reshape(-1)
        regions = product.take(numbers)
        ticks = amounts = np.zeros(0, dtype=np.int64)
        if len(numbers):
            ticks, amounts = self.bounds(self.arrays(regions.codes), best=best)
        values = self.objective.values(ticks, amounts)
        return BoundedBlock(
            Block(start, stop - start, int(sizes.sum()), least), numbers, regions, ticks, amounts, values
        )

    def _worth_making(
        self, kinds: IntArray, best: tuple[int, int] | None, limit_ticks: int
    ) -> tuple[IntArray, int | None]:
        """Return the kinds that may hold a design as good as `best`, and the least bound of others within the limit."""
        amounts, others = np.zeros(0, dtype=np.int64), list[int]()
        for bound in (self.silent, self.blocking):
            ticks, amounts = bound(kinds, amounts)
            values = self.objective.values(ticks, amounts)
            obeying = ticks <= limit_ticks
            better = True if best is None else np.asarray(values <= best[0] * best[1], dtype=bool)
            others += values[obeying & ~better].tolist() if best is not None else []
            kinds, amounts = kinds[obeying & better], amounts[obeying & better]
        return kinds, min(others, default=None)

    def silent(self, kinds: IntArray, _: IntArray) -> tuple[IntArray, IntArray]:
        """Return the step without communication and the least amount of each kind."""
        arrays = self.arrays(self.space.regions.take(kinds).codes)
        ticks, amounts = np.zeros(len(kinds), dtype=np.int64), np.zeros(len(kinds), dtype=np.int64)
        kernel.silent_bounds(self.options, arrays, ticks, amounts)
        return ticks, amounts

    def blocking(self, kinds: IntArray, amounts: IntArray) -> tuple[IntArray, IntArray]:
        """Return the step without traffic that may overlap, at best, and the amount of each kind."""
        places, most_chunks = self._representatives
        numbers = (kinds[:, np.newaxis] + places).reshape(-1)
        ticks = np.zeros(len(numbers), dtype=np.int64)
        arrays = self.arrays(self.space.regions.take(numbers).codes)
        tables = self.simulator.tables
        kernel.blocking_bounds(tables, self.options, arrays, self._fastest, most_chunks, ticks)
        return ticks.reshape(len(kinds), len(places)).min(axis=1), amounts

    @cached_property
    def _representatives(self) -> tuple[IntArray, int]:
        """The places, among regions alike, of those without overlap and with the fewest chunks; and the most chunks."""
        product, columns = self.space.regions, self.space.parameter_set.columns
        codes = product.take(np.arange(product.alike)).codes
        chosen, most_chunks = np.ones(len(codes), dtype=bool), 1
        for position, column in enumerate(columns):
            if column.name in ("chunks", "overlap_gradients", "overlap_weights"):
                values = column.array[codes[:, position]]
                chosen &= values == values.min()
                most_chunks = max(most_chunks, int(values.max()))
        return np.flatnonzero(chosen), most_chunks

    @property
    def block_size(self) -> int:
        """Regions of a block: whole kinds that compute alike."""
        regions = self.space.regions
        size = min(max(BLOCK, regions.count // MOST_BLOCKS), LARGEST_BLOCK)
        return max(1, size // regions.alike) * regions.alike

    def prepare(self) -> None:
        """Make what is made once, before threads ask for it."""
        _ = self.masks, self.options, self._fastest, self._representatives

    def over_blocks(self, function: Callable[[int], Result]) -> Iterator[Result]:
        """Yield the function of the first region's number of every block, in order, worked on by every core."""
        yield from self.on_every_core(function, range(0, self.space.regions.count, self.block_size))

    def on_every_core(self, function: Callable[[Item], Result], items: Sequence[Item]) -> Iterator[Result]:
        """Yield the function of each item, in order; compiled code releases the interpreter's lock."""
        self.prepare()
        if len(items) <= 1:
            yield from map(function, items)
            return
        with ThreadPoolExecutor(max_workers=os.cpu_count()) as pool:
            yield from pool.map(function, items)


def _repeat(array: NDArray[Any], size: int) -> NDArray[Any]:
    """Return a writable array of `size` rows; a problem without structural columns is prepared as one row.

    Compiled code treats a read-only array as another type, and would be compiled once more for it.
    """
    return array if len(array) == size else np.repeat(array, size, axis=0)
