"""Domains: what values a parameter may take. A domain is resolved to a tuple once its names are known."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

from cosmic_opt.errors import LimitError, SpecError, Where, nearest

Value = int | str
"""A value of a parameter or a datum: an integer in base units, or the name of a category."""

MAX_VALUES = 100_000
"""More values than this in one domain is refused: the feasible set would be tabulated per value."""


class Domain(Protocol):
    """The declared range of one parameter."""

    def resolve(self, data: Mapping[str, Value], where: Where) -> tuple[Value, ...]:
        """Return the values, in declared order, without repeats; never empty."""


@dataclass(frozen=True, slots=True)
class Explicit:
    """Listed values."""

    values: tuple[Value, ...]

    def resolve(self, data: Mapping[str, Value], where: Where) -> tuple[Value, ...]:
        """Return the listed values."""
        if not self.values:
            raise SpecError("the domain is empty", where=where, hint="list at least one value")
        if len(set(self.values)) < len(self.values):
            repeated = next(value for value, times in Counter(self.values).items() if times > 1)
            raise SpecError(f"{repeated!r} is listed twice", where=where, hint="list each value once")
        return self.values


@dataclass(frozen=True, slots=True)
class Range:
    """`low`, `low + step`, … up to and including `high`."""

    low: int | str
    high: int | str
    step: int

    def resolve(self, data: Mapping[str, Value], where: Where) -> tuple[Value, ...]:
        """Return the arithmetic sequence; `high` counts when the step reaches it."""
        low, high = _number(self.low, data, where), _number(self.high, data, where)
        if self.step <= 0:
            raise SpecError(f"the step must be positive, not {self.step}", where=where)
        if low > high:
            raise SpecError(f"the range starts at {low}, above its end {high}", where=where, hint="write [low, high]")
        _check_size((high - low) // self.step + 1, where)
        return tuple(range(low, high + 1, self.step))


@dataclass(frozen=True, slots=True)
class Doublings:
    """Whole numbers in [low, high], every one up to `2 * per_doubling`, then as many in each doubling.

    A step is at most one part in `per_doubling` of the value: from `per_doubling * 2^k` on, the multiples of 2^k.
    """

    low: int | str
    high: int | str
    per_doubling: int

    def resolve(self, data: Mapping[str, Value], where: Where) -> tuple[Value, ...]:
        """Return the numbers in ascending order; an end counts when a step reaches it."""
        low, high = _number(self.low, data, where), _number(self.high, data, where)
        if self.per_doubling < 1:
            raise SpecError(f"per_doubling is {self.per_doubling}", where=where, hint="give at least 1")
        if not 1 <= low <= high:
            raise SpecError(
                f"per_doubling needs a range of positive numbers, not [{low}, {high}]",
                where=where,
                hint="write [low, high]",
            )
        values: list[Value] = []
        step, end = 1, 2 * self.per_doubling
        first = low
        while first <= high:
            part = range(-(-first // step) * step, min(end, high) + 1, step)
            _check_size(len(values) + len(part), where)
            values.extend(part)
            first, step, end = max(end + 1, low), 2 * step, 2 * end
        if not values:
            raise SpecError(f"no step lies in [{low}, {high}]", where=where, hint="raise per_doubling")
        return tuple(values)


@dataclass(frozen=True, slots=True)
class PowersOf:
    """The powers of `base` in [low, high]; the bounds may name instance data."""

    base: int
    low: int | str
    high: int | str

    def resolve(self, data: Mapping[str, Value], where: Where) -> tuple[Value, ...]:
        """Return the powers in ascending order."""
        low, high = _number(self.low, data, where), _number(self.high, data, where)
        if self.base < 2:
            raise SpecError(f"powers_of needs a base of at least 2, not {self.base}", where=where)
        values: list[Value] = []
        power = 1
        while power <= high:
            if power >= low:
                values.append(power)
            power *= self.base
        if not values:
            raise SpecError(f"no power of {self.base} lies in [{low}, {high}]", where=where)
        return tuple(values)


@dataclass(frozen=True, slots=True)
class DivisorsOf:
    """Every positive divisor of `of` in [low, high]."""

    of: int | str
    low: int | str = 1
    high: int | str | None = None

    def resolve(self, data: Mapping[str, Value], where: Where) -> tuple[Value, ...]:
        """Return the divisors in ascending order."""
        number = _number(self.of, data, where)
        if number < 1:
            raise SpecError(f"divisors_of needs a positive number, not {number}", where=where)
        if number > 10**12:
            raise SpecError(f"divisors_of {number} is too large", where=where, hint="up to 10^12")
        low = _number(self.low, data, where)
        high = number if self.high is None else _number(self.high, data, where)
        small = [divisor for divisor in range(1, int(number**0.5) + 1) if number % divisor == 0]
        divisors = sorted({*small, *(number // divisor for divisor in small)})
        values: tuple[Value, ...] = tuple(divisor for divisor in divisors if low <= divisor <= high)
        if not values:
            raise SpecError(f"no divisor of {number} lies in [{low}, {high}]", where=where)
        return values


def _check_size(count: int, where: Where) -> None:
    if count > MAX_VALUES:
        raise LimitError(
            f"a domain of {count:,} values", where=where, hint=f"at most {MAX_VALUES:,}: use a larger step"
        )


def _number(bound: int | str, data: Mapping[str, Value], where: Where) -> int:
    """Return `bound`, looked up in the instance's data when it is a name."""
    if isinstance(bound, int):
        return bound
    if bound not in data:
        raise SpecError(
            f"the domain names {bound!r}, which the instance does not give",
            where=where,
            hint=nearest(bound, data),
        )
    value = data[bound]
    if not isinstance(value, int):
        raise SpecError(f"{bound!r} is {value!r}, not a number", where=where)
    return value
