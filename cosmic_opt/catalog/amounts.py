"""Amounts in files: numbers above zero, with their units."""

from __future__ import annotations

from cosmic_opt.psa.document import Entry
from cosmic_opt.units import Unit, show

LARGEST = 10**24
"""No device has more FLOP/s, bytes or bytes/s."""


def positive(entry: Entry, unit: Unit) -> int:
    """Return a number above zero, in base units.

    Raises:
        SpecError: it is not, or above `LARGEST`.
    """
    value = entry.quantity(unit)
    if value <= 0:
        raise entry.fail(f"{entry.value!r} is not positive", "give a number above zero")
    if value > LARGEST:
        raise entry.fail(f"{entry.value!r} is too large", f"at most {show(LARGEST, unit)}")
    return value
