"""One process at a time on a study: an advisory lock that the kernel drops with its process, however that ends."""

from __future__ import annotations

import fcntl
import os
import socket
from dataclasses import dataclass
from pathlib import Path

from cosmic_opt.errors import SpecError, Where

WHERE = Where("--study")


@dataclass(frozen=True)
class Lock:
    """A lock that this process holds. `taken_over` says whose it was, when its owner ended without giving it back."""

    path: Path
    descriptor: int
    taken_over: str | None

    def release(self) -> None:
        """Give the lock back; the file goes while it is still ours, so nobody holds a file that is no longer there."""
        self.path.unlink(missing_ok=True)
        os.close(self.descriptor)


def acquire(study: Path) -> Lock:
    """Return the lock of a study, in the file beside it that says which process on which host holds it.

    Raises:
        SpecError: another process holds it (the error names it), or the folder cannot be written.
    """
    path = study.with_name(f"{study.name}.lock")
    while True:
        try:
            descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o644)
        except (OSError, ValueError) as error:
            hint, reason = "give a file in a folder you may write", getattr(error, "strerror", None) or error
            raise SpecError(f"cannot write beside {str(study)!r}: {reason}", where=WHERE, hint=hint) from None
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            owner = _owner(descriptor)
            os.close(descriptor)
            hint = "wait until it ends, or give another file"
            raise SpecError(
                f"{str(study)!r} is in use by {owner or 'another process'}", where=WHERE, hint=hint
            ) from None
        if _is_still(path, descriptor):
            break
        os.close(descriptor)  # its last owner removed it between our opening and locking it
    before = _owner(descriptor)
    try:
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, f"process {os.getpid()} on {socket.gethostname()}\n".encode(), 0)
    except OSError as error:
        os.close(descriptor)
        raise SpecError(
            f"cannot write beside {str(study)!r}: {error.strerror}", where=WHERE, hint="free some space on the disk"
        ) from None
    return Lock(path, descriptor, before)


def _owner(descriptor: int) -> str | None:
    """Return who wrote the lock file, if anyone."""
    return os.pread(descriptor, 200, 0).decode(errors="replace").strip() or None


def _is_still(path: Path, descriptor: int) -> bool:
    """Tell whether the open file is the one at the path."""
    try:
        return os.path.samestat(path.stat(), os.fstat(descriptor))
    except FileNotFoundError:
        return False
