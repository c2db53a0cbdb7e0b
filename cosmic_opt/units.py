"""Units at the edge. Inside, every number is an integer in one base unit per dimension.

Base units: bytes, bytes per second, FLOP per second, dollars, watts, the microjoule for energy, and the tick (one
picosecond) for time.
GB is 10^9 and GiB is 2^30. A bandwidth is per NPU and one direction.
"""

from __future__ import annotations

import re
from enum import Enum
from fractions import Fraction

from cosmic_opt.errors import SpecError, Where, nearest

TICKS_PER_SECOND = 10**12
MICROJOULES = 10**6
"""In a joule."""
MAX_CHARACTERS = 100
"""A number written with more characters is refused."""

LEAST_BARE_BYTES = 10**6
"""A smaller number of bytes typed without a unit is taken for one in another unit."""


class Unit(Enum):
    """The dimension of a number; the value is the name of its base unit."""

    NONE = "1"
    BYTES = "B"
    BYTES_PER_S = "B/s"
    FLOP_PER_S = "FLOP/s"
    TIME = "ps"
    DOLLARS = "$"
    POWER = "W"
    ENERGY = "uJ"

    @property
    def kind(self) -> str:
        """What a number of this unit is, in words."""
        return _KINDS[self]


_KINDS = {
    Unit.NONE: "a plain number",
    Unit.BYTES: "a size",
    Unit.BYTES_PER_S: "a bandwidth",
    Unit.FLOP_PER_S: "a compute rate",
    Unit.TIME: "a time",
    Unit.DOLLARS: "a price",
    Unit.POWER: "a power",
    Unit.ENERGY: "an energy",
}
_DECIMAL = {"": 1, "K": 10**3, "k": 10**3, "M": 10**6, "G": 10**9, "T": 10**12, "P": 10**15, "E": 10**18}
_BINARY = {"Ki": 2**10, "Mi": 2**20, "Gi": 2**30, "Ti": 2**40, "Pi": 2**50}
_TIME = {"ps": 1, "ns": 10**3, "us": 10**6, "ms": 10**9, "s": 10**12, "min": 60 * 10**12, "h": 3600 * 10**12}
_JOULES = {"uJ": Fraction(1, 10**6), "mJ": Fraction(1, 10**3)}


def _symbols() -> dict[str, tuple[Unit, Fraction]]:
    table: dict[str, tuple[Unit, Fraction]] = {"": (Unit.NONE, Fraction(1)), "%": (Unit.NONE, Fraction(1, 100))}
    for prefix, factor in {**_DECIMAL, **_BINARY}.items():
        table[f"{prefix}B"] = (Unit.BYTES, Fraction(factor))
        table[f"{prefix}B/s"] = (Unit.BYTES_PER_S, Fraction(factor))
    for prefix, factor in _DECIMAL.items():
        table[f"{prefix}b/s"] = (Unit.BYTES_PER_S, Fraction(factor, 8))
        for flop in ("FLOPS", "FLOP/s"):
            table[f"{prefix}{flop}"] = (Unit.FLOP_PER_S, Fraction(factor))
        table[f"{prefix}W"] = (Unit.POWER, Fraction(factor))
        for symbol, joules in (("J", 1), ("Wh", 3600)):
            table[f"{prefix}{symbol}"] = (Unit.ENERGY, Fraction(factor * joules * MICROJOULES))
    for symbol, part in _JOULES.items():
        table[symbol] = (Unit.ENERGY, part * MICROJOULES)
    for symbol, ticks in _TIME.items():
        table[symbol] = (Unit.TIME, Fraction(ticks))
    table["$"] = table["USD"] = (Unit.DOLLARS, Fraction(1))
    return table


SYMBOLS = _symbols()
_WORDS = {
    "sec": "s",
    "second": "s",
    "minute": "min",
    "hr": "h",
    "hour": "h",
    "byte": "B",
    "dollar": "$",
    "watt": "W",
    "kilowatt": "kW",
    "megawatt": "MW",
    "joule": "J",
    "percent": "%",
}
_KNOWN = (
    "known: ps, ns, us, ms, s, min, h; B, KB, MB, GB, TB, GiB, ...; GB/s, Gb/s, ...; TFLOPS, ...; W, kW, MW; "
    "J, kJ, kWh, ...; $, %"
)
_TEXT = re.compile(r"\s*([+-]?(?:\d[\d_]*)(?:\.\d+)?(?:[eE][+-]?\d+)?)\s*(\S*)\s*")


def parse_exact(
    text: str | int | float, *, where: Where | None = None, example: str = "'24 GB' or '50 GB/s'"
) -> tuple[Fraction, Unit]:
    """Return the exact value of `text` in its base unit, and its unit. `"1.5 GB"` is (1500000000, BYTES).

    Raises:
        SpecError: no number (the hint shows the `example`), an unknown unit, or a number out of range.
    """
    if isinstance(text, bool):
        raise SpecError(f"{text} is not a number", where=where)
    if isinstance(text, int):
        if abs(text) >= 10**MAX_CHARACTERS:
            raise SpecError("the number is out of range", where=where, hint=f"at most {MAX_CHARACTERS} digits")
        return Fraction(text), Unit.NONE
    if isinstance(text, str) and len(text) > MAX_CHARACTERS:
        raise SpecError(
            f"'{text[:20]}…' is too long for a number", where=where, hint=f"at most {MAX_CHARACTERS} characters"
        )
    match = _TEXT.fullmatch(repr(text) if isinstance(text, float) else text)
    if match is None:
        raise SpecError(f"{text!r} is not a number with a unit", where=where, hint=f"write for example {example}")
    number, symbol = match.groups()
    if symbol not in SYMBOLS:
        raise SpecError(f"unknown unit {symbol!r} in {text!r}", where=where, hint=_unit_hint(symbol))
    exponent = re.search(r"[eE][+-]?(\d+)$", number)
    if exponent and int(exponent.group(1)) > 60:
        raise SpecError(f"{text!r} is out of range", where=where, hint="exponents go up to 60")
    unit, factor = SYMBOLS[symbol]
    return Fraction(number.replace("_", "")) * factor, unit


def _last_digit(text: str | int | float) -> Fraction:
    """Return what the last written digit of a number that `parse_exact` reads is worth, in base units."""
    match = _TEXT.fullmatch(str(text))
    assert match is not None, "read before"
    mantissa, _, exponent = match[1].lower().partition("e")
    decimals = len(mantissa.partition(".")[2])
    return Fraction(10) ** (int(exponent or 0) - decimals) * SYMBOLS[match[2]][1]


def _unit_hint(symbol: str) -> str | None:
    """Return the unit that a symbol may stand for: as a word, or misspelt; else a few of each kind."""
    word = symbol.lower().rstrip("s") or symbol
    if word in _WORDS:
        return f"write {_WORDS[word]!r}"
    close = nearest(symbol, filter(None, SYMBOLS))
    return close if close is not None and close.startswith("did") else _KNOWN


def parse(text: str | int | float, unit: Unit, *, where: Where | None = None) -> int:
    """Return `text` as an integer number of base units of `unit`; a bare number is already in base units.

    A rule compares what its text says: 44,799.9 W is refused, and so is half a byte. Where the last digit that is
    written is worth a base unit or more, the nearest whole number is meant: 79.6 GiB, to a byte.

    Raises:
        SpecError: not a number, another unit, a bare number where time or energy is meant, or a fraction of a base
            unit.
    """
    value, found = parse_exact(text, where=where, example=repr(_EXAMPLES[unit]))
    if found is Unit.NONE and unit in NEEDED and value != 0:
        what, first, second = NEEDED[unit]
        hint = f"write for example '{text} {first}' or '{text} {second}'"
        raise SpecError(f"{text!r} needs a unit of {what}", where=where, hint=hint)
    if found is not unit and found is not Unit.NONE:
        raise SpecError(
            f"{text!r} is {found.kind}, but {unit.kind} is meant here",
            where=where,
            hint=f"write for example {_EXAMPLES[unit]!r}",
        )
    if value.denominator != 1 and unit is not Unit.NONE and _last_digit(text) >= 1:
        return round(value)
    if value.denominator != 1:
        low = value.numerator // value.denominator
        if unit is Unit.NONE:
            hint = f"write {low} or {low + 1}" + ("; a size or a time needs its unit" if found is unit else "")
            raise SpecError(f"{text!r} is not a whole number", where=where, hint=hint)
        hint = f"write {low} {unit.value} or {low + 1} {unit.value}"
        raise SpecError(f"{text!r} is not a whole number of {unit.value}", where=where, hint=hint)
    return int(value)


def missing_unit(value: int | str, unit: Unit, *, where: Where | None = None) -> str | None:
    """Return how to write a bare number that a person can hardly mean in bytes (or bytes/s); None where one can.

    Files hold base units, and so may a command line: nobody asks for 75 bytes of memory there, but for 80000000000.

    Raises:
        SpecError: text that is no number.
    """
    if unit not in (Unit.BYTES, Unit.BYTES_PER_S):
        return None
    exact, found = parse_exact(value, where=where) if isinstance(value, str) else (Fraction(value), Unit.NONE)
    if found is not Unit.NONE or not 0 < abs(exact) < LEAST_BARE_BYTES:
        return None
    shown = str(value).strip()
    in_bytes = f", or '{shown} {unit.value}' for bytes{unit.value.removeprefix('B')}"
    return f"write '{shown} G{unit.value}'{in_bytes if exact.denominator == 1 else ''}"


_EXAMPLES = {
    Unit.NONE: "8",
    Unit.BYTES: "24 GB",
    Unit.BYTES_PER_S: "50 GB/s",
    Unit.FLOP_PER_S: "312 TFLOPS",
    Unit.TIME: "500 ns",
    Unit.DOLLARS: "1000000 $",
    Unit.POWER: "700 W",
    Unit.ENERGY: "3 MJ",
}
NEEDED = {Unit.TIME: ("time", "ns", "us"), Unit.ENERGY: ("energy", "J", "kJ")}
"""Where a bare number means nothing: nobody thinks in their base units. Each with a word and two symbols."""


def show(value: int | float, unit: Unit) -> str:
    """Return `value` (base units) for a person: `show(24_000_000_000, Unit.BYTES)` is "24 GB"."""
    if unit is Unit.TIME:
        return show_seconds(value / TICKS_PER_SECOND)
    if unit is Unit.DOLLARS:
        return f"$ {value:,.0f}"
    if unit is Unit.NONE:
        return f"{value:,}"
    if unit is Unit.ENERGY:
        return show_joules(value / MICROJOULES)
    if unit is Unit.POWER:
        return _prefixed(value, "W", kilo="k")
    return _prefixed(value, {Unit.FLOP_PER_S: "FLOPS"}.get(unit, unit.value))


def show_joules(joules: float) -> str:
    """Return an energy with a sensible prefix: "329.005 MJ", "730 mJ"."""
    if 0 < abs(joules) < 1:
        return f"{1000 * joules:.6g} mJ"
    return _prefixed(joules, "J", kilo="k")


def _prefixed(value: float, suffix: str, *, kilo: str = "K") -> str:
    """Return a number of at least one of its prefix; `kilo` is how a thousand is written."""
    other = {"K": "k", "k": "K"}[kilo]
    for prefix, factor in reversed([(prefix, factor) for prefix, factor in _DECIMAL.items() if prefix != other]):
        if abs(value) >= factor:
            return f"{value / factor:.6g} {prefix}{suffix}"
    return f"{value:.6g} {suffix}"


def show_seconds(seconds: float) -> str:
    """Return a duration with five significant digits: "3.2051 ms"."""
    for symbol, scale in (("s", 1.0), ("ms", 1e-3), ("us", 1e-6), ("ns", 1e-9)):
        if abs(seconds) >= scale:
            return f"{seconds / scale:,.5g} {symbol}" if seconds / scale < 1e5 else f"{seconds / scale:,.0f} {symbol}"
    return f"{seconds / 1e-12:.5g} ps" if seconds else "0 s"
