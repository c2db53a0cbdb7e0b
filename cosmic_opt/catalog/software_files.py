"""What files of stacks, engines and number formats share: opened by name or path, numbers, errors with a place."""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from cosmic_opt.catalog.store import data_root, display, read_document, shared_path
from cosmic_opt.errors import SpecError, Where, nearest
from cosmic_opt.psa.document import Entry


def open_software(kind: str, name: str) -> tuple[Entry, str]:
    """Return the document of a shipped stack or engine, or of a user's file, and what messages call it.

    Raises:
        SpecError: there is none of that name, or the file is of another kind.
    """
    path = shared_path(f"{kind}s", name, Path(), Where(key=kind))
    return read_document(path, kind), display(path)


@contextmanager
def blaming(file: str) -> Iterator[None]:
    """Give errors about values the file they come from; those that name a file keep it."""
    try:
        yield
    except SpecError as error:
        if error.where and error.where.file:
            raise
        key = error.where.key if error.where else None
        raise SpecError(error.message, where=Where(file, key=key), hint=error.hint) from None


def find_precision(kind: str, name: str) -> Entry:
    """Return what the shipped precisions of a kind of job say about one of them, in any case.

    Raises:
        SpecError: there is no such precision.
    """
    path = data_root() / "instances" / "_precisions" / f"{kind}.yaml"
    root = read_document(path, "precisions")
    recipes = root.fields(required=("recipes",), optional=("schema", "source"))["recipes"].mapping()
    if name.lower() not in recipes:
        raise SpecError(f"unknown precision {name!r}", where=Where(key="precision"), hint=nearest(name, recipes))
    return recipes[name.lower()]


def number(entry: Entry) -> float:
    """Return a finite number that is not negative."""
    value = entry.value
    if isinstance(value, str):  # YAML 1.1 reads 34e-6 as text
        try:
            value = float(value)
        except ValueError:
            raise entry.fail(f"{entry.value!r} is not a number", "write for example 34.0e-6") from None
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise entry.fail("expected a number", "write for example 0.7")
    if not math.isfinite(value) or value < 0:
        raise entry.fail(f"{value} is not a usable number", "give a finite number, zero or more")
    return float(value)


def numbers(entry: Entry) -> dict[str, float]:
    """Return the numbers of a mapping."""
    return {key: number(value) for key, value in entry.mapping().items()}
