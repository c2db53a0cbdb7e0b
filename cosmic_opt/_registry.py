"""A named table of interchangeable parts (topology blocks, collectives, agents, quantities)."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Generic, TypeVar

from cosmic_opt.errors import SpecError, Where, nearest

T = TypeVar("T")


class Registry(Generic[T]):
    """Maps a name to a part; a new part registers itself in its own file."""

    def __init__(self, kind: str) -> None:
        self.kind = kind
        self._entries: dict[str, T] = {}

    def register(self, name: str) -> Callable[[T], T]:
        """Return a decorator that enters its argument under `name`."""

        def enter(part: T) -> T:
            assert name not in self._entries, f"{self.kind} {name!r} is registered twice"
            self._entries[name] = part
            return part

        return enter

    def get(self, name: str, *, where: Where | None = None) -> T:
        """Return the part called `name`, or raise a SpecError that names the nearest one."""
        if name not in self._entries:
            raise SpecError(f"unknown {self.kind} {name!r}", where=where, hint=nearest(name, self._entries))
        return self._entries[name]

    def __contains__(self, name: object) -> bool:
        return name in self._entries

    def __iter__(self) -> Iterator[str]:
        return iter(self._entries)

    def names(self) -> tuple[str, ...]:
        """Return every registered name, in order of registration."""
        return tuple(self._entries)
