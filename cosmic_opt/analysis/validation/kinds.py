"""Kinds of measured rows: how a row is recognised by its fields, and what predicts it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from cosmic_opt._registry import Registry
from cosmic_opt.analysis.validation.confidence import Confidence
from cosmic_opt.analysis.validation.report import Ranked
from cosmic_opt.errors import SpecError

Row = Mapping[str, Any]
LARGEST = 1e18
"""No field of a row is larger: an exabyte, a billion seconds."""
SHOWN = 60


@dataclass(frozen=True, slots=True)
class Outcome:
    """What is predicted for a row, in the unit of its own value, and how the row is counted.

    `group` is what the row measures ("gemm", "all_reduce"), `gpu` the device it was read as, `gpus` how many.
    A row is `primary` when its fields state all that a prediction needs; the rule reads fields, never errors. A row
    that is `ranked` is compared by order. Rows of equal `choice` are ways to do the same job, the fastest of which one
    would choose; None where the value is no time. `confidence` is None where nothing was measured to judge it by.
    """

    predicted: float | None
    note: str | None
    group: str
    gpu: str
    gpus: int
    primary: bool = True
    ranked: Ranked | None = None
    choice: str | None = None
    confidence: Confidence | None = None


@dataclass(frozen=True, slots=True)
class RowKeys:
    """The keys of one kind of row: those that are `read`, `facts` that sources add, those inside `parts`."""

    read: tuple[str, ...]
    facts: tuple[str, ...] = ()
    parts: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    @property
    def known(self) -> frozenset[str]:
        """The keys that rows of this kind have."""
        return frozenset((*self.read, *self.facts))


@dataclass(frozen=True, slots=True)
class RowKind:
    """One kind of rows: `matches` looks at the fields, `predict` gives the outcome, `keys` are those such rows have.

    `predict` raises a SpecError for a row that cannot be read; the caller turns it into the row's note.
    """

    matches: Callable[[Row], bool]
    predict: Callable[[Row], Outcome]
    keys: RowKeys


ROW_KINDS: Registry[RowKind] = Registry("kind of rows")
"""Every kind, in order: the first that matches a row predicts it."""


def clip(value: object) -> str:
    """Return how a value is spelled, cut where it is long."""
    if isinstance(value, int) and not isinstance(value, bool) and value.bit_length() > 256:
        return "a number out of range"
    shown = repr(value)
    return shown if len(shown) <= SHOWN else f"{shown[:SHOWN]}…"


def text(row: Row, key: str) -> str:
    """Return a text field.

    Raises:
        SpecError: missing or no text.
    """
    value = row.get(key)
    if not isinstance(value, str) or not value:
        raise SpecError(f"{key!r} is {clip(value)}", hint="write text")
    return value


def number(row: Row, key: str) -> float:
    """Return a positive number of at most `LARGEST`.

    Raises:
        SpecError: missing, or no such number.
    """
    value = row.get(key)
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value <= LARGEST:
        raise SpecError(f"{key!r} is {clip(value)}", hint=f"write a number above zero, at most {LARGEST:g}")
    return float(value)


def whole(row: Row, key: str) -> int:
    """Return a positive whole number.

    Raises:
        SpecError: missing, or no such number.
    """
    value = number(row, key)
    if value != int(value):
        raise SpecError(f"{key!r} is {clip(value)}", hint="write a whole number")
    return int(value)
