"""The space that Calculon sweeps, counted and proved on one core. Usage: python benchmarks/execution_space.py"""

from __future__ import annotations

import itertools
import os
import time

from cosmic_opt.api import Problem
from cosmic_opt.search.verify import verify
from cosmic_opt.workloads.training import OFFLOADS

INSTANCES = ("calculon/gpt3-175b-a100-1024", "calculon/gpt3-175b-h100-1024")
CALCULON_POINTS = 11_698_528
"""GPT-3 175B on 1,024 devices, batch up to 1,536, offload tier on: counted by running Calculon's own enumeration."""
CALCULON_RESIDENT_POINTS = 1_693_208
"""The same without the tier."""
CALCULON_CORE_HOURS = "27 to 37"
"""At the rates measured when all points are evaluated, 88 to 120 points/s."""
CAPACITIES = ("fits", "fits_host")


def main() -> None:
    os.sched_setaffinity(0, {0})
    Problem.load("cosmic/vit-base-system1").solve()  # compiles
    print(f"Calculon: {CALCULON_POINTS:,} points, {CALCULON_RESIDENT_POINTS:,} of them without its second memory tier;")
    print(f"{CALCULON_CORE_HOURS} core-hours of sweep, no proof\n")
    print(f"{'':43} {'CPU seconds of one core':>40}")
    header = f"{'instance':28} {'memory':8} {'points':>12} {'that fit':>12}"
    print(f"{header} {'count':>6} {'solve':>6} {'verify':>7}  optimum")
    for name in INSTANCES:
        for memory in ("one tier", "two"):
            problem = Problem.load(name)
            show(problem if memory == "two" else problem.fix(**dict.fromkeys(OFFLOADS, 0)), memory)


def show(problem: Problem, memory: str) -> None:
    points = problem.without(*CAPACITIES).count().value
    clock = [time.process_time()]
    fitting = problem.count().value
    clock.append(time.process_time())
    outcome = problem.solve()
    clock.append(time.process_time())
    accepted = all(check.passed for check in verify(problem.certificate(outcome)))
    clock.append(time.process_time())
    assert accepted
    counted, solved, verified = (after - before for before, after in itertools.pairwise(clock))
    print(
        f"{problem.instance.name:28} {memory:8} {points:>12,} {fitting:>12,} {counted:>6.2f} {solved:>6.2f} "
        f"{verified:>7.2f}  {outcome.status.value} {outcome.objective.show(outcome.value or 0):.4f} s",
        flush=True,
    )


if __name__ == "__main__":
    main()
