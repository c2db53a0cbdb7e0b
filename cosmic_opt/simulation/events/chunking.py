"""What a buffer may be cut in: chunks of at least a byte, whose rounding to whole ticks does not add up."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction

from cosmic_opt.errors import LimitError, SpecError
from cosmic_opt.units import TICKS_PER_SECOND, Unit, show

MOST_PLAYED = 100_000
"""Chunks of one collective that are played by events: 25 to 100 us each on one core of a server."""
TICKS_PER_NS = TICKS_PER_SECOND // 10**9
DRIFT_PER_CENT = 1
"""A phase of a chunk is rounded once to a tick. All roundings together may be this part of the time, or 1 ns."""


@dataclass(frozen=True, slots=True)
class Occupation:
    """What one phase of one chunk occupies a dimension for, in exact ticks, and how many chunks have that phase."""

    dim: int
    ticks: Fraction
    chunks: int

    @property
    def drift_ticks(self) -> Fraction:
        """Return how far rounding may move the phases of all its chunks."""
        return self.chunks * abs(round(self.ticks) - self.ticks)


def check_payload(size_bytes: int, chunks: int) -> None:
    """Refuse a size or a number of chunks that is no whole number or too small.

    Raises:
        SpecError: names it.
    """
    for name, value, least in (("size_bytes", size_bytes, 0), ("chunks", chunks, 1)):
        if type(value) is not int or value < least:
            raise SpecError(f"{name} is {value!r}", hint=f"write a whole number of at least {least}")


def check_chunks(size_bytes: int, chunks: int) -> None:
    """Refuse a payload as `check_payload` does, and chunks of less than a byte.

    Raises:
        SpecError: says how many there may be.
    """
    check_payload(size_bytes, chunks)
    most = max(size_bytes, 1)
    if chunks > most:
        raise SpecError(
            f"{size_bytes:,} bytes cannot be cut in {chunks:,} chunks",
            hint=f"at most one chunk per byte: {most:,}",
        )


def check_played(chunks: int) -> None:
    """Refuse more chunks than events play in seconds.

    Raises:
        LimitError: says how many there may be.
    """
    if chunks > MOST_PLAYED:
        raise LimitError(f"{chunks:,} chunks are too many to play by events", hint=f"at most {MOST_PLAYED:,} chunks")


def check_drift(occupations: Mapping[object, Occupation], chunks: int, time_ticks: int) -> None:
    """Refuse a time in which the rounding of single chunks adds up to more than DRIFT_PER_CENT and 1 ns.

    No more than total work / (51 dimensions · phases) chunks are always accepted: their roundings, half a tick each,
    stay below a hundredth of the busiest dimension's work.

    Raises:
        SpecError: says how long a chunk takes and how many there may be.
    """
    parts = list(occupations.values())
    drift = sum((part.drift_ticks for part in parts), Fraction(0))
    if chunks == 1 or drift <= TICKS_PER_NS or 100 * drift <= DRIFT_PER_CENT * time_ticks:
        return
    work = sum((part.chunks * part.ticks for part in parts), Fraction(0))
    visits = Fraction(sum(part.chunks for part in parts), chunks)
    most = max(1, int(work / (51 * len({part.dim for part in parts}) * visits)))
    worst = max(parts, key=lambda part: part.drift_ticks)
    raise SpecError(
        f"a chunk takes {float(worst.ticks):.3g} ps on dimension {worst.dim}; in whole ps, {chunks:,} of them are "
        f"{show(float(drift), Unit.TIME)} off",
        hint=f"cut the buffer in at most {most:,} chunks",
    )
