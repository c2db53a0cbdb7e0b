"""Where along a sweep the best design changes: located on the grid of the swept number, by bisection.

The grid is every value of a parameter's domain, or every whole number of base units of a datum (each byte of a memory).
Two neighbours of the grid with different best designs are an exact breakpoint. A design often changes where the one on
the right stops being feasible, and that place needs no search to find: it is tried first.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

from cosmic_opt.analysis.relaxed_edits import spelled, value_spelled
from cosmic_opt.analysis.sweep import Point, Sweep
from cosmic_opt.errors import CosmicError, SpecError
from cosmic_opt.psa.evaluate import feasible
from cosmic_opt.psa.parameter_set import Column
from cosmic_opt.units import Unit, parse_exact


@dataclass(frozen=True)
class Breakpoint:
    """Two points with different best designs; `exact` when no value of the grid lies between them."""

    low: Point
    high: Point
    exact: bool


@dataclass(frozen=True)
class DataGrid:
    """Every whole number of base units."""

    unit: Unit

    def position(self, text: str) -> int:
        """Return the number that a text spells."""
        return round(parse_exact(text)[0])

    def text(self, position: int) -> str:
        """Return a number as text that reads back exactly."""
        return spelled(position, self.unit)


@dataclass(frozen=True)
class DomainGrid:
    """The values of a parameter's domain, in its order."""

    column: Column

    def position(self, text: str) -> int:
        """Return the place of a value in the domain."""
        spellings = {value_spelled(self.column, value): code for value, code in self.column.codes.items()}
        if text in spellings:
            return spellings[text]
        value, _ = parse_exact(text)
        return self.column.codes[int(value)]

    def text(self, position: int) -> str:
        """Return a value as `--fix` takes it."""
        return value_spelled(self.column, self.column.values[position])


Grid = DataGrid | DomainGrid


def grid_of(values: Sequence[str], column: Column | None) -> Grid | None:
    """Return the grid of swept values; None where they are not numbers (names of a datum) or not all on one."""
    if column is not None:
        grid: Grid = DomainGrid(column)
        try:
            _ = [grid.position(text) for text in values]
        except (SpecError, KeyError):
            return None
        return grid
    try:
        units = {unit for _, unit in map(parse_exact, values)} - {Unit.NONE}
    except SpecError:
        return None
    return DataGrid(units.pop() if units else Unit.NONE) if len(units) <= 1 else None


def breakpoints(sweep: Sweep, points: Sequence[Point], column: Column | None, solves: int) -> list[Breakpoint]:
    """Return, between neighbouring points with different best designs, where the design changes.

    A change is narrowed with at most `solves` more searches for each pair of points: to neighbours of the grid where
    they suffice, else to an interval. A design that comes and goes between two points with equal designs is not seen.
    `column` is the swept parameter; None when data is swept.
    """
    grid = grid_of(sweep.over.values, column)
    found: list[Breakpoint] = []
    for left, right in pairwise(points):
        if sweep.differ(left, right):
            if grid is None or grid.position(left.value) > grid.position(right.value):
                found.append(Breakpoint(left, right, exact=False))
            else:
                found += _Bisection(sweep, grid, solves).between(left, right)
    return found


@dataclass
class _Bisection:
    """One pair of points being narrowed."""

    sweep: Sweep
    grid: Grid
    left_over: int
    solved: dict[int, Point] = field(default_factory=dict)

    def between(self, left: Point, right: Point) -> Iterator[Breakpoint]:
        """Yield the breakpoints between two points with different designs, in order."""
        low, high = self.grid.position(left.value), self.grid.position(right.value)
        if high - low <= 1 or self.left_over == 0:
            yield Breakpoint(left, right, exact=high - low == 1)
            return
        self.left_over -= 1
        middle = self.sweep.at(self.grid.text(self._probe(left, right, low, high)))
        # the right half first: there the probe is next to a breakpoint, and few searches finish it
        after = list(self.between(middle, right)) if self.sweep.differ(middle, right) else []
        if self.sweep.differ(left, middle):
            yield from self.between(left, middle)
        yield from after

    def _probe(self, left: Point, right: Point, low: int, high: int) -> int:
        """Return where to look next, strictly between."""
        if isinstance(self.grid, DomainGrid) or not right.answer.design or self._allows(low, right):
            return (low + high) // 2
        excluded, allowed = low, high
        while allowed - excluded > 1:
            middle = (excluded + allowed) // 2
            if self._allows(middle, right):
                allowed = middle
            else:
                excluded = middle
        return allowed if allowed < high else excluded

    def _allows(self, position: int, point: Point) -> bool:
        """Tell whether a point's best design obeys the structural rules at another value."""
        try:
            parameter_set = self.sweep.bind_at(self.grid.text(position)).parameter_set
        except CosmicError:
            return False
        values = point.answer.design
        if not all(values.get(column.name) in column.codes for column in parameter_set.columns):
            return False
        return bool(feasible(parameter_set.design(values))[0])
