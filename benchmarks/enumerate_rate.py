"""Designs per second of enumeration on one core: the diagram to Parquet, CSV and JSON lines, and CP-SAT's callback.

The problem is COSMIC's full stack, GPT-3 175B on System 2. Peak memory is that of a fresh process that only writes.
Needs Linux, to stay on one core.

    python benchmarks/enumerate_rate.py [designs]
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from arguments import number_given

from cosmic_opt.api import Problem
from cosmic_opt.psa.parameter_set import Codes
from cosmic_opt.solvers.base import Limits
from cosmic_opt.solvers.registry import load_solver

NAME = "cosmic/gpt3-175b-system2"
SECONDS = 5.0
CP_SAT_DESIGNS = 50_000
PROGRAM = """
import resource, sys
from cosmic_opt.cli.main import main
code = main(sys.argv[1:])
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, file=sys.stderr)
sys.exit(code)
"""


def one_core() -> None:
    """Keep this process and those it starts on one core, with one thread."""
    os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    os.environ |= {"OMP_NUM_THREADS": "1", "ARROW_NUM_THREADS": "1"}


def show(route: str, designs: int, seconds: float, memory_mb: float | None = None) -> None:
    peak = "" if memory_mb is None else f"{memory_mb:,.0f} MB"
    print(f"{route:<44}{designs:>12,}{seconds:>9.2f} s{designs / seconds:>13,.0f} /s{peak:>10}", flush=True)


def write(route: str, suffix: str, designs: int, *options: str) -> None:
    """Run the command as a user does, start of Python and loading of libraries included."""
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / f"designs{suffix}"
        command = ["enumerate", NAME, "--limit", str(designs), "--out", str(out), "--quiet", *options]
        start = time.perf_counter()
        done = subprocess.run(
            [sys.executable, "-c", PROGRAM, *command], capture_output=True, text=True, check=True, env=os.environ
        )
        show(route, designs, time.perf_counter() - start, int(done.stderr.split()[-1]) / 1000)


def listed(route: str, batches: Callable[[], Iterator[Codes]]) -> None:
    """Take batches of designs for a few seconds."""
    start, designs = time.perf_counter(), 0
    for codes in batches():
        designs += len(codes)
        if time.perf_counter() - start > SECONDS:
            break
    show(route, designs, time.perf_counter() - start)


def main(designs: int) -> None:
    one_core()
    print(f"{'one core, ' + NAME:<44}{'designs':>12}{'time':>11}{'rate':>16}{'peak':>10}")
    write("whole command, to Parquet", ".parquet", designs)
    write("whole command, to Parquet, ten times as many", ".parquet", 10 * designs)
    write("whole command, to Parquet with step_time", ".parquet", designs, "--with", "step_time,memory_per_npu")
    write("whole command, to CSV", ".csv", designs // 5)
    write("whole command, to JSON lines", ".jsonl", designs // 5)

    problem = Problem.load(NAME)
    listed("diagram, in memory", problem.feasible.chunks)
    listed(
        "CP-SAT callback, in memory",
        lambda: load_solver("cp_sat").enumerate(problem.model, limits=Limits(solutions=CP_SAT_DESIGNS)),
    )


if __name__ == "__main__":
    main(number_given(__doc__, 5_000_000))
