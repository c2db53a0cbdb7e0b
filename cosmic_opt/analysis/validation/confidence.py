"""How sure the prediction of a row is: the input it hides, its interval, and what it extrapolates."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from cosmic_opt.catalog.measured_parts import OTHER, load_measured_parts

LEAST_SHARE = 0.1
SIZES = ("m", "n", "k", "batch", "seq", "context", "heads", "kv_heads", "head_dim", "gpus", "size_bytes", "mbs", "pp")
"""Fields of kernels, collectives and memory that a fit covers a range of."""


@dataclass(frozen=True, slots=True)
class Confidence:
    """How sure a prediction is.

    Attributes:
        hidden_input: What is usually not stated and moves the value most.
        interval: Least and greatest value, in the row's unit, between which a measurement lies nine times in ten.
        extrapolates: What lies outside the rows that were fitted.
    """

    hidden_input: str
    interval: tuple[float, float]
    extrapolates: tuple[str, ...]


def confidence(row: Mapping[str, Any], group: str, device: str, predicted: float, hidden_input: str) -> Confidence:
    """Return how sure a row of a kernel, a collective or memory is, from the rows of its group on its device."""
    parts = load_measured_parts()
    part = parts.get(f"{group} {device}")
    found = [] if part is not None else [f"no row of {group} on {device} was fitted"]
    for name, (low, high) in ({} if part is None else part.ranges).items():
        value = row.get(name)
        if isinstance(value, int | float) and not low <= value <= high:
            found.append(f"{name} {value:g} lies outside the fitted {low:g} to {high:g}")
    p90 = None if part is None else part.p90
    other = parts[OTHER].p90 or 0.0
    if p90 is None or found:
        p90 = max(other, p90 or 0.0)
    return Confidence(hidden_input, interval_of(predicted, p90), tuple(found))


def interval_of(predicted: float, p90: float) -> tuple[float, float]:
    """Return the values a measurement lies between if |predicted / measured - 1| is at most `p90`."""
    return predicted / (1 + p90), predicted / max(1 - p90, LEAST_SHARE)
