"""What a row says was measured: its metric in one spelling, its value, and whether the value can be one at all."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from cosmic_opt.errors import SpecError, nearest

VALUES = ("time_ns", "value", "cycles_ns")
"""Fields that hold what was measured, the first that does."""
SECONDS = {"s": 1.0, "ms": 1e3, "us": 1e6, "ns": 1e9}
"""Units of time at the end of a metric's name, per second."""
SHORTEST_S, LONGEST_S = 1e-7, 1e9
"""No device starts a kernel in 100 ns, and no run lasts 30 years."""
UNUSABLE = "the measured value is not usable"
LEAST, MOST = 1e-6, 1e15
"""Plausible rates and sizes, in whatever unit a row has."""
_WORDS = (
    (r"(?<=[a-z])(?=[A-Z][a-z])", "_"),
    (r"/", "_per_"),
    (r"[\s\-()]+", "_"),
)
_UNITS = {"second": "s", "seconds": "s", "sec": "s", "secs": "s", "millis": "ms", "milliseconds": "ms", "micros": "us"}
_UNITS |= {"microseconds": "us", "gpus": "gpu", "device": "gpu", "chip": "gpu", "token": "tokens", "gbps": "gb_s"}


def plain_metric(name: str) -> str:
    """Return a metric in lower case, words joined by underscores, units abbreviated: "Tokens/sec/GPU" has two `per`."""
    for pattern, replacement in _WORDS:
        name = re.sub(pattern, replacement, name.strip())
    return "_".join(_UNITS.get(word, word) for word in name.lower().split("_") if word)


def metric_of(name: str, known: Sequence[str], aliases: Mapping[str, str]) -> tuple[str, float]:
    """Return which of the `known` metrics a name means, and how many of the name's units one of that metric's is.

    A known metric that ends in `_s` may also be given in ms, us or ns: "step_time_ms" is ("step_time_s", 1000).

    Raises:
        SpecError: it is none of them.
    """
    plain = plain_metric(name)
    if plain in known:
        return plain, 1.0
    if plain in aliases:
        return aliases[plain], 1.0
    stem, _, unit = plain.rpartition("_")
    if unit in SECONDS and not stem.endswith("per"):
        for candidate in (f"{stem}_s", aliases.get(stem, ""), aliases.get(f"{stem}_s", "")):
            if candidate in known and candidate.endswith("_s"):
                return candidate, SECONDS[unit]
    raise SpecError(f"unknown metric {name[:60]!r}", hint=nearest(plain[:60], known))


def measured_of(row: Mapping[str, Any]) -> float | None:
    """Return what was measured; None where a row does not say, or `unusable` says why it does not count."""
    key = _key(row)
    if key is None or unusable(row) is not None:
        return None
    value: float = row[key]
    return value


def unusable(row: Mapping[str, Any]) -> str | None:
    """Return why the measured value of a row cannot be one; None where it can, or there is none."""
    key = _key(row)
    value = None if key is None else row[key]
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float):
        return f"{UNUSABLE}: it is no number"
    least, most = (0.0, LONGEST_S * 1e9) if key != "value" else _plausible(str(row.get("metric", "time_s")))
    if key != "value" and value == 0:
        return None  # a collective of one NPU takes no time
    if not value > 0 or not least <= value <= most:
        shown = f"{value:g}" if isinstance(value, float) or abs(value) < 10**15 else "a number out of range"
        return f"{UNUSABLE}: {shown} is no positive number of plausible size"
    return None


def _key(row: Mapping[str, Any]) -> str | None:
    return next((key for key in VALUES if row.get(key) is not None), None)


def _plausible(metric: str) -> tuple[float, float]:
    stem, _, unit = plain_metric(metric).rpartition("_")
    if unit in SECONDS and not stem.endswith(("per", "gb")):
        return SHORTEST_S * SECONDS[unit], LONGEST_S * SECONDS[unit]
    return LEAST, MOST
