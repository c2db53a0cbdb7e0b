"""Studies: a file that remembers every result of a search, so that a killed run goes on where it was.

A result is a pure function of the problem and its task (`search.tasks`). A search that finds the result of a task in
its study does not work on it again; all else it does alike, so it ends with the answer of one that was never stopped.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from cosmic_opt.errors import SpecError, Where
from cosmic_opt.search.executor import Engine
from cosmic_opt.search.study_identity import Identity, differences
from cosmic_opt.search.study_lock import Lock, acquire
from cosmic_opt.search.study_shelves import Blocks, Evaluations, Shelf, Solutions
from cosmic_opt.search.study_store import check_path, open_to_read, open_to_write, readable_errors, transaction
from cosmic_opt.search.tasks import BoundBlock, ScoreDesigns, SimulateDesigns, SolveRegions, Task, Worker

Result = TypeVar("Result")

OPTION = Where("--study")


@dataclass(frozen=True)
class StudyReport:
    """What a study holds when a search ends, and what this search found in it.

    Attributes:
        file: Where it is.
        resumed: Whether it held anything before.
        evaluations, simulations: Designs with a recorded score: by closed forms, by events.
        blocks: Blocks of regions with recorded bounds.
        solved: Recorded solutions of some regions each.
        recalled: Of each of these four, how many results this search did not work out again.
        taken_over: The process whose lock was left behind, or None.
    """

    file: str
    resumed: bool
    evaluations: int
    simulations: int
    blocks: int
    solved: int
    recalled: Mapping[str, int]
    taken_over: str | None


@dataclass
class Study:
    """A study open for writing, by this process alone."""

    path: Path
    identity: Identity
    connection: sqlite3.Connection
    lock: Lock
    resumed: bool = field(init=False)

    def __post_init__(self) -> None:
        self.shelves: dict[type, Shelf[Any, Any]] = {
            ScoreDesigns: Evaluations[ScoreDesigns](self.connection, "evaluations"),
            SimulateDesigns: Evaluations[SimulateDesigns](self.connection, "simulations"),
            BoundBlock: Blocks(self.connection),
            SolveRegions: Solutions(self.connection),
        }
        self.resumed = any(shelf.count() for shelf in self.shelves.values())

    def missing(self, task: Task[Result]) -> Task[Result] | None:
        """Return what of a task is not recorded yet."""
        with self._errors():
            rest: Task[Result] | None = self.shelves[type(task)].missing(task)
        return rest

    def record(self, task: Task[Result], result: Result) -> None:
        """Keep the result of a task, whole or not at all."""
        with self._errors(), transaction(self.connection):
            self.shelves[type(task)].record(task, result)

    def recall(self, task: Task[Result]) -> Result:
        """Return the recorded result of a task of which nothing is missing."""
        with self._errors():
            result: Result = self.shelves[type(task)].recall(task)
        return result

    def note_agents(self, asked: int, states: Mapping[str, object]) -> None:
        """Keep the state of every agent's random generator after `asked` evaluations."""
        self._add("INSERT OR IGNORE INTO agents (asked, state) VALUES (?, ?)", asked, json.dumps(states))

    def note_incumbent(self, value: int, design: bytes, evaluations: int) -> None:
        """Keep a design (int32 codes) that was the best so far, and its objective value."""
        statement = "INSERT OR IGNORE INTO incumbents (value, design, evaluations) VALUES (?, ?, ?)"
        self._add(statement, str(value), design, evaluations)

    def note_answer(self, keys: Mapping[str, object]) -> None:
        """Keep how a search ended."""
        self._add("INSERT OR IGNORE INTO answers (keys) VALUES (?)", json.dumps(keys))

    def _add(self, statement: str, *values: object) -> None:
        with self._errors(), transaction(self.connection):
            self.connection.execute(statement, values)

    def report(self) -> StudyReport:
        """Return what the study holds."""
        with self._errors():
            names = ("evaluations", "simulations", "blocks", "solved")
            shelves = dict(zip(names, self.shelves.values(), strict=True))
            recalled = {name: shelf.recalled for name, shelf in shelves.items()}
            counts = {name: shelf.count() for name, shelf in shelves.items()}
        return StudyReport(str(self.path), self.resumed, **counts, recalled=recalled, taken_over=self.lock.taken_over)

    def _errors(self) -> Any:
        return readable_errors(self.path, OPTION)


@contextmanager
def open_study(path: Path, identity: Identity) -> Iterator[Study]:
    """Give the study in a file, made if there is none; nobody else may write it until the block ends.

    Raises:
        SpecError: it is in use, of another problem, program, seed or search, no study, or cannot be written.
        LimitError: the disk is full.
    """
    check_path(path, OPTION)
    lock = acquire(path)
    try:
        connection = open_to_write(path, identity.rows(), OPTION)
        try:
            with readable_errors(path, OPTION):
                recorded = identity_in(connection, path, OPTION)
            different = differences(recorded, identity)
            if different:
                hint = "give another file, or the options and the program of its first run"
                text = "\n    ".join(different)
                raise SpecError(f"{str(path)!r} is a study of something else:\n    {text}", where=OPTION, hint=hint)
            yield Study(path, identity, connection, lock)
        finally:
            with readable_errors(path, OPTION):
                connection.close()
    finally:
        lock.release()


@contextmanager
def read_study(path: Path, where: Where) -> Iterator[tuple[Identity, sqlite3.Connection]]:
    """Give the identity of a study and a connection that changes nothing; a search may be writing meanwhile.

    Raises:
        SpecError: no such file, no study, or one of a newer version.
    """
    connection = open_to_read(path, where)
    try:
        with readable_errors(path, where):
            yield identity_in(connection, path, where), connection
    finally:
        connection.close()


def identity_in(connection: sqlite3.Connection, path: Path, where: Where) -> Identity:
    """Return the identity that a study keeps."""
    try:
        return Identity.of_rows(dict(connection.execute("SELECT name, value FROM identity")))
    except KeyError as error:
        raise SpecError(f"{str(path)!r} does not say its {error}", where=where, hint="give another file") from None


@dataclass(frozen=True)
class Remembering:
    """An engine that looks into a study first, and records there what it had to work out."""

    engine: Engine
    study: Study

    @property
    def worker(self) -> Worker:
        """The problem, in this process."""
        return self.engine.worker

    def map(self, tasks: Sequence[Task[Result]]) -> Iterator[Result]:
        """Yield the result of each task, in order."""
        missing = [self.study.missing(task) for task in tasks]
        fresh = self.engine.map([rest for rest in missing if rest is not None])
        for task, rest in zip(tasks, missing, strict=True):
            if rest is None:
                yield self.study.recall(task)
                continue
            result = next(fresh)
            self.study.record(rest, result)
            yield result if rest is task else self.study.recall(task)
