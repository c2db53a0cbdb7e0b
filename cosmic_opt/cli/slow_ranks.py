"""The options of `simulate` that play every rank by itself."""

from __future__ import annotations

import re
from collections.abc import Sequence
from fractions import Fraction
from pathlib import Path
from typing import Annotated

import typer

from cosmic_opt.errors import SpecError, Where
from cosmic_opt.search.engine_names import EVENTS

SlowRank = Annotated[
    list[str] | None,
    typer.Option("--slow-rank", metavar="RANK=FACTOR", help="With events: this rank's compute takes FACTOR times."),
]
EveryRank = Annotated[bool, typer.Option("--every-rank", help="With events: play every rank by itself, slow or not.")]
SLOW_RANK = Where("--slow-rank")
EVERY_RANK = Where("--every-rank")
LEAST, MOST = Fraction(1, 1000), Fraction(1000)
"""Factors that a rank may be slowed by."""
_FORM = re.compile(r"(\d{1,9})=(\d{1,9}(?:\.\d{1,9})?)", re.ASCII)


def read_slow_ranks(texts: Sequence[str]) -> dict[int, Fraction]:
    """Return by rank how many times as long its compute takes; texts are "17=1.25".

    Raises:
        SpecError: another form, a factor out of range, or a rank named twice.
    """
    found = dict[int, Fraction]()
    for text in texts:
        match = _FORM.fullmatch(text)
        if match is None:
            hint = "write RANK=FACTOR: 17=1.25; a factor has no exponent, and 9 decimals at most"
            raise SpecError(f"{text!r} is no slow rank", where=SLOW_RANK, hint=hint)
        rank, factor = int(match[1]), Fraction(match[2])
        if not LEAST <= factor <= MOST:
            hint = f"a factor from {float(LEAST):g} to {float(MOST):g}"
            raise SpecError(f"rank {rank} is slowed by {match[2]}", where=SLOW_RANK, hint=hint)
        if rank in found:
            raise SpecError(f"rank {rank} is named twice", where=SLOW_RANK, hint="give each rank one factor")
        found[rank] = factor
    return found


def check_every_rank(engine: str, timeline: Path | None, option: str) -> None:
    """Refuse to play every rank by another engine, or into a timeline.

    Raises:
        SpecError: says why.
    """
    if engine != EVENTS:
        hint = "add --engine events: others know equal ranks only"
        raise SpecError("every rank is played by the event simulator", where=Where(option), hint=hint)
    if timeline is not None:
        hint = "leave out one of the two"
        raise SpecError("a timeline shows one NPU of each stage, not every rank", where=Where(option), hint=hint)
