"""Runs a configured ASTRA-sim on an exported run: `COSMIC_OPT_ASTRA_SIM` names its congestion-unaware binary.

Its exit code says little (it may be 0 without a result, or not 0 with one), so that only what every NPU reports counts.
"""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path

from cosmic_opt.errors import LimitError, SpecError, Where
from cosmic_opt.interop.export_readme import COMMAND

VARIABLE = "COSMIC_OPT_ASTRA_SIM"
FINISHED = re.compile(r"sys\[(\d{1,7})\] finished, (\d{1,18}) cycles")
LONGEST_S = 3600
TAIL = 300
"""Characters of its output that an error shows."""


def configured_binary() -> Path:
    """Return the binary that the environment names.

    Raises:
        SpecError: it names none, or no file that may be run.
    """
    named = os.environ.get(VARIABLE, "")
    where = Where(f"environment variable {VARIABLE}")
    if not named:
        raise SpecError("no ASTRA-sim is configured", where=where, hint=f"set it to the path of {COMMAND[0]}")
    if not Path(named).is_file() or not os.access(named, os.X_OK):
        raise SpecError(f"{named!r} is no program", where=where, hint=f"set it to the path of {COMMAND[0]}")
    return Path(named).absolute()


def astra_sim_time_ns(binary: Path, folder: Path, npus: int) -> int:
    """Return when the last of `npus` NPUs finishes, as ASTRA-sim reports for the run in `folder`.

    Raises:
        SpecError: it cannot be started, or some NPU does not report an end; the message has the end of its output.
        LimitError: it takes longer than an hour.
    """
    try:
        done = subprocess.run(
            [binary, *COMMAND[1:]],
            cwd=folder,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=LONGEST_S,
            check=False,
        )
    except OSError as error:
        raise SpecError(
            f"ASTRA-sim cannot be started: {error.strerror}", where=Where(str(binary)), hint=f"check {VARIABLE}"
        ) from error
    except subprocess.TimeoutExpired:
        raise LimitError(f"ASTRA-sim takes longer than {LONGEST_S} s", hint="export a smaller run") from None
    text = done.stdout.decode("utf-8", errors="replace")
    finished = {int(npu): int(cycles) for npu, cycles in FINISHED.findall(text)}
    if set(finished) != set(range(npus)):
        raise SpecError(
            f"{len(finished)} of {npus} NPUs finished (exit code {done.returncode}): {text[-TAIL:].strip()}",
            where=Where(str(folder)),
            hint="run the command in the README there; docs/astra-sim.md lists what stops ASTRA-sim",
        )
    return max(finished.values())
