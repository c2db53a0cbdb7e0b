"""Changes to an instance, as the command line or a program gives them."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from cosmic_opt.errors import SpecError, Where

_OUTSIDE_BRACKETS = re.compile(r",(?![^\[]*\])")
"""A comma that separates names, not the labels of one name such as `extent[tp,0]`."""


@dataclass(frozen=True)
class Edits:
    """What to change: `set` data, `fix` and `free` parameters, `require` and drop (`without`) rules.

    `set` and `fix` hold (name, text) pairs, later ones winning; texts carry units.
    """

    set: tuple[tuple[str, str], ...] = field(default=())
    fix: tuple[tuple[str, str], ...] = field(default=())
    free: tuple[str, ...] = field(default=())
    require: tuple[str, ...] = field(default=())
    without: tuple[str, ...] = field(default=())
    scope: str | None = None
    objective: str | None = None

    def then(self, other: Edits) -> Edits:
        """Return both changes, `other` after this one."""
        return Edits(
            set=self.set + other.set,
            fix=self.fix + other.fix,
            free=self.free + other.free,
            require=self.require + other.require,
            without=self.without + other.without,
            scope=other.scope or self.scope,
            objective=other.objective or self.objective,
        )


def parse_edits(
    *,
    set_: Sequence[str] = (),
    fix: Sequence[str] = (),
    free: Sequence[str] = (),
    require: Sequence[str] = (),
    without: Sequence[str] = (),
    scope: str | None = None,
    objective: str | None = None,
) -> Edits:
    """Return the edits that command-line options spell; `set_` and `fix` are `name=value` texts."""
    edits = Edits(
        set=tuple(_assignment(text, "--set") for text in set_),
        fix=tuple(_assignment(text, "--fix") for text in fix),
        free=tuple(name.strip() for text in free for name in _OUTSIDE_BRACKETS.split(text)),
        require=tuple(require),
        without=tuple(name.strip() for text in without for name in text.split(",")),
    )
    return replace(edits, scope=scope, objective=objective)


def _assignment(text: str, option: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not equals or not name.strip() or not value.strip():
        example = "memory_capacity=80GB" if option == "--set" else "tp=8"
        raise SpecError(f"{text!r} is not name=value", where=Where(option), hint=f"write {option} {example}")
    return name.strip(), value.strip()
