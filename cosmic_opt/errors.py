"""Every error a user can meet. Each says what is wrong, where, and what to write instead."""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Where:
    """A place in the user's own input: a file or command-line option, a line, a key path."""

    file: str | None = None
    line: int | None = None
    key: str | None = None

    def __str__(self) -> str:
        place = self.file or ""
        if self.line is not None:
            place = f"{place}:{self.line}" if place else f"line {self.line}"
        if self.key:
            place = f"{place}: {self.key}" if place else self.key
        return place


class CosmicError(Exception):
    """Base of all our errors."""

    def __init__(self, message: str, *, where: Where | None = None, hint: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.where = where
        self.hint = hint

    def __str__(self) -> str:
        text = self.message
        if self.where is not None and str(self.where):
            text = f"{self.where}: {text}"
        if self.hint:
            text = f"{text}\n  hint: {self.hint}"
        return text


class SpecError(CosmicError):
    """Input that does not mean anything: a bad file, rule, unit, name or option."""


class InfeasibleError(CosmicError):
    """A design was asked for, or scored, that the declared rules exclude."""


class LimitError(CosmicError):
    """A stated limit (size, time, range of a number) was reached before there was an answer."""


class EngineDisagreement(CosmicError):  # noqa: N818 - the term the documentation uses
    """Two exact engines differ. Always a bug of ours; never caught."""


MOST_LISTED = 20
"""Names that a hint lists; of more, it lists the nearest."""
NEAREST_LISTED = 10


def nearest(name: str, names: Iterable[str]) -> str | None:
    """Return a hint that names the closest of `names`, those it is a word of, or lists them: of many, the nearest.

    Case does not count: H100 is nearest to h100-sxm.
    """
    known = sorted({str(candidate) for candidate in names})
    close = close_names(name, known, most=2)
    close = close or [candidate for candidate in known if name.lower() in candidate.lower().split("_")]
    if close:
        return "did you mean " + " or ".join(repr(candidate) for candidate in close) + "?"
    if not known:
        return None
    if len(known) <= MOST_LISTED:
        return f"known: {', '.join(known)}"
    ranked = sorted(known, key=lambda one: (-difflib.SequenceMatcher(None, name.lower(), one.lower()).ratio(), one))
    return f"known, nearest first: {', '.join(ranked[:NEAREST_LISTED])} and {len(known) - NEAREST_LISTED} more"


def close_names(name: str, names: Iterable[str], *, most: int) -> list[str]:
    """Return up to `most` of the names that `name` may be a misspelling of, in any case, the likeliest first."""
    spellings: dict[str, list[str]] = {}
    for one in names:
        spellings.setdefault(one.lower(), []).append(one)
    close = difflib.get_close_matches(name.lower(), spellings, n=most, cutoff=0.6)
    return [one for each in close for one in spellings[each]][:most]
