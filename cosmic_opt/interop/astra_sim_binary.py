"""Runs a configured ASTRA-sim on an exported run: `COSMIC_OPT_ASTRA_SIM` or a path names its congestion-unaware binary.

Its exit code says little (it may be 0 without a result, or not 0 with one), so that only what every NPU reports counts.
"""

from __future__ import annotations

import os
import re
import signal
import subprocess
from pathlib import Path
from tempfile import TemporaryFile

from cosmic_opt.errors import LimitError, SpecError, Where
from cosmic_opt.interop.export_readme import COMMAND

VARIABLE = "COSMIC_OPT_ASTRA_SIM"
FINISHED = re.compile(rb"sys\[(\d{1,7})\] finished, (\d{1,18}) cycles")
LONGEST_S = 3600.0
TAIL = 300
"""Characters of its output that an error shows."""


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


def astra_sim_time_ns(binary: Path, folder: Path, npus: int, *, limit_s: float = LONGEST_S) -> int:
    """Return when the last of `npus` NPUs finishes, as ASTRA-sim reports for the run in `folder`.

    Raises:
        SpecError: it cannot be started, or some NPU does not report an end; the message has the end of its output.
        LimitError: it takes longer than `limit_s`; it and whatever it started are ended.
    """
    with TemporaryFile() as output:
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
            code = process.wait(timeout=limit_s)
        except subprocess.TimeoutExpired:
            raise LimitError(
                f"ASTRA-sim takes longer than {limit_s:g} s", hint="take a smaller run: fewer layers, a smaller batch"
            ) from None
        finally:
            _end(process)
        output.seek(0)
        finished, text = dict[int, int](), b""
        for line in output:
            finished.update((int(npu), int(cycles)) for npu, cycles in FINISHED.findall(line))
            text = (text + line)[-TAIL:]
    if set(finished) != set(range(npus)):
        shown = text.decode("utf-8", errors="replace").strip()
        raise SpecError(
            f"{len(finished)} of {npus} NPUs finished ({_ending(code)}): {shown or 'it printed nothing'}",
            where=Where(str(folder)),
            hint="run the command of the README that export writes; docs/astra-sim.md lists what stops ASTRA-sim",
        )
    return max(finished.values())


def _end(process: subprocess.Popen[bytes]) -> None:
    """End a program that still runs, with whatever it started."""
    if process.poll() is None:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def _ending(code: int) -> str:
    return f"exit code {code}" if code >= 0 else f"ended by signal {-code}"
