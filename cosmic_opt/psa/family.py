"""Families of parameters: the indices a parameter is declared over, and the names of its members."""

from __future__ import annotations

import itertools
import math
import re
from dataclasses import dataclass
from functools import cached_property

_MEMBER = re.compile(r"([A-Za-z_]\w*)\s*\[([^\[\]]*)\]")
_LABEL = re.compile(r"[A-Za-z_]\w*|\d{1,9}")

MAX_AXES = 2


@dataclass(frozen=True, slots=True)
class IndexSet:
    """An index and its members in order: numbers from 0 for `dim`, names for `group`."""

    name: str
    members: tuple[str, ...]

    @property
    def named(self) -> bool:
        """Whether the members have names of their own."""
        return bool(self.members) and not self.members[0].isdecimal()


def numbered(name: str, size: int) -> IndexSet:
    """Return the index whose members are 0 to size - 1."""
    return IndexSet(name, tuple(map(str, range(size))))


@dataclass(frozen=True)
class Family:
    """One parameter (or datum) with a member for every combination of its indices, the last varying fastest."""

    name: str
    axes: tuple[IndexSet, ...]

    @cached_property
    def members(self) -> tuple[str, ...]:
        """The members' names: "bandwidth[0]", "extent[tp,0]"."""
        labels = itertools.product(*(axis.members for axis in self.axes))
        return tuple(member_name(self.name, row) for row in labels)

    @cached_property
    def indices(self) -> tuple[tuple[int, ...], ...]:
        """The position of each member on each axis, in the order of `members`."""
        return tuple(itertools.product(*(range(len(axis.members)) for axis in self.axes)))

    @property
    def size(self) -> int:
        """The number of members."""
        return math.prod(len(axis.members) for axis in self.axes)

    def member(self, positions: tuple[int, ...]) -> str:
        """Return the name of the member at a position on each axis."""
        return member_name(self.name, tuple(axis.members[p] for axis, p in zip(self.axes, positions, strict=True)))

    def describe(self) -> str:
        """Return what an index may be, for a hint."""
        runs = [
            f"{axis.name} is one of {', '.join(axis.members)}"
            if axis.named
            else f"indices run from 0 to {len(axis.members) - 1}"
            for axis in self.axes
        ]
        return "; ".join(runs)


def member_name(family: str, labels: tuple[str, ...]) -> str:
    """Return the name of a member: `family[label,label]`."""
    return f"{family}[{','.join(labels)}]"


def family_of(name: str) -> str:
    """Return the parameter or datum that a column's name belongs to: "bandwidth" of "bandwidth[0]" and of itself."""
    return name.partition("[")[0]


def split_member(text: str) -> tuple[str, tuple[str, ...] | None]:
    """Return the family and the labels that `text` names; None for a name without an index, or not of this form."""
    match = _MEMBER.fullmatch(text.strip())
    if not match:
        return text, None
    labels = tuple(label.strip() for label in match.group(2).split(","))
    return (match.group(1), labels) if all(map(_LABEL.fullmatch, labels)) else (text, None)
