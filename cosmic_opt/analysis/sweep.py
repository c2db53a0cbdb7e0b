"""The optimum as one number is swept, and where the best design changes."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import pairwise

from cosmic_opt.analysis.what_if import Answer, answer
from cosmic_opt.catalog.bind import BoundInstance
from cosmic_opt.errors import SpecError, Where
from cosmic_opt.psa.domain import Value
from cosmic_opt.units import SYMBOLS, Unit, parse_exact

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
    """Return the range that `name=a,b,c` or `name=from:to:points` spells (equally spaced, ends included).

    Raises:
        SpecError: another form, mixed units, fewer than two points or more than 1,000.
    """
    where = Where("--over")
    name, equals, body = text.partition("=")
    hint = "write --over memory_capacity=24GB:192GB:8 or --over tp=1,2,4"
    if not equals or not name.strip() or not body.strip():
        raise SpecError(f"{text!r} is not name=values", where=where, hint=hint)
    if ":" not in body:
        values = tuple(value.strip() for value in body.split(","))
        if not all(values) or len(values) > MAX_POINTS:
            raise SpecError(f"{body!r} is not a list of values", where=where, hint=hint)
        return Range(name.strip(), values)
    parts = body.split(":")
    if len(parts) != 3 or not parts[2].strip().isdigit():
        raise SpecError(f"{body!r} is not from:to:points", where=where, hint=hint)
    points = int(parts[2])
    if not 2 <= points <= MAX_POINTS:
        raise SpecError(f"{points} points", where=where, hint=f"2 to {MAX_POINTS:,}")
    (low, low_unit), (high, high_unit) = (parse_exact(part.strip(), where=where) for part in parts[:2])
    if low_unit is not high_unit:
        raise SpecError(f"{body!r} mixes units", where=where, hint="give both ends in one unit")
    step = (high - low) / (points - 1)
    return Range(name.strip(), tuple(_spell(low + step * number, low_unit) for number in range(points)))


def _spell(value: Fraction, unit: Unit) -> str:
    """Return a value as text that reads back exactly (rounded to whole base units), in its largest unit."""
    whole = round(value)
    symbols = [(factor, symbol) for symbol, (kind, factor) in SYMBOLS.items() if kind is unit and factor >= 1]
    for factor, symbol in sorted(symbols, key=lambda pair: (-pair[0], pair[1])):
        if "i" not in symbol and symbol not in ("min", "h", "%") and whole % factor == 0 and whole >= factor:
            return f"{whole // factor} {symbol}".strip()
    return str(whole)


def sweep(bind_at: Callable[[str], BoundInstance], over: Range, *, seed: int = 0) -> Iterator[Point]:
    """Yield the optimum at every value, each search starting from the answer before.

    `bind_at` returns the problem with the swept name at a value.
    """
    previous: Answer | None = None
    start: tuple[Mapping[str, Value], ...] = ()
    for value in over.values:
        found = answer(bind_at(value), seed=seed, start=start)
        swept = {over.name}
        changed = previous is not None and _without(previous.design, swept) != _without(found.design, swept)
        yield Point(value, found, changed)
        previous = found
        start = (found.design,) if found.design else start


def _without(design: Mapping[str, Value], names: set[str]) -> dict[str, Value]:
    return {name: value for name, value in design.items() if name not in names}


def breakpoints(points: Sequence[Point]) -> list[tuple[str, str]]:
    """Return the pairs of neighbouring values between which the best design changes."""
    return [(left.value, right.value) for left, right in pairwise(points) if right.changed]
