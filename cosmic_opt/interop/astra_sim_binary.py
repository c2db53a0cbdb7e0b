"""Runs a configured ASTRA-sim on an exported run: `COSMIC_OPT_ASTRA_SIM` or a path names its congestion-unaware binary.

Its exit code says little (it may be 0 without a result, or not 0 with one), so that only what every NPU reports counts.
"""

from __future__ import annotations

import os
import re
import signal
import subprocess
from functools import partial
from pathlib import Path
from tempfile import TemporaryFile
from typing import IO

from cosmic_opt.errors import LimitError, SpecError, Where
from cosmic_opt.interop.export_readme import COMMAND

VARIABLE = "COSMIC_OPT_ASTRA_SIM"
FINISHED = re.compile(rb"sys\[(\d{1,7})\] finished, (\d{1,18}) cycles")
LONGEST_S = 3600.0
TAIL = 300
"""Characters of its output that an error shows."""
PIECE_BYTES = 2**16
"""How much of a line is read at a time."""
REPEATED = re.compile(r"((?:\\x[0-9a-f]{2})|.)\1{7,}", re.DOTALL)
"""Eight or more of one character, escaped or not."""
NOT_KEPT = "the run is not kept: 'export --to FOLDER --run' writes it, runs it there and leaves it"
KEPT = "run the command of the README that export writes; docs/astra-sim.md lists what stops ASTRA-sim"


def configured_binary(path: Path | None = None) -> Path:
    """Return the binary at `path`, or the one that the environment names.

    Raises:
        SpecError: there is none, or no file that may be run.
    """
    where = Where("--astra-sim" if path is not None else f"environment variable {VARIABLE}")
    hint = f"give the path of {COMMAND[0]}: --astra-sim PATH, or {VARIABLE}"
    named = os.environ.get(VARIABLE, "") if path is None else str(path)
    if not named:
        raise SpecError("no ASTRA-sim is configured", where=where, hint=hint)
    try:
        runs = Path(named).is_file() and os.access(named, os.X_OK)
    except (OSError, ValueError):
        runs = False
    if not runs:
        raise SpecError(f"{named[:TAIL]!r} is no program", where=where, hint=hint)
    return Path(named).absolute()


def astra_sim_time_ns(
    binary: Path, folder: Path, npus: int, *, limit_s: float = LONGEST_S, is_kept: bool = True
) -> int:
    """Return when the last of `npus` NPUs finishes, as ASTRA-sim reports for the run in `folder`.

    Raises:
        SpecError: it cannot be started, or some NPU does not report an end; the message has the end of its output, and
            names the folder if it is kept afterwards.
        LimitError: it takes longer than `limit_s`; it and whatever it started are ended.
    """
    with TemporaryFile() as output:
        code = _run(binary, folder, output, limit_s)
        finished, tail = _read(output)
    if set(finished) != set(range(npus)):
        raise SpecError(
            f"{len(finished)} of {npus} NPUs finished ({_ending(code)}): {_shown(tail) or 'it printed nothing'}",
            where=Where(str(folder if is_kept else binary)),
            hint=KEPT if is_kept else NOT_KEPT,
        )
    return max(finished.values())


def _run(binary: Path, folder: Path, output: IO[bytes], limit_s: float) -> int:
    """Run it to its end and return its exit code; what it prints goes to `output`."""
    try:
        process = subprocess.Popen(
            [binary, *COMMAND[1:]],
            cwd=folder,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    except OSError as error:
        raise SpecError(
            f"ASTRA-sim cannot be started: {error.strerror}",
            where=Where(str(binary)),
            hint=f"check --astra-sim or {VARIABLE}",
        ) from error
    try:
        return process.wait(timeout=limit_s)
    except subprocess.TimeoutExpired:
        raise LimitError(
            f"ASTRA-sim takes longer than {limit_s:g} s", hint="take a smaller run: fewer layers, a smaller batch"
        ) from None
    finally:
        _end(process)


def _read(output: IO[bytes]) -> tuple[dict[int, int], bytes]:
    """Return when each NPU finishes, and the end of the output; a long line is read piece by piece."""
    output.seek(0)
    finished, tail = dict[int, int](), b""
    for piece in iter(partial(output.readline, PIECE_BYTES), b""):
        text = tail + piece
        finished.update((int(npu), int(cycles)) for npu, cycles in FINISHED.findall(text))
        tail = text[-TAIL - 1 :]
    return finished, tail


def _shown(tail: bytes) -> str:
    """Return the end of a program's output for a terminal: whole lines where there are any, nothing that acts on it."""
    cut, text = len(tail) > TAIL, tail.decode("utf-8", errors="backslashreplace")
    if cut:
        _, newline, rest = text.partition("\n")
        text = rest if newline and rest.strip() else "..." + text[1:]
    escaped = "".join(each if each.isprintable() or each == "\n" else _escaped(each) for each in text.strip(" \r\n\t"))
    return REPEATED.sub(lambda run: f"{run[1]} ({len(run[0]) // len(run[1])} times)", escaped)


def _escaped(character: str) -> str:
    number = ord(character)
    return f"\\x{number:02x}" if number < 256 else f"\\u{number:04x}"


def _end(process: subprocess.Popen[bytes]) -> None:
    """End a program that still runs, with whatever it started."""
    if process.poll() is None:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def _ending(code: int) -> str:
    return f"exit code {code}" if code >= 0 else f"ended by signal {-code}"
