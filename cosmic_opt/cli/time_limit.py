"""The option `--time-limit` and the text of a time limit."""

from __future__ import annotations

from typing import Annotated

import typer

from cosmic_opt.errors import SpecError, Where
from cosmic_opt.units import TICKS_PER_SECOND, Unit, parse_exact

TimeLimit = Annotated[
    str | None, typer.Option("--time-limit", metavar="TIME", help="Stop after 60, '90 s' or '5 min'.")
]
LONGEST_S = 10**8
HINT = "write 60, '90 s', '5 min' or '1 h'"


def seconds_of(text: str) -> float:
    """Return a time limit in seconds; a bare number counts seconds.

    Raises:
        SpecError: no time, or not above 0 and at most 10^8 s.
    """
    where = Where("--time-limit")
    try:
        value, unit = parse_exact(text, where=where)
    except SpecError as error:
        raise SpecError(error.message, where=where, hint=HINT) from None
    seconds = value if unit is Unit.NONE else value / TICKS_PER_SECOND
    if unit not in (Unit.NONE, Unit.TIME) or not 0 < seconds <= LONGEST_S:
        raise SpecError(f"{text!r} is not a time limit", where=where, hint=HINT)
    return float(seconds)
