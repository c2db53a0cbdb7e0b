"""What a program may give a problem, checked where it comes in."""

from __future__ import annotations

from typing import TypeVar

from cosmic_opt.errors import SpecError, Where

Kind = TypeVar("Kind")


def whole(value: object, name: str, low: int = 0) -> int:
    """Return a whole number of at least `low`; NumPy's count, truth values do not.

    Raises:
        SpecError: it is something else, or less.
    """
    if isinstance(value, bool) or not hasattr(value, "__index__") or int(value.__index__()) < low:
        hint = f"give a whole number from {low} on"
        raise SpecError(f"{value!r} is no {name}", where=Where(key=name), hint=hint)
    return int(value.__index__())


def of_kind(value: object, kind: type[Kind], name: str, hint: str) -> Kind:
    """Return a value of a class.

    Raises:
        SpecError: it is something else.
    """
    if not isinstance(value, kind):
        raise SpecError(f"a {type(value).__name__} is no {name}", where=Where(key=name), hint=hint)
    return value
