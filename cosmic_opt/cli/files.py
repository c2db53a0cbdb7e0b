"""Result files: written beside their place and moved there whole, or not at all."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from secrets import token_hex
from typing import IO

from cosmic_opt.errors import SpecError, Where, close_names

OUT = Where("--out")


def check_target(path: Path, suffixes: Iterable[str], *, force: bool, where: Where = OUT) -> None:
    """Refuse a result file that could not be written, before any work is done.

    Raises:
        SpecError: an unknown suffix, no such folder, a folder, or an existing file without `force`.
    """
    try:
        if path.is_dir():
            raise SpecError(f"{str(path)!r} is a folder", where=where, hint="name a file in it")
        if path.suffix not in suffixes:
            raise SpecError(f"{path.name!r} has no known format", where=where, hint=f"name it {' or '.join(suffixes)}")
        if path.exists() and not force:
            raise SpecError(f"{str(path)!r} exists", where=where, hint="give another name, or --force to replace it")
        if not path.parent.is_dir():
            raise SpecError(f"there is no folder {str(path.parent)!r}", where=where, hint="make it first")
    except (OSError, ValueError) as error:
        raise SpecError(f"{str(path)!r} cannot be a file: {error}", where=where, hint="give a shorter name") from None


@contextmanager
def whole_file(path: Path, *, where: Where = OUT) -> Iterator[IO[str]]:
    """Give a temporary file in the same folder; it becomes `path` when the block ends, and vanishes if it fails.

    Raises:
        SpecError: the folder cannot be written, or the disk is full.
    """
    temporary: Path | None = None
    try:
        beside = path.parent / f".{path.name[:100]}.{token_hex(8)}.part"
        with beside.open("x", encoding="utf-8", newline="") as file:  # its mode is what the user's umask leaves
            temporary = beside
            yield file
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
        temporary = None
    except OSError as error:
        raise SpecError(
            f"cannot write {str(path)!r}: {error.strerror}", where=where, hint="give a file in a folder you may write"
        ) from None
    finally:
        if temporary is not None:
            temporary.unlink(missing_ok=True)


def is_pipe(path: Path) -> bool:
    """Return whether a path is a pipe; of what cannot even be looked at, `require_file` says why."""
    try:
        return path.is_fifo()
    except (OSError, ValueError):
        return False


def require_file(path: Path, option: str) -> None:
    """Refuse a path that is no file, naming the nearest file beside it.

    Raises:
        SpecError: no such file, a folder, or a device or pipe.
    """
    where, hint = Where(option), "name an existing file"
    try:
        if path.is_file():
            return
        there, folder = path.exists(), path.is_dir()
        beside = [other.name for other in path.parent.iterdir()] if path.parent.is_dir() else []
    except (OSError, ValueError) as error:
        raise SpecError(f"{str(path)!r} cannot be read: {error}", where=where, hint=hint) from None
    if folder:
        raise SpecError(f"{str(path)!r} is a folder, not a file", where=where, hint=hint)
    if there:
        hint = "save what it gives to a file, and name that"
        raise SpecError(f"{str(path)!r} is not a regular file", where=where, hint=hint)
    close = close_names(path.name, beside, most=1)
    raise SpecError(
        f"there is no file {str(path)!r}", where=where, hint=f"did you mean {close[0]!r}?" if close else hint
    )
