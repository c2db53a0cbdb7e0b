"""What may be asked about the designs near an optimum, read and refused without loading the simulator."""

from __future__ import annotations

from fractions import Fraction

from cosmic_opt.errors import SpecError, Where
from cosmic_opt.units import parse_exact

TOP_LIMIT = 10_000


def share_of(text: str | float | Fraction, *, where: Where | None = None) -> Fraction:
    """Return "1%", "0.5 %" or a number (0.01) as a share of one.

    Raises:
        SpecError: no share, below 0, or text without a percent sign.
    """
    hint = "write for example 1% or '0.5 %'"
    if isinstance(text, str) and not text.rstrip().endswith("%"):
        raise SpecError(f"{text!r} is not a percentage", where=where, hint=hint)
    share = text if isinstance(text, Fraction) else parse_exact(text, where=where)[0]
    if share < 0:
        raise SpecError(f"{text!r} is below 0, but nothing is better than the optimum", where=where, hint=hint)
    return share


def number_of(number: int, *, where: Where | None = None) -> int:
    """Return how many designs are asked for.

    Raises:
        SpecError: none, or more than `TOP_LIMIT`.
    """
    if not 1 <= number <= TOP_LIMIT:
        hint = f"ask for 1 to {TOP_LIMIT:,} designs; 'enumerate --with step_time' lists all"
        raise SpecError(f"{number:,} designs are not ranked", where=where, hint=hint)
    return number
