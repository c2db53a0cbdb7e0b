"""Where a study keeps the results of each kind of task, and how it finds them again."""

from __future__ import annotations

import hashlib
import sqlite3
import zlib
from dataclasses import dataclass, replace
from typing import Any, Generic, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from cosmic_opt.search.proof import Block
from cosmic_opt.search.tasks import (
    BoundBlock,
    KeptRegions,
    Scored,
    ScoreDesigns,
    SimulateDesigns,
    SolvedRegions,
    SolveRegions,
)

IntArray = NDArray[np.int64]
Kind = TypeVar("Kind")
Result = TypeVar("Result")

MOST_VARIABLES = 500
"""Designs looked up in one statement."""


class Shelf(Protocol[Kind, Result]):
    """The recorded results of one kind of task."""

    recalled: int
    """Results that were found here."""

    def count(self) -> int:
        """Return how many results are recorded."""

    def missing(self, task: Kind) -> Kind | None:
        """Return what of a task is not recorded."""

    def record(self, task: Kind, result: Result) -> None:
        """Add a result; one that is there already stays."""

    def recall(self, task: Kind) -> Result:
        """Return a result of which nothing is missing."""


DesignsTask = TypeVar("DesignsTask", ScoreDesigns, SimulateDesigns)


@dataclass
class Evaluations(Generic[DesignsTask]):
    """The score of each design, whoever asked for it; `table` is "evaluations", or "simulations" by events."""

    connection: sqlite3.Connection
    table: str
    recalled: int = 0

    def count(self) -> int:
        return _count(self.connection, self.table)

    def missing(self, task: DesignsTask) -> DesignsTask | None:
        known, seen = self._known(task), set[bytes]()
        rows = []
        for row, design in enumerate(_designs(task)):
            if design not in known and design not in seen:
                rows.append(row)
            seen.add(design)
        self.recalled += sum(design in known for design in seen)
        if len(rows) == len(task.codes):
            return task
        return replace(task, codes=task.codes[rows]) if rows else None

    def record(self, task: DesignsTask, result: Scored) -> None:
        rows = zip(_designs(task), result.ticks.tolist(), result.amounts.tolist(), strict=True)
        statement = f"INSERT OR IGNORE INTO {self.table} (design, ticks, amount) VALUES (?, ?, ?)"
        self.connection.executemany(statement, rows)

    def recall(self, task: DesignsTask) -> Scored:
        known = self._known(task)
        scores = np.array([known[design] for design in _designs(task)], dtype=np.int64).reshape(-1, 2)
        return Scored(scores[:, 0].copy(), scores[:, 1].copy())

    def _known(self, task: DesignsTask) -> dict[bytes, tuple[int, int]]:
        designs, known = _designs(task), dict[bytes, tuple[int, int]]()
        for start in range(0, len(designs), MOST_VARIABLES):
            part = designs[start : start + MOST_VARIABLES]
            marks = ",".join("?" * len(part))
            statement = f"SELECT design, ticks, amount FROM {self.table} WHERE design IN ({marks})"
            known |= {design: (ticks, amount) for design, ticks, amount in self.connection.execute(statement, part)}
        return known


@dataclass
class Blocks:
    """The bounds of each block of regions, against each incumbent that regions were bounded against."""

    connection: sqlite3.Connection
    recalled: int = 0

    def count(self) -> int:
        return _count(self.connection, "blocks")

    def missing(self, task: BoundBlock) -> BoundBlock | None:
        found = self.connection.execute("SELECT 1 FROM blocks WHERE key = ?", (self._key(task),)).fetchone()
        self.recalled += found is not None
        return task if found is None else None

    def record(self, task: BoundBlock, result: KeptRegions) -> None:
        block = result.block
        kept = np.column_stack([result.numbers, result.ticks, result.amounts])
        values = (
            self._key(task),
            _text_of(task.best),
            block.start,
            block.regions,
            str(block.designs),
            None if block.least is None else str(block.least),
            len(kept),
            _packed(kept),
        )
        self.connection.execute(
            "INSERT OR IGNORE INTO blocks (key, against, start, regions, designs, least, open, kept)"
            " VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
            values,
        )

    def recall(self, task: BoundBlock) -> KeptRegions:
        statement = "SELECT start, regions, designs, least, kept FROM blocks WHERE key = ?"
        start, regions, designs, least, kept = self.connection.execute(statement, (self._key(task),)).fetchone()
        block = Block(start, regions, int(designs), None if least is None else int(least))
        numbers, ticks, amounts = np.ascontiguousarray(_unpacked(kept, 3).T)
        return KeptRegions(block, numbers, ticks, amounts)

    @staticmethod
    def _key(task: BoundBlock) -> bytes:
        return _digest(f"{task.start} {_text_of(task.best)}".encode())


@dataclass
class Solutions:
    """What was found in some regions, in the order in which they were solved; only where all of them were closed."""

    connection: sqlite3.Connection
    recalled: int = 0

    def count(self) -> int:
        return _count(self.connection, "solved")

    def missing(self, task: SolveRegions) -> SolveRegions | None:
        """Return the task unless it is recorded and takes no more boxes than it may."""
        statement = "SELECT nodes FROM solved WHERE key = ?"
        found = self.connection.execute(statement, (self._key(task),)).fetchone()
        known = found is not None and found[0] <= task.max_nodes
        self.recalled += known
        return None if known else task

    def record(self, task: SolveRegions, result: SolvedRegions) -> None:
        if result.closed < len(task.numbers):
            return
        values = (
            self._key(task),
            result.nodes,
            result.closed,
            _packed(task.numbers.reshape(-1, 1)),
            _packed(result.results),
            _packed(result.chosen),
        )
        self.connection.execute(
            "INSERT OR IGNORE INTO solved (key, nodes, closed, regions, results, chosen) VALUES (?, ?, ?, ?, ?, ?)",
            values,
        )

    def recall(self, task: SolveRegions) -> SolvedRegions:
        statement = "SELECT results, chosen FROM solved WHERE key = ?"
        results, chosen = self.connection.execute(statement, (self._key(task),)).fetchone()
        count = len(task.numbers)
        dimensions = len(_unpacked(chosen, 1)) // max(1, count)
        return SolvedRegions(count, _unpacked(results, 3), _unpacked(chosen, dimensions))

    @staticmethod
    def _key(task: SolveRegions) -> bytes:
        parts = (task.numbers, task.ticks, task.amounts)
        return _digest(_text_of(task.best).encode(), *(_bytes_of(part) for part in parts))


def _count(connection: sqlite3.Connection, table: str) -> int:
    (count,) = connection.execute(f"SELECT count(*) FROM {table}").fetchone()
    return int(count)


def _designs(task: ScoreDesigns | SimulateDesigns) -> list[bytes]:
    """Return each design's codes as bytes: int32, little-endian."""
    return [row.tobytes() for row in np.ascontiguousarray(task.codes, dtype="<i4")]


def _text_of(best: tuple[int, int] | None) -> str:
    return "nothing" if best is None else f"{best[0]} {best[1]}"


def _digest(*parts: bytes) -> bytes:
    digest = hashlib.blake2b(digest_size=16)
    for part in parts:
        digest.update(len(part).to_bytes(8, "little"))
        digest.update(part)
    return digest.digest()


def _bytes_of(array: NDArray[Any]) -> bytes:
    return np.ascontiguousarray(array, dtype="<i8").tobytes()


def _packed(array: NDArray[Any]) -> bytes:
    return zlib.compress(_bytes_of(array), 1)


def _unpacked(blob: bytes, width: int) -> IntArray:
    """Return the int64 rows of a blob; writable, as compiled code expects."""
    return np.frombuffer(zlib.decompress(blob), dtype="<i8").astype(np.int64).reshape(-1, width)
