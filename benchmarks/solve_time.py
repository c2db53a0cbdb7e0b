"""Time to a proved optimum: every shipped instance, every objective. Usage: python benchmarks/solve_time.py"""

from __future__ import annotations

import time

from cosmic_opt.api import Problem
from cosmic_opt.catalog.store import instance_names

OBJECTIVES = ("step_time", "step_time * total_bandwidth", "step_time * network_cost")


def main() -> None:
    started = time.perf_counter()
    Problem.load("cosmic/vit-base-system1").solve()
    print(f"first solve, compilation included: {time.perf_counter() - started:.1f} s\n")
    print(f"{'instance':26} {'objective':28} {'status':8} {'designs':>20} {'regions':>8} {'boxes':>8} {'seconds':>8}")
    times = []
    for name in instance_names():
        for objective in OBJECTIVES:
            began = time.perf_counter()
            outcome = Problem.load(name).objective(objective).solve()
            times.append(time.perf_counter() - began)
            print(
                f"{name:26} {objective:28} {outcome.status.value:8} {outcome.feasible_designs:>20,} "
                f"{outcome.regions:>8,} {outcome.nodes:>8,} {times[-1]:>8.2f}",
                flush=True,
            )
    print(f"\nslowest {max(times):.2f} s, median {sorted(times)[len(times) // 2]:.2f} s")


if __name__ == "__main__":
    main()
