"""The designs of least code among those that a census counts, however many there are."""

from __future__ import annotations

from bisect import insort
from collections.abc import Collection, Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from cosmic_opt.search.budget import Budget
from cosmic_opt.search.census import Census
from cosmic_opt.search.kernel.arrays import Regions
from cosmic_opt.search.space import Codes

Code = tuple[int, ...]
Masks = NDArray[np.bool_]


def least_designs(census: Census, number: int, skip: Collection[Code], budget: Budget) -> list[Code] | None:
    """Return the least codes that the census counts, ascending, without those to skip; None when time ran out.

    Regions are taken by the least code that each could hold, so most are not looked into.
    """
    best: list[Code] = []
    conceivable = _least_conceivable(census)
    for at in np.lexsort(conceivable.T[::-1]):
        if len(best) == number and tuple(conceivable[at].tolist()) >= best[-1]:
            break
        for code in _Region.of(census, int(census.regions[at])).codes():
            if budget.out_of_time():
                return None
            if len(best) == number and code >= best[-1]:
                break
            if code not in skip:
                insort(best, code)
                del best[number:]
    return best


def _least_conceivable(census: Census) -> Codes:
    """Return, for each region, the least code of every column on its own."""
    space = census.frontier.space
    codes = census.frontier.regions.codes[census.regions].copy()
    mask_of, masks = space.mask_of(codes), census.frontier.bounding.masks
    for dimension, options in enumerate(space.options):
        for at, column in enumerate(options.columns):
            rows = np.where(masks[:, dimension, : len(options)], options.rows[:, at], np.iinfo(np.int32).max)
            codes[:, column] = rows.min(axis=1)[mask_of]
    return codes[:, : space.model.designs]


@dataclass
class _Region:
    """One region, whose designs that count are walked through in the order of their codes."""

    census: Census
    arrays: Regions
    masks: Masks
    code: list[int]
    columns: list[tuple[int, int, int]]
    """Every open column in order: its position, and where it is an option's: the dimension (-1: inert), the place."""

    @staticmethod
    def of(census: Census, region: int) -> _Region:
        """Return the region of a number."""
        space, rows = census.frontier.space, np.array([region])
        arrays = census.frontier.region_arrays(rows)
        designs = space.model.designs
        columns = [
            (column, dimension, at)
            for dimension, options in enumerate(space.options)
            for at, column in enumerate(options.columns)
            if column < designs
        ]
        columns += [(column, -1, -1) for column in census.inert]
        code = census.frontier.regions.codes[region, :designs].tolist()
        return _Region(census, arrays, arrays.masks[arrays.mask_of].copy(), code, sorted(columns))

    def codes(self) -> Iterator[Code]:
        """Yield the codes of all its designs that count, ascending."""
        found = self._found(self.masks)
        if found:
            yield from self._walk(0, self.masks, whole=found == _size(self.masks))

    def _walk(self, at: int, masks: Masks, *, whole: bool) -> Iterator[Code]:
        """Yield the codes within `masks`, which hold some that count (`whole`: nothing else)."""
        if at == len(self.columns):
            yield tuple(self.code)
            return
        column, dimension, place = self.columns[at]
        if dimension < 0:
            for code in self.census.frontier.space.model.allowed[column].tolist():
                self.code[column] = code
                yield from self._walk(at + 1, masks, whole=whole)
            return
        rows = self.census.frontier.space.options[dimension].rows[:, place]
        present = np.unique(rows[masks[0, dimension, : len(rows)]]).tolist()
        for code in present:
            narrowed = masks.copy()
            narrowed[0, dimension, : len(rows)] &= rows == code
            found = _size(narrowed) if whole else self._found(narrowed) if len(present) > 1 else 1
            if found:
                self.code[column] = code
                all_count = whole or (len(present) > 1 and found == _size(narrowed))
                yield from self._walk(at + 1, narrowed, whole=all_count)

    def _found(self, masks: Masks) -> int:
        """Return how many designs within `masks` count, or some number above 0 if there are several."""
        tally = self.census.tally(np.zeros(1, dtype=np.int64))
        self.census.fill(self.arrays._replace(masks=masks, mask_of=np.zeros(1, dtype=np.int64)), tally, enough=0)
        return int(tally.counted[0, 0])


def _size(masks: Masks) -> int:
    """Return the combinations of the options within masks [1, D, O]."""
    size = 1
    for options in masks[0].sum(axis=1).tolist():
        size *= options
    return size
