"""What a study is of: the problem, the program, the seed and the search; and what differs between two of them."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from hashlib import sha256
from importlib.metadata import version
from typing import Any

from cosmic_opt.catalog.bind import BoundInstance
from cosmic_opt.catalog.digest import problem_content, program_digest
from cosmic_opt.catalog.instance_file import InstanceSpec

MOST = 5
"""Differences that are named."""


@dataclass(frozen=True)
class Identity:
    """Everything that decides what a search does. `content` is the bound problem as canonical JSON."""

    instance: str
    content: str
    program: str
    version: str
    seed: str
    search: str
    """"hybrid", or "agent NAME" where one ran alone, with " native" on the raw grid; " by events" if they score."""

    @property
    def problem(self) -> str:
        """The digest of the bound problem, as in a certificate."""
        return sha256(self.content.encode()).hexdigest()

    def rows(self) -> dict[str, str]:
        """Return the identity as a study keeps it."""
        return asdict(self)

    @staticmethod
    def of_rows(rows: Mapping[str, str]) -> Identity:
        """Return the identity that a study keeps; KeyError when a row is missing."""
        return Identity(*(rows[name] for name in ("instance", "content", "program", "version", "seed", "search")))


def identity_of(
    spec: InstanceSpec,
    instance: BoundInstance,
    *,
    seed: int,
    agent: str | None = None,
    native: bool = False,
    by_events: bool = False,
) -> Identity:
    """Return the identity of a search that is about to begin."""
    search = "hybrid" if agent is None else f"agent {agent}{' native' if native else ''}"
    search += " by events" if by_events else ""
    name = f"{instance.name} (scope {instance.scope})" if instance.scope else instance.name
    content = problem_content(spec, instance)
    return Identity(name, content, program_digest(), version("cosmic-opt"), str(seed), search)


def differences(recorded: Identity, asked: Identity) -> list[str]:
    """Return what differs, each as "what: there, here"; empty when a search may go on with the study."""
    found = []
    if recorded.content != asked.content:
        if recorded.instance != asked.instance:
            found.append(f"instance: {recorded.instance} there, {asked.instance} here")
        there, here = (dict(_leaves("", json.loads(identity.content))) for identity in (recorded, asked))
        names = [*there, *(name for name in here if name not in there)]
        changed = [name for name in names if there.get(name) != here.get(name)]
        found += [f"{name}: {_show(there.get(name))} there, {_show(here.get(name))} here" for name in changed[:MOST]]
        if len(changed) > MOST:
            found.append(f"and {len(changed) - MOST} more")
    for name in ("seed", "search"):
        if getattr(recorded, name) != getattr(asked, name):
            found.append(f"{name}: {getattr(recorded, name)} there, {getattr(asked, name)} here")
    if recorded.program != asked.program:
        there_, here_ = (f"version {one.version}, source {one.program[:12]}" for one in (recorded, asked))
        found.append(f"program: {there_} there, {here_} here")
    return found


def _leaves(name: str, value: Any) -> Iterator[tuple[str, Any]]:
    """Yield the parts of a problem by name: "data.seq", "rules.fits", "columns.tp"."""
    if isinstance(value, dict):
        for key, part in value.items():
            yield from _leaves(f"{name}.{key}" if name else key, part)
    elif isinstance(value, list) and value and all(isinstance(part, list) and part for part in value):
        for key, *part in value:
            yield f"{name}.{key}", part[-1]
    else:
        yield name, value


def _show(value: Any) -> str:
    """Return a value on a few characters."""
    if value is None:
        return "nothing"
    if isinstance(value, list) and len(value) > 8:
        return f"{len(value)} values from {value[0]} to {value[-1]}"
    text = str(value)
    return text if len(text) <= 60 else f"{text[:57]}..."
