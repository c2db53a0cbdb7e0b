"""YAML with positions: every key and value knows its line, so that an error can name it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import yaml

from cosmic_opt.errors import SpecError, Where, nearest
from cosmic_opt.units import Unit, missing_unit, parse

MAX_BYTES = 1_000_000
MAX_NODES = 100_000
MAX_DEPTH = 30
MAX_DIGITS = 1000
"""Longer spellings are refused before they are read: Python may or may not read them, as the process is set."""
MAX_BITS = 256
"""A whole number with more bits is refused: nothing real needs it, and no message could show it."""
MAX_SHOWN = 80
"""Characters of a value that a message shows."""
_LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_MISSING = object()
_SCHEMAS = "start with 'schema: cosmic-opt/instance@1' (or model, system, workload, device, prices)"


@dataclass(frozen=True)
class Entry:
    """A value of a document: plain data, and where it stands.

    Reading methods check the kind of the value and raise a SpecError that names file, line and key.
    """

    value: Any
    where: Where
    lines: Mapping[tuple[str | int, ...], int] = field(repr=False)
    path: tuple[str | int, ...] = ()

    def _child(self, key: str | int) -> Entry:
        path = (*self.path, key)
        shown = ".".join(map(str, path))
        where = Where(self.where.file, self.lines.get(path, self.where.line), shown)
        return Entry(self.value[key], where, self.lines, path)

    def below(self, key: str) -> Where:
        """Return where a dotted key below this entry stands; a missing one stands at the nearest that is there."""
        path, line = self.path, self.where.line
        for part in key.split("."):
            path = (*path, part)
            line = self.lines.get(path, line)
        return Where(self.where.file, line, ".".join(map(str, path)))

    def fail(self, message: str, hint: str | None = None) -> SpecError:
        """Return an error at this entry."""
        return SpecError(message, where=self.where, hint=hint)

    def mapping(self) -> dict[str, Entry]:
        """Return the entries of a mapping, by key."""
        if not isinstance(self.value, dict):
            raise self.fail(f"expected 'key: value' lines, found {_kind(self.value)}")
        for key in self.value:
            if not isinstance(key, str):
                raise self.fail(f"the key {key!r} is not text", "write it in quotes")
        return {key: self._child(key) for key in self.value}

    def fields(self, *, required: tuple[str, ...] = (), optional: tuple[str, ...] = ()) -> dict[str, Entry]:
        """Return the entries of a mapping whose keys are known; an unknown or a missing key is an error."""
        entries = self.mapping()
        allowed = (*required, *optional)
        for key, entry in entries.items():
            if key not in allowed:
                raise entry.fail(f"unknown key {brief(key)}", nearest(key, allowed))
        for key in required:
            if key not in entries:
                raise self.fail(f"the key {key!r} is missing", f"required: {', '.join(required)}")
        return entries

    def items(self) -> list[Entry]:
        """Return the entries of a list."""
        if not isinstance(self.value, list):
            raise self.fail(f"expected a list, found {_kind(self.value)}", "write [a, b] or '- a' lines")
        return [self._child(position) for position in range(len(self.value))]

    def text(self) -> str:
        """Return non-empty text."""
        if not isinstance(self.value, str) or not self.value.strip():
            raise self.fail(f"expected text, found {_kind(self.value)}")
        return self.value.strip()

    def integer(self, *, low: int | None = None, high: int | None = None) -> int:
        """Return a whole number in [low, high]."""
        if isinstance(self.value, bool) or not isinstance(self.value, int):
            raise self.fail(f"expected a whole number, found {_kind(self.value)}")
        if (low is not None and self.value < low) or (high is not None and self.value > high):
            raise self.fail(f"{self.value} is out of range", f"allowed: {low} to {high if high is not None else 'any'}")
        return self.value

    def flag(self) -> bool:
        """Return a truth value."""
        if not isinstance(self.value, bool):
            raise self.fail(f"expected true or false, found {_kind(self.value)}", "write true or false")
        return self.value

    def quantity(self, unit: Unit) -> int:
        """Return a number in base units of `unit`.

        A bare number of bytes or bytes/s that is too small to be one is refused: ASTRA-sim's files, for one, have GB/s.
        """
        if isinstance(self.value, bool) or not isinstance(self.value, str | int | float):
            raise self.fail(f"expected a number with a unit, found {_kind(self.value)}")
        if isinstance(self.value, str | int) and (hint := missing_unit(self.value, unit, where=self.where)):
            raise self.fail(f"{self.value} what?", hint)
        return parse(self.value, unit, where=self.where)


def _kind(value: object) -> str:
    if value is None:
        return "nothing"
    if isinstance(value, dict):
        return "a mapping"
    if isinstance(value, list):
        return "a list"
    return brief(value)


def brief(value: object) -> str:
    """Return a value as code, cut where it is longer than a message should be: the file may not be the user's."""
    text = repr(value)
    return text if len(text) <= MAX_SHOWN else f"{text[:MAX_SHOWN]}..."


def read_yaml(text: str, file: str, *, if_empty: str = _SCHEMAS) -> Entry:
    """Parse one YAML document into entries; `if_empty` is the hint for a file without any.

    Raises:
        SpecError: not YAML, a repeated or a merge key, a tag, a document too large (aliases count as what they
            repeat) or empty.
    """
    if len(text) > MAX_BYTES:
        raise SpecError(f"the file has {len(text):,} characters", where=Where(file), hint=f"at most {MAX_BYTES:,}")
    try:
        node = yaml.compose(text, Loader=_LOADER)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark
        line = mark.line + 1 if mark else None
        raise SpecError(
            f"not YAML: {error.problem}",
            where=Where(file, line),
            hint="check indentation; quote a rule with '[' or ','",
        ) from None
    except (yaml.YAMLError, ValueError) as error:
        raise SpecError(f"not YAML: {error}", where=Where(file)) from None
    except RecursionError:
        raise SpecError("the file is nested too deeply", where=Where(file)) from None
    if node is None:
        raise SpecError("the file is empty", where=Where(file, 1), hint=if_empty)
    reader = _Reader(file)
    value = reader.plain(node, ())
    return Entry(value, Where(file, 1), reader.lines)


class _Reader:
    """Turns composed nodes into plain data and remembers the line of every path."""

    def __init__(self, file: str) -> None:
        self.file = file
        self.lines: dict[tuple[str | int, ...], int] = {}
        self.nodes = 0
        self.constructor = yaml.constructor.SafeConstructor()
        self.resolver = yaml.resolver.Resolver()

    def where(self, node: yaml.Node, path: tuple[str | int, ...]) -> Where:
        return Where(self.file, node.start_mark.line + 1, ".".join(map(str, path)) or None)

    def plain(self, node: yaml.Node, path: tuple[str | int, ...]) -> Any:
        self.nodes += 1
        if self.nodes > MAX_NODES or len(path) > MAX_DEPTH:
            raise SpecError("the file holds too many values, or nests too deeply", where=self.where(node, path))
        self.lines.setdefault(path, node.start_mark.line + 1)
        if isinstance(node, yaml.ScalarNode):
            return self.scalar(node, path)
        self.refuse_tag(node, path, type(node), "")
        if isinstance(node, yaml.MappingNode):
            return dict(self.pairs(node, path))
        return [self.plain(child, (*path, position)) for position, child in enumerate(node.value)]

    def scalar(self, node: yaml.ScalarNode, path: tuple[str | int, ...]) -> Any:
        """Return text, a number, a truth value or None; a date stays text."""
        self.refuse_tag(node, path, yaml.ScalarNode, node.value)
        if node.tag.rpartition(":")[2] not in ("int", "float", "bool", "null"):
            return node.value
        if len(node.value) > MAX_DIGITS:
            raise SpecError(f"the number {node.value[:40]}… is too large", where=self.where(node, path))
        try:
            value = self.constructor.construct_object(node)
        except ValueError:
            raise SpecError(f"{node.value[:40]!r} is not a number", where=self.where(node, path)) from None
        if isinstance(value, int) and value.bit_length() > MAX_BITS:
            raise SpecError(f"the number {node.value[:40]}… is too large", where=self.where(node, path))
        return value

    def refuse_tag(self, node: yaml.Node, path: tuple[str | int, ...], kind: type[yaml.Node], value: str) -> None:
        """Refuse a node whose tag is not the one its plain spelling has."""
        plain = isinstance(node, yaml.ScalarNode) and not node.style
        expected = self.resolver.resolve(kind, value, (plain, not plain))  # type: ignore[no-untyped-call]
        if node.tag != expected:
            tag = node.tag.replace("tag:yaml.org,2002:", "!!")
            raise SpecError(
                f"the tag {tag} has no meaning here", where=self.where(node, path), hint="write the value without it"
            )

    def pairs(self, node: yaml.MappingNode, path: tuple[str | int, ...]) -> Iterator[tuple[str | int, Any]]:
        seen: set[str | int] = set()
        for key_node, value_node in node.value:
            where = self.where(key_node, path)
            if not isinstance(key_node, yaml.ScalarNode):
                raise SpecError("a key must be plain text", where=where)
            if key_node.tag.endswith(":merge"):
                raise SpecError("merge keys ('<<') are not supported", where=where, hint="repeat the keys")
            key = self.scalar(key_node, path)
            if not isinstance(key, str | int):
                raise SpecError(f"the key {key_node.value!r} is not plain text", where=where, hint="write it in quotes")
            if key in seen:
                raise SpecError(f"the key {key!r} appears twice", where=where, hint="keep one of the two")
            seen.add(key)
            self.lines[(*path, key)] = key_node.start_mark.line + 1
            yield key, self.plain(value_node, (*path, key))


def expect_schema(root: Entry, kind: str, version: int = 1) -> None:
    """Check the `schema:` line: `cosmic-opt/<kind>@<version>`."""
    entries = root.mapping()
    wanted = f"cosmic-opt/{kind}@{version}"
    if "schema" not in entries:
        raise root.fail("the key 'schema' is missing", f"start the file with 'schema: {wanted}'")
    found = entries["schema"].text()
    if found != wanted:
        raise entries["schema"].fail(f"this is a {brief(found)} file", f"expected {wanted!r}")
