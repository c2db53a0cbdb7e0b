"""The space that Calculon sweeps, counted and proved on one core. Usage: python benchmarks/execution_space.py"""

from __future__ import annotations

import os
import time

from cosmic_opt.api import Problem
from cosmic_opt.search.verify import verify

INSTANCES = ("calculon/gpt3-175b-a100-1024", "calculon/gpt3-175b-h100-1024")
CALCULON_POINTS = 11_698_528
"""GPT-3 175B on 1,024 devices, batch up to 1,536, offload tier on: counted by running Calculon's own enumeration."""
CALCULON_CORE_HOURS = "27 to 37"
"""At the rates measured when all points are evaluated, 88 to 120 points/s."""


def main() -> None:
    os.sched_setaffinity(0, {0})
    Problem.load("cosmic/vit-base-system1").solve()  # compiles
    print(f"Calculon: {CALCULON_POINTS:,} points, {CALCULON_CORE_HOURS} core-hours of sweep, no proof\n")
    print(
        f"{'instance':32} {'points':>12} {'fit in memory':>14} {'count s':>8} {'solve s':>8} {'verify s':>9}  optimum"
    )
    for name in INSTANCES:
        problem = Problem.load(name)
        began = time.perf_counter()
        points, fitting = problem.without("fits").count().value, problem.count().value
        counted = time.perf_counter()
        outcome = problem.solve()
        solved = time.perf_counter()
        accepted = all(check.passed for check in verify(problem.certificate(outcome)))
        verified = time.perf_counter()
        assert accepted
        print(
            f"{name:32} {points:>12,} {fitting:>14,} {counted - began:>8.2f} {solved - counted:>8.2f} "
            f"{verified - solved:>9.2f}  {outcome.status.value} {outcome.objective.show(outcome.value or 0):.4f} s",
            flush=True,
        )


if __name__ == "__main__":
    main()
