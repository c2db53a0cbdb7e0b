"""Disjoint covers: a feasible set cut into regions of known size, by the values of some columns."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from cosmic_opt.feasibility.diagram import Diagram


@dataclass(frozen=True)
class Region:
    """The feasible designs with one choice of some columns: {column: code}, and how many they are (at least one)."""

    assignment: Mapping[int, int]
    size: int


Part = tuple[dict[int, int], int]


def cover_by(diagrams: Sequence[Diagram], columns: Sequence[int]) -> Iterator[Region]:
    """Yield a region for every feasible choice of `columns`.

    In order of code, column by column as given, within a component; components come in order, the last one changes
    first.

    Raises:
        LimitError: a component holds too many choices of its columns.
    """
    parts: list[list[Part]] = []
    for diagram in diagrams:
        own = [column for column in columns if column in diagram.order]
        parts.append(_choices(diagram, own) if own else [({}, diagram.size)])
    yield from _products(parts)


def cover_within(diagrams: Sequence[Diagram], designs: int, most: int) -> Iterator[Region]:
    """Yield at most `most` regions, in order of rank: each holds the ranks that follow those of the one before.

    A region is a choice of the first columns of the first components, as many of them as `most` allows; columns from
    `designs` on are helpers, which the others determine.
    """
    parts: list[list[Part]] = []
    left, cutting = most, True
    for diagram in diagrams:
        part: list[Part] = [({}, diagram.size)]
        if cutting:
            columns = [column for column in diagram.order if column < designs]
            depth = _deepest(diagram, columns, left)
            part = _choices(diagram, columns[:depth])
            left //= len(part)
            cutting = depth == len(columns)
        parts.append(part)
    yield from _products(parts)


def _deepest(diagram: Diagram, columns: Sequence[int], most: int) -> int:
    """Return how many of the first columns have at most `most` choices together."""
    for depth in range(1, len(columns) + 1):
        if diagram.choices_up_to(columns[:depth], most) > most:
            return depth - 1
    return len(columns)


def _choices(diagram: Diagram, columns: Sequence[int]) -> list[Part]:
    codes, counts = diagram.project(columns)
    return [
        (dict(zip(columns, row, strict=True)), int(count)) for row, count in zip(codes.tolist(), counts, strict=True)
    ]


def _products(parts: Sequence[Sequence[Part]]) -> Iterator[Region]:
    for combination in itertools.product(*parts):
        assignment: dict[int, int] = {}
        size = 1
        for codes, count in combination:
            assignment |= codes
            size *= count
        if size:
            yield Region(assignment, size)
