"""Where along a sweep the best design changes: located on the grid of the swept number, by bisection.

The grid is every value of a parameter's domain, or every whole number of base units of a datum (each byte of a memory).
Two neighbours of the grid with different best designs are an exact breakpoint. A design often changes where the one on
the right stops being feasible, and that place needs no search to find: it is tried first.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

from cosmic_opt.analysis.relaxed_edits import spelled, value_spelled
from cosmic_opt.analysis.sweep import Point, Sweep
from cosmic_opt.errors import CosmicError, SpecError
from cosmic_opt.psa.domain import Value
from cosmic_opt.psa.evaluate import evaluate, feasible, holds
from cosmic_opt.psa.parameter_set import Column, DesignBatch
from cosmic_opt.psa.term import Apply
from cosmic_opt.units import Unit, parse_exact


@dataclass(frozen=True)
class Breakpoint:
    """Two points with different best designs, in the order of the sweep; `exact` when no value of the grid lies between
    them."""

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
    `column` is the swept parameter; None when data is swept. Along a falling sweep the places are the same, in its
    order.
    """
    grid = grid_of(sweep.over.values, column)
    found: list[Breakpoint] = []
    for left, right in pairwise(points):
        if sweep.differ(left, right):
            if grid is None:
                found.append(Breakpoint(left, right, exact=False))
            elif grid.position(left.value) > grid.position(right.value):
                rising = list(_Bisection(sweep, grid, solves).between(right, left))
                found += [Breakpoint(change.high, change.low, change.exact) for change in reversed(rising)]
            else:
                found += _Bisection(sweep, grid, solves).between(left, right)
    return found


@dataclass(frozen=True)
class _Look:
    """A design (None: it cannot be stated) at a position of the grid, and whether the structural rules allow it."""

    position: int
    design: DesignBatch | None
    allowed: bool


@dataclass
class _Bisection:
    """One pair of points being narrowed.

    `edges` keeps, per design, the neighbours of the grid between which it becomes feasible.
    """

    sweep: Sweep
    grid: Grid
    left_over: int
    edges: dict[tuple[tuple[str, Value], ...], tuple[int, int]] = field(default_factory=dict)

    def between(self, left: Point, right: Point) -> Iterator[Breakpoint]:
        """Yield the breakpoints between two points with different designs, in order."""
        low, high = self.grid.position(left.value), self.grid.position(right.value)
        if high - low <= 1 or self.left_over == 0:
            yield Breakpoint(left, right, exact=high - low == 1)
            return
        self.left_over -= 1
        middle = self.sweep.at(self.grid.text(self._probe(right, low, high)))
        # the right half first: there the probe is next to a breakpoint, and few searches finish it
        after = list(self.between(middle, right)) if self.sweep.differ(middle, right) else []
        if self.sweep.differ(left, middle):
            yield from self.between(left, middle)
        yield from after

    def _probe(self, right: Point, low: int, high: int) -> int:
        """Return where to look next, strictly between."""
        values = right.answer.design
        if isinstance(self.grid, DomainGrid) or not values:
            return (low + high) // 2
        design = tuple(values.items())
        edge = self.edges.get(design)
        if edge is None or edge[0] < low or edge[1] > high:
            first = self._look(low, values)
            if first.allowed:
                return (low + high) // 2
            edge = self.edges[design] = self._edge(first, self._look(high, values), values)
        excluded, allowed = edge
        return allowed if allowed < high else excluded

    def _edge(self, low: _Look, high: _Look, values: Mapping[str, Value]) -> tuple[int, int]:
        """Return neighbours between two positions, the first of which excludes the design, the second does not."""
        guessing = True
        while high.position - low.position > 1:
            middle = (low.position + high.position) // 2
            look = self._look(_guess(low, high) if guessing else middle, values)
            low, high = (low, look) if look.allowed else (look, high)
            guessing = not guessing  # so that no more than twice as many looks are needed as by halving alone
        return low.position, high.position

    def _look(self, position: int, values: Mapping[str, Value]) -> _Look:
        """Look at a design at a position of the grid."""
        try:
            parameter_set = self.sweep.bind_at(self.grid.text(position)).parameter_set
        except CosmicError:
            return _Look(position, None, allowed=False)
        if not all(values.get(column.name) in column.codes for column in parameter_set.columns):
            return _Look(position, None, allowed=False)
        design = parameter_set.design(values)
        return _Look(position, design, allowed=bool(feasible(design)[0]))


def _guess(low: _Look, high: _Look) -> int:
    """Return where the first rule that excludes a design would allow it if its sides moved evenly; else the middle."""
    slacks: list[int] = []
    if low.design is not None and high.design is not None:
        broken = next(
            rule.name
            for rule in low.design.parameter_set.constraints
            if not rule.simulated and not holds(rule, low.design)[0]
        )
        slacks = [*_slack(broken, low.design), *_slack(broken, high.design)]
    width = high.position - low.position
    if len(slacks) < 2 or slacks[0] >= slacks[1]:
        return low.position + width // 2
    short, spare = slacks
    root = low.position + -(short * width // (spare - short))
    return min(max(root, low.position + 1), high.position - 1)


def _slack(name: str, design: DesignBatch) -> Iterator[int]:
    """Yield by how much one design keeps a rule that is an inequality, below 0 where it breaks it; else nothing."""
    for rule in design.parameter_set.constraints:
        term = rule.term
        if rule.name == name and isinstance(term, Apply) and term.operator in ("<=", "<", ">=", ">"):
            left, right = (int(evaluate(side, design.value_columns(side.columns), 1)[0]) for side in term.operands)
            yield right - left if term.operator in ("<=", "<") else left - right
