"""The SQLite file of a study: its tables, its schema version, and what every error of SQLite means to a user."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from cosmic_opt.errors import CosmicError, LimitError, SpecError, Where

SCHEMA = 2
"""Version of the tables; kept in the file's `user_version`."""
APPLICATION = 0x434F5354
"""The file's `application_id`: "COST"."""

TABLES = {
    "identity": "name TEXT PRIMARY KEY, value TEXT NOT NULL",
    "evaluations": "number INTEGER PRIMARY KEY, design BLOB NOT NULL UNIQUE, ticks INTEGER NOT NULL,"
    " amount INTEGER NOT NULL",
    "simulations": "number INTEGER PRIMARY KEY, design BLOB NOT NULL UNIQUE, ticks INTEGER NOT NULL,"
    " amount INTEGER NOT NULL",
    "agents": "number INTEGER PRIMARY KEY, asked INTEGER NOT NULL, state TEXT NOT NULL, UNIQUE (asked, state)",
    "blocks": "number INTEGER PRIMARY KEY, key BLOB NOT NULL UNIQUE, against TEXT NOT NULL, start INTEGER NOT NULL,"
    " regions INTEGER NOT NULL, designs TEXT NOT NULL, least TEXT, open INTEGER NOT NULL, kept BLOB NOT NULL",
    "solved": "number INTEGER PRIMARY KEY, key BLOB NOT NULL UNIQUE, nodes INTEGER NOT NULL, closed INTEGER NOT NULL,"
    " regions BLOB NOT NULL, results BLOB NOT NULL, chosen BLOB NOT NULL",
    "incumbents": "number INTEGER PRIMARY KEY, value TEXT NOT NULL, design BLOB NOT NULL, evaluations INTEGER NOT NULL,"
    " UNIQUE (value, design)",
    "answers": "number INTEGER PRIMARY KEY, keys TEXT NOT NULL UNIQUE",
}
"""Rows are only ever added. Codes and numbers in blobs are little-endian; whole numbers of any size are text."""

FULL = ("SQLITE_FULL", "SQLITE_IOERR")
DAMAGED = ("SQLITE_CORRUPT", "SQLITE_NOTADB")
FORBIDDEN = ("SQLITE_READONLY", "SQLITE_CANTOPEN", "SQLITE_PERM", "SQLITE_AUTH")
BUSY = ("SQLITE_BUSY", "SQLITE_LOCKED")
ANOTHER = "give another file: this one stays as it is"


@contextmanager
def readable_errors(path: Path, where: Where) -> Iterator[None]:
    """Turn what SQLite says into what a user can do.

    Raises:
        LimitError: the disk is full or fails.
        SpecError: no right to write, or no whole SQLite file.
    """
    try:
        yield
    except sqlite3.Error as error:
        raise _explained(error, path, where) from error


def _explained(error: sqlite3.Error, path: Path, where: Where) -> CosmicError:
    name = getattr(error, "sqlite_errorname", None) or ""
    if name.startswith(FULL):
        return LimitError(
            f"cannot write {str(path)!r}: the disk is full or fails ({error})",
            where=where,
            hint="free some space and run the same command again: what was recorded is kept",
        )
    if name.startswith(DAMAGED):
        return SpecError(f"{str(path)!r} is no study, or damaged: {error}", where=where, hint=ANOTHER)
    if name.startswith(FORBIDDEN):
        hint = "give a file in a folder you may write"
        return SpecError(f"cannot open {str(path)!r}: {error}", where=where, hint=hint)
    if name.startswith(BUSY):
        return SpecError(f"{str(path)!r} is in use: {error}", where=where, hint="wait until that ends")
    raise error


def check_path(path: Path, where: Where) -> None:
    """Refuse a path that cannot be a study.

    Raises:
        SpecError: a folder, in no folder, or no path at all.
    """
    try:
        if path.is_dir():
            raise SpecError(f"{str(path)!r} is a folder", where=where, hint="name a file in it")
        if not path.parent.is_dir():
            raise SpecError(f"there is no folder {str(path.parent)!r}", where=where, hint="make it first")
        if path.exists() and not path.is_file():
            raise SpecError(f"{str(path)!r} is not a file", where=where, hint="name a file")
    except (OSError, ValueError) as error:
        raise SpecError(f"{str(path)!r} cannot be a file: {error}", where=where, hint="give a shorter name") from None


def open_to_write(path: Path, identity: Mapping[str, str], where: Where) -> sqlite3.Connection:
    """Return a connection to a study; it is made, with this identity, if the file does not exist or is empty.

    Commits survive the end of the process at any moment (write-ahead log; after a power failure the last may be
    missing, never half there).

    Raises:
        SpecError: the file is not one of ours, damaged, of a newer version, or cannot be written.
    """
    with readable_errors(path, where):
        connection = sqlite3.connect(path, isolation_level=None, timeout=2.0)
        try:
            if _is_new(connection, path, where):
                _make_tables(connection, identity)  # before the log, so that the file itself says what it is
            connection.execute("PRAGMA journal_mode = WAL")
            connection.execute("PRAGMA synchronous = NORMAL")
        except BaseException:
            connection.close()
            raise
        return connection


def is_study(path: Path) -> bool:
    """Tell whether a file begins like a study, of any version."""
    try:
        with path.open("rb") as file:
            header = file.read(100)
    except OSError:
        return False
    return header[:16] == b"SQLite format 3\0" and header[68:72] == APPLICATION.to_bytes(4, "big")


def open_to_read(path: Path, where: Where) -> sqlite3.Connection:
    """Return a connection that changes nothing, to a study that another process may be writing.

    Raises:
        SpecError: no such file, not one of ours, damaged, or of a newer version.
    """
    check_path(path, where)
    if not path.exists():
        raise SpecError(f"there is no file {str(path)!r}", where=where, hint="give a file that 'solve --study' made")
    with readable_errors(path, where):
        open_still = any(path.with_name(f"{path.name}{end}").exists() for end in ("-wal", "-journal"))
        mode = "mode=ro" if open_still else "mode=ro&immutable=1"  # a closed study may be in a read-only folder
        connection = sqlite3.connect(f"{path.absolute().as_uri()}?{mode}", uri=True, isolation_level=None, timeout=2.0)
        try:
            if _is_new(connection, path, where):
                raise SpecError(f"{str(path)!r} holds nothing", where=where, hint="run 'solve --study' with it first")
        except BaseException:
            connection.close()
            raise
        return connection


def _is_new(connection: sqlite3.Connection, path: Path, where: Where) -> bool:
    """Tell whether a file holds nothing yet; refuse one that is not a whole study of this version or an older one."""
    application, version = (_pragma(connection, name) for name in ("application_id", "user_version"))
    (tables,) = connection.execute("SELECT count(*) FROM sqlite_master").fetchone()
    if (application, version, tables) == (0, 0, 0):
        return True
    if application != APPLICATION:
        raise SpecError(f"{str(path)!r} is a database, but no study", where=where, hint=ANOTHER)
    if version != SCHEMA:
        raise SpecError(
            f"{str(path)!r} has schema version {version}, this program reads {SCHEMA}",
            where=where,
            hint="use the program that wrote it, or give another file",
        )
    (state,) = connection.execute("PRAGMA quick_check(1)").fetchone()
    if state != "ok":
        raise SpecError(f"{str(path)!r} is damaged: {state}", where=where, hint=ANOTHER)
    return False


def _pragma(connection: sqlite3.Connection, name: str) -> int:
    (value,) = connection.execute(f"PRAGMA {name}").fetchone()
    return int(value)


def _make_tables(connection: sqlite3.Connection, identity: Mapping[str, str]) -> None:
    """Make the tables, all or none, each protected against change and removal of rows."""
    with transaction(connection):
        for table, columns in TABLES.items():
            connection.execute(f"CREATE TABLE {table} ({columns})")
            for change in ("UPDATE", "DELETE"):
                connection.execute(
                    f"CREATE TRIGGER {table}_no_{change.lower()} BEFORE {change} ON {table} "
                    "BEGIN SELECT RAISE(ABORT, 'rows of a study are only added'); END"
                )
        connection.executemany("INSERT INTO identity VALUES (?, ?)", identity.items())
        connection.execute(f"PRAGMA application_id = {APPLICATION}")
        connection.execute(f"PRAGMA user_version = {SCHEMA}")


@contextmanager
def transaction(connection: sqlite3.Connection) -> Iterator[None]:
    """Commit all of the block, or nothing of it."""
    connection.execute("BEGIN IMMEDIATE")
    try:
        yield
    except BaseException:
        if connection.in_transaction:  # SQLite has rolled back by itself when the disk was full
            connection.execute("ROLLBACK")
        raise
    connection.execute("COMMIT")
