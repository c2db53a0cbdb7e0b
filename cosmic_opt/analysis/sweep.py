"""The optimum as one number is swept, and where the best design changes."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from fractions import Fraction

from cosmic_opt.analysis.relaxed_edits import spelled
from cosmic_opt.analysis.what_if import Answer, answer
from cosmic_opt.catalog.bind import BoundInstance
from cosmic_opt.errors import SpecError, Where
from cosmic_opt.psa.family import family_of
from cosmic_opt.search.memo import RegionMemo
from cosmic_opt.units import Unit, parse_exact

MAX_POINTS = 1000


@dataclass(frozen=True)
class Range:
    """What to sweep: a name, and the texts of its values in order (each carries its unit)."""

    name: str
    values: tuple[str, ...]


@dataclass(frozen=True)
class Point:
    """One swept value and the optimum there. `changed` tells whether the best design differs from the point before."""

    value: str
    answer: Answer
    changed: bool


def parse_range(text: str) -> Range:
    """Return the range that `name=a,b,c`, `name=from:to:points` or `name=from:to:step` spells.

    Points are a bare number, equally spaced, ends included; a step has the unit of the ends, and the last value does
    not pass `to`, whether values rise or fall.

    Raises:
        SpecError: another form, mixed units, fewer than two values or more than 1,000.
    """
    where = Where("--over")
    name, equals, body = text.partition("=")
    hint = "write --over memory_capacity=24GB:192GB:8, --over bandwidth[3]=50GB/s:500GB/s:50GB/s or --over tp=1,2,4"
    if not equals or not name.strip() or not body.strip():
        raise SpecError(f"{text!r} is not name=values", where=where, hint=hint)
    if ":" not in body:
        values = tuple(dict.fromkeys(value.strip() for value in body.split(",")))
        if not all(values) or len(values) > MAX_POINTS:
            raise SpecError(f"{body!r} is not a list of values", where=where, hint=hint)
        return Range(name.strip(), values)
    parts = [part.strip() for part in body.split(":")]
    if len(parts) != 3:
        raise SpecError(f"{body!r} is not from:to:points", where=where, hint=hint)
    (low, unit), (high, high_unit), (third, third_unit) = (parse_exact(part, where=where) for part in parts)
    if unit is not high_unit or third_unit not in (Unit.NONE, unit):
        raise SpecError(f"{body!r} mixes units", where=where, hint="give both ends, and a step, in one unit")
    if unit is not Unit.NONE and third_unit is unit:
        points = Fraction(abs(high - low) // third + 1 if third > 0 else 0)
        step = third if high >= low else -third
    else:
        points, step = third, (high - low) / (third - 1) if third > 1 else Fraction(0)
    if points.denominator != 1 or not 2 <= points <= MAX_POINTS:
        raise SpecError(f"{body!r} has {points} points", where=where, hint=f"2 to {MAX_POINTS:,}")
    spelt = (spelled(round(low + step * number), unit) for number in range(int(points)))
    return Range(name.strip(), tuple(dict.fromkeys(spelt)))


@dataclass
class Sweep:
    """Searches along a range that share what each has proved.

    `bind_at` returns the problem with the swept name at a value.
    """

    bind_at: Callable[[str], BoundInstance]
    over: Range
    seed: int = 0
    memo: RegionMemo = field(default_factory=RegionMemo)
    last: Answer | None = None

    def points(self) -> Iterator[Point]:
        """Yield the optimum at every value."""
        previous: Point | None = None
        for value in self.over.values:
            point = self.at(value)
            changed = previous is not None and self.differ(previous, point)
            yield replace(point, changed=changed)
            previous = point

    def at(self, value: str) -> Point:
        """Return the optimum at a value, searched from the design found last."""
        start = (self.last.design,) if self.last is not None and self.last.design else ()
        self.last = answer(self.bind_at(value), seed=self.seed, start=start, memo=self.memo)
        return Point(value, self.last, changed=False)

    def differ(self, left: Point, right: Point) -> bool:
        """Tell whether two points have different best designs, the swept columns aside."""
        designs = [
            {name: value for name, value in point.answer.design.items() if family_of(name) != self.over.name}
            for point in (left, right)
        ]
        for design in designs:
            design.pop(self.over.name, None)
        return designs[0] != designs[1]
